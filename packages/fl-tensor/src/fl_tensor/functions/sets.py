"""Public set functions: NumPy's ``unique`` and the array API's four functions."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from fl_tensor import functions
from fl_tensor.arguments import axis_of, refuse
from fl_tensor.dispatch.frontend import ArrayLike, operand, run
from fl_tensor.functions.creation import full_like
from fl_tensor.functions.gathering import gather, nonzero
from fl_tensor.functions.reducing import diff
from fl_tensor.functions.shaping import moveaxis, reshape

__all__ = ["unique", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """Distinct values, where each occurs first, the number of every element's value among them (in
    the shape of x), and how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct values, and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct values, and the number of every element's value among them (in the shape of x)."""

    values: Any
    inverse_indices: Any


def _unique(op: str, x: ArrayLike, axis: int | None, equal_nan: bool) -> UniqueAll:
    x = operand(op, "A", x)
    if axis is None:
        flat = reshape(x, (-1,))
        values, first, inverse, counts = run("unique", flat, flat._raw, equal_nan)
        return UniqueAll(values, first, reshape(inverse, x.shape), counts)
    at = axis_of(op, axis, x.shape)
    front = moveaxis(x, at, 0) if at else x
    values, first, inverse, counts = run("unique", front, front._raw, equal_nan)
    values = moveaxis(values, 0, at) if at else values
    return UniqueAll(values, first, inverse, counts)


def _values(op: str, x: ArrayLike, equal_nan: bool) -> UniqueCounts:
    # A sort without its order, which is much faster. It has no complex numbers.
    x = operand(op, "A", x)
    if x.dtype.kind == "c":
        found = _unique(op, x, None, equal_nan)
        return UniqueCounts(found.values, found.counts)
    ordered = functions.sort(reshape(x, (-1,)), 0)
    after, before = ordered[1:], ordered[:-1]
    differ = after != before
    if equal_nan and x.dtype.is_floating:
        differ = differ & ~(functions.isnan(after) & functions.isnan(before))
    first = full_like(ordered[:1], True, "bool")
    (places,) = nonzero(functions.concatenate([first, differ], 0))
    counts = diff(places, append=x.size)
    return UniqueCounts(gather(ordered, places, 0), counts)


def unique(
    x: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    equal_nan: bool = True,
    **foreign: NoReturn,
) -> Any:
    """The distinct elements in ascending order, or the distinct slices along ``axis``; with any
    ``return_`` a tuple that holds also where each occurs first, the number of every element's value
    among the distinct, how often each occurs. The result's shape depends on data."""
    if foreign:
        refuse("unique", foreign)
    if axis is None and not (return_index or return_inverse):
        distinct = _values("unique", x, equal_nan)
        return tuple(distinct) if return_counts else distinct.values
    found = _unique("unique", x, axis, equal_nan)
    requested = (True, return_index, return_inverse, return_counts)
    parts = tuple(part for part, wanted in zip(found, requested, strict=True) if wanted)
    return parts if len(parts) > 1 else parts[0]


def unique_all(x: ArrayLike) -> UniqueAll:
    """Distinct values, first positions, inverse and counts; NaNs are all different (array API)."""
    return _unique("unique_all", x, None, False)


def unique_counts(x: ArrayLike) -> UniqueCounts:
    """Distinct values and their counts; NaNs are all different (array API)."""
    return _values("unique_counts", x, False)


def unique_inverse(x: ArrayLike) -> UniqueInverse:
    """Distinct values and the inverse; NaNs are all different (array API)."""
    found = _unique("unique_inverse", x, None, False)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: ArrayLike) -> Any:
    """Distinct values; NaNs are all different (array API)."""
    return _values("unique_values", x, False).values
