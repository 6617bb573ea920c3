"""Threads over the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fl_tensor.threads import get_num_threads


def in_threads(compute: Callable[[int, int], object], samples: int, worth: int) -> None:
    """`compute(first, last)` of all samples, in at most `worth` threads."""
    parts = min(get_num_threads(), samples, worth)
    if parts <= 1:
        compute(0, samples)
        return
    bounds = [samples * k // parts for k in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(compute, bounds[:-1], bounds[1:]))
