"""Reductions that ignore NaN."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.moments import squared_deviations
from fl_tensor.derived.precision import in_float32
from fl_tensor.roles import A, Axes, Axis, Ops, Q, S

__all__ = [
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _filled(ops: Ops, x: Any, value: float) -> Any:
    if x.dtype.kind not in "fc":
        return x
    return ops.where(ops.isnan(x), ops.constant(value, x), x)


def _present(ops: Ops, x: Any, axis: Axes, keepdims: bool) -> Any:
    # How many are no NaN, as a number of x's dtype.
    present = ops.logical_not(ops.isnan(x))
    return ops.cast(ops.count_nonzero(present, axis, keepdims), x.dtype)


def nansum(ops: Ops, x: A, axis: Axes, keepdims: bool = False) -> Any:
    """Sum of what is no NaN; 0 over nothing. dtype as ``sum``."""
    return ops.sum(_filled(ops, x, 0.0), axis, keepdims)


def nanprod(ops: Ops, x: A, axis: Axes, keepdims: bool = False) -> Any:
    """Product of what is no NaN; 1 over nothing. dtype as ``prod``."""
    return ops.prod(_filled(ops, x, 1.0), axis, keepdims)


@in_float32
def nanmean(ops: Ops, x: S, axis: Axes, keepdims: bool = False) -> Any:
    """Arithmetic mean of what is no NaN; NaN over nothing."""
    return ops.divide(ops.nansum(x, axis, keepdims), _present(ops, x, axis, keepdims))


@in_float32
def nanvar(ops: Ops, x: S, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> Any:
    """Variance of what is no NaN: as ``var``; NaN where ``correction`` leaves nothing to divide
    by."""
    apart = ops.subtract(x, ops.nanmean(x, axis, True))
    centred = ops.where(ops.isnan(x), ops.constant(0.0, x), apart)
    present = _present(ops, x, axis, keepdims)
    total = squared_deviations(ops, centred, present, axis, keepdims)
    freedom = ops.subtract(present, ops.constant(float(correction), x))
    enough = ops.less(ops.constant(0.0, x), freedom)
    return ops.divide(total, ops.where(enough, freedom, ops.constant(math.nan, x)))


@in_float32
def nanstd(ops: Ops, x: S, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> Any:
    """The square root of ``nanvar``."""
    return ops.sqrt(ops.nanvar(x, axis, keepdims, correction))


def nanmax(ops: Ops, x: Q, axis: Axes, keepdims: bool = False) -> Any:
    """The largest that is no NaN; NaN where all are."""
    if not x.dtype.is_floating:
        return ops.max(x, axis, keepdims)
    largest = ops.max(_filled(ops, x, -math.inf), axis, keepdims)
    missing = ops.all(ops.isnan(x), axis, keepdims)
    return ops.where(missing, ops.constant(math.nan, x), largest)


def nanmin(ops: Ops, x: Q, axis: Axes, keepdims: bool = False) -> Any:
    """The smallest that is no NaN; NaN where all are."""
    if not x.dtype.is_floating:
        return ops.min(x, axis, keepdims)
    smallest = ops.min(_filled(ops, x, math.inf), axis, keepdims)
    missing = ops.all(ops.isnan(x), axis, keepdims)
    return ops.where(missing, ops.constant(math.nan, x), smallest)


def nanargmax(ops: Ops, x: Q, axis: Axis, keepdims: bool = False) -> Any:
    """Position of the first maximum that is no NaN along an axis, int64; 0 where all are NaN."""
    hit = ops.equal(x, ops.nanmax(x, (axis,), True))
    return ops.argmax(ops.cast(hit, dtypes.uint8), axis, keepdims)


def nanargmin(ops: Ops, x: Q, axis: Axis, keepdims: bool = False) -> Any:
    """Position of the first minimum that is no NaN along an axis, int64; 0 where all are NaN."""
    hit = ops.equal(x, ops.nanmin(x, (axis,), True))
    return ops.argmax(ops.cast(hit, dtypes.uint8), axis, keepdims)
