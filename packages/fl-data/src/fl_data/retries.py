"""Trying again what fails for a while: reads and writes over a network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from fl_data.errors import DataError
from fl_data.samples import check_count
from fl_tensor.annotations import checked

T = TypeVar("T")


@checked
def retry_with_backoff(
    fn: Callable[[], T],
    initial: float = 1.0,
    factor: float = 2.0,
    max_iters: int = 6,
    *,
    errors: type[BaseException] | tuple[type[BaseException], ...] = OSError,
) -> T:
    """What `fn()` gives, called up to `max_iters` times while it raises one of `errors`.

    Between two calls it sleeps: `initial` seconds at first, then each time `factor` times as long.
    The error of the last call is raised; others at once. Raises `DataError` unless `initial` and
    `factor` are finite and at least 0, and `max_iters` is at least 1.
    """
    check_count(max_iters, "max_iters", "retry_with_backoff", least=1)
    for name, value in (("initial", initial), ("factor", factor)):
        if not 0 <= value < math.inf:
            raise DataError(f"[retry_with_backoff] {name} {value} must be finite and at least 0")
    seconds = initial
    for _ in range(max_iters - 1):
        try:
            return fn()
        except errors:
            time.sleep(seconds)
            seconds *= factor
    return fn()
