"""Derived reductions."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.composition import cached_composition
from fl_tensor.derived.moments import squared_deviations
from fl_tensor.derived.precision import in_float32
from fl_tensor.roles import A, Axes, Axis, F, Ops, Q, S

__all__ = [
    "all",
    "any",
    "argmin",
    "count_nonzero",
    "log_softmax",
    "logsumexp",
    "mean",
    "norm",
    "softmax",
    "std",
    "var",
]


def count_nonzero(ops: Ops, x: A, axis: Axes, keepdims: bool = False) -> Any:
    """The number of non-zero elements over axes, int64."""
    truth = x if x.dtype is dtypes.bool else ops.cast(x, dtypes.bool)
    return ops.sum(truth, axis, keepdims)


def any(ops: Ops, x: A, axis: Axes, keepdims: bool = False) -> Any:
    """Whether any element over axes is non-zero; False over nothing."""
    return ops.cast(ops.count_nonzero(x, axis, keepdims), dtypes.bool)


def all(ops: Ops, x: A, axis: Axes, keepdims: bool = False) -> Any:
    """Whether every element over axes is non-zero; True over nothing."""
    return ops.logical_not(ops.any(ops.logical_not(x), axis, keepdims))


def _count(x: Any, axis: Axes) -> int:
    shape = x.shape
    return math.prod([shape[a] for a in axis])


@in_float32
def mean(ops: Ops, x: F, axis: Axes, keepdims: bool = False) -> Any:
    """Arithmetic mean over axes; NaN over nothing."""
    total = ops.sum(x, axis, keepdims)
    return ops.divide(total, ops.constant(float(_count(x, axis)), x))


@cached_composition
@in_float32
def var(ops: Ops, x: F, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> Any:
    """Mean squared distance from the mean, real: the sum divided by ``n - correction`` (1 for the
    unbiased estimate of a sample), or by 0 where ``correction`` is larger: NaN or infinite. What
    rounding the mean does to the distances is corrected."""
    centred = ops.subtract(x, ops.mean(x, axis, True))
    count = float(_count(x, axis))
    total = squared_deviations(ops, centred, count, axis, keepdims)
    return ops.divide(total, ops.constant(max(count - correction, 0.0), total))


@cached_composition
@in_float32
def std(ops: Ops, x: F, axis: Axes, keepdims: bool = False, correction: float = 0.0) -> Any:
    """The square root of ``var``."""
    return ops.sqrt(ops.var(x, axis, keepdims, correction))


@in_float32
def norm(ops: Ops, x: F, axis: Axes, keepdims: bool = False, ord: float = 2.0) -> Any:
    """Vector norm over axes: (sum |x|^ord)^(1/ord); ``inf`` the largest, ``-inf`` the smallest
    magnitude, 0 the count of non-zeros. Real."""
    if x.dtype.kind == "c":
        x = ops.absolute(x)
    if ord == 0:
        return ops.cast(ops.count_nonzero(x, axis, keepdims), x.dtype)
    if ord == 2:
        return ops.sqrt(ops.sum(ops.multiply(x, x), axis, keepdims))
    magnitude = ops.absolute(x)
    if ord == math.inf:
        return ops.max(magnitude, axis, keepdims)
    if ord == -math.inf:
        return ops.min(magnitude, axis, keepdims)
    if ord == 1:
        return ops.sum(magnitude, axis, keepdims)
    total = ops.sum(ops.power(magnitude, ops.constant(float(ord), x)), axis, keepdims)
    return ops.power(total, ops.constant(1.0 / ord, x))


def _finite_max(ops: Ops, x: Any, axis: Axes) -> Any:
    # The shift that keeps exp in range. Infinite maxima shift by 0, or inf - inf would be NaN.
    largest = ops.max(x, axis, True)
    return ops.where(ops.isfinite(largest), largest, ops.constant(0.0, x))


@cached_composition
@in_float32
def logsumexp(ops: Ops, x: S, axis: Axes, keepdims: bool = False) -> Any:
    """``log(sum(exp(x)))`` over axes without overflow; -inf over nothing."""
    if _count(x, axis) == 0:
        return ops.log(ops.sum(x, axis, keepdims))
    shift = _finite_max(ops, x, axis)
    total = ops.log(ops.sum(ops.exp(ops.subtract(x, shift)), axis, True))
    result = ops.add(total, shift)
    if keepdims:
        return result
    return ops.reshape(result, tuple(n for i, n in enumerate(x.shape) if i not in axis))


@cached_composition
@in_float32
def softmax(ops: Ops, x: S, axis: Axis = -1) -> Any:
    """``exp(x)`` divided by its sum along ``axis``; an empty axis stays empty."""
    if x.shape[axis] == 0:
        return x
    e = ops.exp(ops.subtract(x, ops.max(x, (axis,), True)))
    return ops.divide(e, ops.sum(e, (axis,), True))


@cached_composition
@in_float32
def log_softmax(ops: Ops, x: S, axis: Axis = -1) -> Any:
    """``log(softmax(x))`` along ``axis``, without its underflow; an empty axis stays empty."""
    if x.shape[axis] == 0:
        return x
    shifted = ops.subtract(x, ops.max(x, (axis,), True))
    return ops.subtract(shifted, ops.log(ops.sum(ops.exp(shifted), (axis,), True)))


def argmin(ops: Ops, x: Q, axis: Axis, keepdims: bool = False) -> Any:
    """Position of the first minimum along an axis, int64; a NaN counts as the minimum."""
    # ~x reverses the order of integers, signed and unsigned, without the overflow of -x.
    reverse = ops.negative(x) if x.dtype.is_floating else ops.bitwise_invert(x)
    return ops.argmax(reverse, axis, keepdims)
