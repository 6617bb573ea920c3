"""Searching and counting by sorting, with shapes that do not depend on data where possible."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.roles import A, F, Ops, Q

__all__ = ["argwhere", "bincount", "histogram", "isin", "searchsorted", "unique"]


def argwhere(ops: Ops, x: A) -> Any:
    """The index of every element that is not zero, in C order: (count, axes) int64."""
    if not x.shape:
        (places,) = ops.nonzero(ops.reshape(x, (1,)))
        return ops.full((places.shape[0], 0), 0, dtypes.int64, x.device)
    return ops.stack(list(ops.nonzero(x)), 1)


def _numbers(ops: Ops, count: int, x: Any) -> Any:
    return ops.arange(0, count, 1, dtypes.int64, x.device)


def _ranks(ops: Ops, x: Any) -> Any:
    # The place that each element of the vector x takes when sorted; equal ones keep their order.
    (count,) = x.shape
    order = ops.argsort(x, 0)
    places = _numbers(ops, count, x)
    return ops.scatter(places, order, places, 0, "set")


def searchsorted(ops: Ops, x: Q, values: Q, side: str = "left") -> Any:
    """Where ``values`` (any shape) belong in the ascending vector ``x``: int64 i such that
    ``x[:i] < value <= x[i:]``, or ``<= value <`` with ``side="right"``. NaN is the
    largest value."""
    if side not in ("left", "right"):
        raise ArgumentError(f"[searchsorted] side {side!r}: expected 'left' or 'right'")
    if len(x.shape) != 1:
        raise ShapeError(f"[searchsorted] x {x.shape}: expected one axis")
    # A value's place among all, less the values before it, is the number of elements before it.
    # The sort is stable, so what comes first here comes first among equals.
    (size,) = x.shape
    count = math.prod(values.shape)
    flat = ops.reshape(values, (count,))
    both = [flat, x] if side == "left" else [x, flat]
    start = 0 if side == "left" else size
    among_all = ops.slice(_ranks(ops, ops.concatenate(both, 0)), (start,), (count,), (1,))
    return ops.reshape(ops.subtract(among_all, _ranks(ops, flat)), values.shape)


def isin(ops: Ops, x: Q, values: Q, invert: bool = False) -> Any:
    """Whether each element of ``x`` equals one of ``values`` (any shape), or with ``invert`` none
    of them. NaN equals nothing."""
    count = math.prod(values.shape)
    if count == 0:
        return ops.full(x.shape, invert, dtypes.bool, x.device)
    known = ops.sort(ops.reshape(values, (count,)), 0)
    place = ops.searchsorted(known, x)
    last = ops.constant(count - 1, place)
    found = ops.equal(ops.gather(known, ops.minimum(place, last), 0), x)
    return ops.bitwise_invert(found) if invert else found


def bincount(ops: Ops, x: A, length: int, weights: F | None = None) -> Any:
    """How often each of 0 .. ``length`` - 1 occurs in the integers ``x``, int64; or the sums of
    their ``weights`` (shape of ``x``). All of ``x`` are in that range."""
    if not x.dtype.is_integer:
        raise DTypeError(f"[bincount] x is {x.dtype}: expected integers")
    if weights is not None and weights.shape != x.shape:
        raise ShapeError(f"[bincount] x {x.shape} and weights {weights.shape}: shapes differ")
    count = math.prod(x.shape)
    places = ops.cast(ops.reshape(x, (count,)), dtypes.int64)
    if weights is None:
        ones = ops.full((count,), 1, dtypes.int64, x.device)
    else:
        ones = ops.reshape(weights, (count,))
    return ops.scatter(ops.full((length,), 0, ones.dtype, x.device), places, ones, 0, "add")


def histogram(ops: Ops, x: Q, edges: Q, weights: F | None = None) -> Any:
    """How many elements of ``x`` lie in each bin between neighbours of the ascending ``edges``
    (bins + 1,), int64; or the sums of their ``weights``. A bin has its lower edge, the last one
    also its upper. Elements outside and NaN are not counted."""
    if len(edges.shape) != 1 or edges.shape[0] < 2:
        raise ShapeError(f"[histogram] edges {edges.shape}: expected a vector of two or more")
    bins = edges.shape[0] - 1
    # Slot 0 is below all bins, slot bins + 1 above them, NaN included.
    slot = ops.searchsorted(edges, x, "right")
    top = ops.slice(edges, (bins,), (1,), (1,))
    slot = ops.where(ops.equal(x, ops.reshape(top, ())), ops.constant(bins, slot), slot)
    return ops.slice(ops.bincount(slot, bins + 2, weights), (1,), (bins,), (1,))


def unique(ops: Ops, x: A, equal_nan: bool = True) -> tuple[Any, Any, Any, Any]:
    """The distinct slices of ``x`` (n, ...) along its first axis in ascending order (of several
    elements, and of the parts of complex ones, the first counts most); where each occurs first; for
    every slice the number of its equal among the distinct; and how often each occurs. NaNs are
    equal, or all different."""
    count, size = x.shape[0], math.prod(x.shape[1:])
    rows = ops.reshape(x, (count, size))
    order = _numbers(ops, count, x)
    for column in reversed(range(size)):
        key = ops.reshape(ops.slice(rows, (0, column), (count, 1), (1, 1)), (count,))
        for part in [ops.imag(key), ops.real(key)] if x.dtype.kind == "c" else [key]:
            order = ops.gather(order, ops.argsort(ops.gather(part, order, 0), 0), 0)
    ordered = ops.gather(rows, order, 0)
    rest = max(count - 1, 0)
    before = ops.slice(ordered, (0, 0), (rest, size), (1, 1))
    after = ops.slice(ordered, (count - rest, 0), (rest, size), (1, 1))
    differ = ops.not_equal(after, before)
    if equal_nan and x.dtype.kind in "fc":
        same = ops.logical_and(ops.isnan(after), ops.isnan(before))
        differ = ops.logical_and(differ, ops.logical_not(same))
    starts = ops.concatenate(
        [ops.full((count - rest,), True, dtypes.bool, x.device), ops.any(differ, (1,), False)], 0
    )
    (places,) = ops.nonzero(starts)
    first = ops.gather(order, places, 0)
    group = ops.cumulative_sum(ops.cast(starts, dtypes.int64), 0)
    group = ops.subtract(group, ops.constant(1, group))
    inverse = ops.scatter(_numbers(ops, count, x), order, group, 0, "set")
    counts = ops.diff(places, 1, 0, None, ops.constant(count, places))
    return ops.gather(x, first, 0), first, inverse, counts
