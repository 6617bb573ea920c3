"""Order statistics and weighted means."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fl_tensor import dtypes
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ArgumentError
from fl_tensor.roles import Axes, F, Ops, S, Shape

__all__ = ["average", "median", "nanmedian", "nanquantile", "quantile"]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


@in_float32
def average(ops: Ops, x: F, weights: F, axis: Axes, keepdims: bool = False) -> Any:
    """``sum(x * weights) / sum(weights)`` over axes; the weights broadcast to the shape of
    ``x``."""
    weights = ops.broadcast_to(weights, x.shape)
    total = ops.sum(ops.multiply(x, weights), axis, keepdims)
    return ops.divide(total, ops.sum(weights, axis, keepdims))


class Rows(NamedTuple):
    """What is reduced, (..., n), and the shape of the result."""

    values: Any
    shape: Shape


def rows(ops: Ops, x: Any, axis: Axes, keepdims: bool) -> Rows:
    """``x`` with the elements of ``axis`` along the last one, in no particular order."""
    rest = tuple(i for i in range(len(x.shape)) if i not in axis)
    lead = tuple(x.shape[i] for i in rest)
    size = math.prod(x.shape[i] for i in axis)
    values = ops.reshape(ops.permute(x, (*rest, *axis)), (*lead, size))
    kept = tuple(1 if i in axis else n for i, n in enumerate(x.shape)) if keepdims else lead
    return Rows(values, kept)


def _ordered(ops: Ops, x: Any, axis: Axes, keepdims: bool) -> Rows:
    # In ascending order, NaN last.
    values, shape = rows(ops, x, axis, keepdims)
    return Rows(ops.sort(values, len(values.shape) - 1), shape)


def check_shares(op: str, q: tuple[float, ...], method: str) -> None:
    """ArgumentError for shares outside [0, 1], and for a method that is none."""
    if method not in METHODS:
        raise ArgumentError(f"[{op}] method {method!r}: expected one of {', '.join(METHODS)}")
    if bad := [v for v in q if not 0.0 <= v <= 1.0]:
        raise ArgumentError(f"[{op}] q {bad[0]}: expected a number in [0, 1]")


def _between(ops: Ops, low: Any, high: Any, share: Any) -> Any:
    # low + share (high - low), exact where both are equal, infinities included.
    inner = ops.multiply(low, ops.subtract(ops.constant(1.0, share), share))
    inner = ops.add(inner, ops.multiply(high, share))
    return ops.where(ops.equal(low, high), low, inner)


def _share(place: float, method: str) -> tuple[int, float]:
    """The element before ``place``, and the share of the one after it."""
    low = math.floor(place)
    share = place - low
    if method == "lower":
        share = 0.0
    elif method == "higher":
        share = float(share > 0)
    elif method == "midpoint":
        share = 0.5 if share > 0 else 0.0
    elif method == "nearest":  # halves to even
        share = float(share > 0.5 or (share == 0.5 and low % 2 == 1))
    return low, share


@in_float32
def quantile(
    ops: Ops,
    x: S,
    q: tuple[float, ...],
    axis: Axes,
    keepdims: bool = False,
    method: str = "linear",
) -> Any:
    """The values that shares ``q`` of the elements over axes do not exceed, one after the other
    along a new first axis: (len(q), *reduced). Between two elements ``method`` decides:
    ``"linear"`` interpolation, the ``"lower"``, the ``"higher"``, their ``"midpoint"``, the
    ``"nearest"``. NaN where there is one, and over nothing."""
    check_shares("quantile", q, method)
    ordered, shape = _ordered(ops, x, axis, keepdims)
    return at_shares(ops, ordered, shape, q, method)


def places(q: tuple[float, ...], size: int, method: str) -> set[int]:
    """Which of ``size`` elements in ascending order the shares ``q`` need, besides the last."""
    found = [_share(each * (size - 1), method) for each in q]
    return {low + i for low, share in found for i in (0, 1) if share != 1 - i}


def at_shares(ops: Ops, ordered: Any, shape: Shape, q: tuple[float, ...], method: str) -> Any:
    """``quantile`` of rows (..., n) in ascending order, for results of ``shape``. Only the elements
    at ``places`` and the last one are read; that is NaN where there is one."""
    x = ordered
    size, rank = ordered.shape[-1], len(ordered.shape)
    if size == 0 or not q:
        return ops.full((len(q), *shape), math.nan, x.dtype, x.device)

    def element(i: int) -> Any:
        starts = (*(0,) * (rank - 1), i)
        return ops.slice(ordered, starts, (*ordered.shape[:-1], 1), (1,) * rank)

    found = []
    for each in q:
        low, share = _share(each * (size - 1), method)
        if share in (0.0, 1.0):
            value = element(low + int(share))
        else:
            value = _between(ops, element(low), element(low + 1), ops.constant(share, x))
        found.append(ops.reshape(value, (1, *shape)))
    missing = ops.reshape(ops.isnan(element(size - 1)), (1, *shape))
    return ops.where(missing, ops.constant(math.nan, x), ops.concatenate(found, 0))


@in_float32
def nanquantile(
    ops: Ops,
    x: S,
    q: tuple[float, ...],
    axis: Axes,
    keepdims: bool = False,
    method: str = "linear",
) -> Any:
    """``quantile`` of what is no NaN: (len(q), *reduced); NaN over nothing."""
    check_shares("nanquantile", q, method)
    ordered, shape = _ordered(ops, x, axis, keepdims)
    size, last = ordered.shape[-1], len(ordered.shape) - 1
    if size == 0 or not q:
        return ops.full((len(q), *shape), math.nan, x.dtype, x.device)
    # Rows differ in length, so that places are computed here.
    present = ops.count_nonzero(ops.logical_not(ops.isnan(ordered)), (last,), True)
    top = ops.maximum(ops.subtract(present, ops.constant(1, present)), ops.constant(0, present))
    found = []
    for each in q:
        span = ops.cast(top, x.dtype)
        place = ops.multiply(span, ops.constant(each, span))
        before = ops.floor(place)
        share = _shares(ops, ops.subtract(place, before), before, method)
        low = ops.minimum(ops.cast(before, dtypes.int64), top)  # a long row's may be rounded up
        high = ops.minimum(ops.add(low, ops.constant(1, low)), top)
        a, b = (ops.take_along_axis(ordered, i, last) for i in (low, high))
        value = ops.where(ops.equal(share, ops.constant(0.0, share)), a, _between(ops, a, b, share))
        value = ops.where(ops.equal(share, ops.constant(1.0, share)), b, value)
        found.append(ops.reshape(value, (1, *shape)))
    return ops.concatenate(found, 0)


def _shares(ops: Ops, share: Any, before: Any, method: str) -> Any:
    # As ``_share``, for places that differ by row.
    zero, half, one = (ops.constant(v, share) for v in (0.0, 0.5, 1.0))
    between = ops.less(zero, share)
    if method == "linear":
        return share
    if method == "lower":
        return ops.where(between, zero, share)
    if method == "higher":
        return ops.where(between, one, zero)
    if method == "midpoint":
        return ops.where(between, half, zero)
    odd = ops.equal(ops.remainder(before, ops.constant(2.0, before)), one)
    up = ops.logical_or(ops.less(half, share), ops.logical_and(ops.equal(share, half), odd))
    return ops.where(up, one, zero)


def _single(ops: Ops, x: Any) -> Any:
    return ops.reshape(x, x.shape[1:])


def median(ops: Ops, x: S, axis: Axes, keepdims: bool = False) -> Any:
    """The middle element over axes, of an even number the mean of the two in the middle; NaN where
    there is one, and over nothing."""
    return _single(ops, ops.quantile(x, (0.5,), axis, keepdims))


def nanmedian(ops: Ops, x: S, axis: Axes, keepdims: bool = False) -> Any:
    """``median`` of what is no NaN; NaN over nothing."""
    return _single(ops, ops.nanquantile(x, (0.5,), axis, keepdims))
