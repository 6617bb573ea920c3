"""``cached_composition``: compositions that are traced once and then replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound="Callable[..., object]")


def cached_composition(function: F) -> F:
    """Decorates ``function(ops, x, ...)``, a composition such as a derived operation or a gradient
    rule: its arguments are adapters, None and plain values, and the operations that it calls depend
    on nothing but shapes, dtypes and plain values. It returns an adapter, or a tuple of adapters
    and None.

    On a backend whose class defines ``TensorBackend.call_composition``, that is called in place of
    the function. Everywhere else the function runs: under overrides and wrappers, on tapes, with
    arguments by name, and in classes that only inherit ``call_composition``.
    """

    @functools.wraps(function)
    def composition(ops: object, *arguments: object, **options: object) -> object:
        call = ops.__class__.__dict__.get("call_composition")
        if call is None or options:
            return function(ops, *arguments, **options)
        return call(ops, function, arguments)

    return composition  # type: ignore[return-value]
