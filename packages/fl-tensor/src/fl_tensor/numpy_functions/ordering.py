"""Order and sets: partial sorting, several keys, bins; union, intersection, difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of, prepare_all
from fl_tensor.numpy_functions.shaping import ravel

__all__ = [
    "argpartition",
    "digitize",
    "intersect1d",
    "lexsort",
    "partition",
    "setdiff1d",
    "setxor1d",
    "sort_complex",
    "union1d",
]

# ---- order ---------------------------------------------------------------------------------------


def partition(x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Any:
    """``x`` in an order along ``axis`` in which element ``kth`` is that of the sorted array, with
    no larger one before and no smaller one behind it. (The whole axis is sorted here.)"""
    return ft.take_along_axis(*_partitioned("partition", x, kth, axis))


def argpartition(x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Any:
    """The places of the elements of ``partition(x, kth, axis)``, int64."""
    return _partitioned("argpartition", x, kth, axis)[1]


def _partitioned(
    op: str, x: ArrayLike, kth: int | Sequence[int], axis: int | None
) -> tuple[Any, Any, int]:
    x = operand(op, "Q", x)
    if axis is None:
        x, axis = ravel(x), -1
    at = arguments.axis_of(op, axis, x.shape)
    for k in arguments.ints_of(op, kth, "kth"):
        if not -x.shape[at] <= k < x.shape[at]:
            raise ft.IndexingError(f"[{op}] kth {k} is out of range for axis {at} of {x.shape[at]}")
    return x, ft.argsort(x, at), at


def lexsort(keys: Sequence[ArrayLike] | ArrayLike, axis: int = -1) -> Any:
    """The places that sort by the last of ``keys``, equal ones by the one before, and so on: int64,
    in the shape of a key."""
    given = arguments.several_of("lexsort", keys, "keys", object, "a list of arrays")
    rows = [operand("lexsort", "Q", key) for key in prepare_all("lexsort", "A", given)]
    order = ft.argsort(rows[0], axis)
    for row in rows[1:]:
        order = ft.take_along_axis(
            order, ft.argsort(ft.take_along_axis(row, order, axis), axis), axis
        )
    return order


def sort_complex(x: ArrayLike) -> Any:
    """Complex numbers in the order of their real parts, equal ones of their imaginary parts, along
    the last axis. Real ``x`` becomes complex."""
    x = operand("sort_complex", "F", x)
    order = lexsort([ft.imag(x), ft.real(x)], -1)
    return ft.take_along_axis(cast(x, dtypes.complex_of(x.dtype)), order, -1)


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Any:
    """The number of the bin of each element, int64. Of ascending ``bins`` i such that
    ``bins[i-1] <= x < bins[i]``, with ``right`` ``bins[i-1] < x <= bins[i]``; of descending ones
    with the sides exchanged. 0 and ``len(bins)`` are the sides outside. Reads ``bins``."""
    x, bins = operands_of("digitize", "QQ", x, bins)
    side = "left" if right else "right"
    if not ft.any(bins[1:] < bins[:-1]).item():
        return ft.searchsorted(bins, x, side)
    if ft.any(bins[1:] > bins[:-1]).item():
        raise ft.ArgumentError("[digitize] bins must be in ascending or in descending order")
    return bins.size - ft.searchsorted(ft.flip(bins), x, side)


# ---- sets ----------------------------------------------------------------------------------------


class Intersection(NamedTuple):
    """Values that two arrays share, and where each has them first, in C order."""

    values: Any
    first: Any
    second: Any


def union1d(x: ArrayLike, y: ArrayLike) -> Any:
    """The distinct elements of both, in ascending order."""
    x, y = operands_of("union1d", "PP", x, y)
    return ft.unique(ft.concatenate([ravel(x), ravel(y)], 0))


def intersect1d(
    x: ArrayLike, y: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The distinct elements that are in both, in ascending order; with ``return_indices`` a tuple
    that holds also where they are first. ``assume_unique`` is not needed, and ignored."""
    x, y = operands_of("intersect1d", "QQ", x, y)
    left, first = ft.unique(x, return_index=True)
    right, second = ft.unique(y, return_index=True)
    shared = ft.isin(left, right)
    if not return_indices:
        return left[shared]
    return Intersection(left[shared], first[shared], second[ft.isin(right, left)])


def setdiff1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> Any:
    """The distinct elements of ``x`` that are not in ``y``, in ascending order; with
    ``assume_unique`` in the order of ``x``."""
    x, y = operands_of("setdiff1d", "QQ", x, y)
    values = ravel(x) if assume_unique else ft.unique(x)
    return values[ft.isin(values, y, invert=True)]


def setxor1d(x: ArrayLike, y: ArrayLike, assume_unique: bool = False) -> Any:
    """The distinct elements that are in one of the two only, in ascending order. ``assume_unique``
    is not needed, and ignored."""
    return union1d(setdiff1d(x, y), setdiff1d(y, x))
