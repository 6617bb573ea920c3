"""Operands of several kinds that go to one backend."""

from __future__ import annotations

from typing import Any

from fl_tensor.arguments import SCALARS
from fl_tensor.dispatch.frontend import operands_of

__all__: list[str] = []


def together(op: str, *xs: Any) -> list[Any]:
    """The arrays among ``xs`` as arrays of one class on one backend, each in its own dtype; None
    and Python's numbers, which are weak beside arrays, as they are."""
    arrays = [None if isinstance(x, SCALARS) else x for x in xs]
    if all(x is None for x in arrays):
        return list(xs)
    made = operands_of(op, "a" * len(xs), *arrays)
    return [x if array is None else array for x, array in zip(xs, made)]
