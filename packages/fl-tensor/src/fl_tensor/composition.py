"""``traced_once``: compositions that are traced once and then replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound="Callable[..., object]")


def traced_once(function: F) -> F:
    """Decorates ``function(ops, x, ...)``, a composition such as a derived operation or a gradient
    rule: its arguments are adapters, None and plain values, and the operations that it calls depend
    on nothing but shapes, dtypes and plain values. It returns an adapter, or a tuple of adapters
    and None.

    A backend that defers may then have ``replay(function, arguments)``, which puts off at once what
    the function called when it had such arguments before. Everywhere else, under overrides, under
    wrappers, on tapes, and in classes derived from such a backend, the function runs.
    """

    @functools.wraps(function)
    def composition(ops: object, *arguments: object, **options: object) -> object:
        replay = ops.__class__.__dict__.get("replay")
        if replay is None or options:
            return function(ops, *arguments, **options)
        return replay(ops, function, arguments)

    return composition  # type: ignore[return-value]
