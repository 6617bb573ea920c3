"""Signs, adjacent and special floating-point values, closeness."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.precision import in_float32
from fl_tensor.limits import finfo
from fl_tensor.roles import F, Ops, P, Q, R, S

__all__ = [
    "allclose",
    "array_equal",
    "copysign",
    "fmax",
    "fmin",
    "isclose",
    "isneginf",
    "isposinf",
    "nan_to_num",
    "nextafter",
    "signbit",
    "trunc",
]


def trunc(ops: Ops, x: R) -> Any:
    """The integer part, towards zero; integers are returned as they are."""
    if not x.dtype.is_floating:
        return x
    return ops.where(ops.less(x, ops.constant(0.0, x)), ops.ceil(x), ops.floor(x))


def signbit(ops: Ops, x: S) -> Any:
    """True where ``x`` is negative, -0.0 included; of NaN nothing is promised."""
    # 1 / x tells the zeros apart.
    zero, one = ops.constant(0.0, x), ops.constant(1.0, x)
    flat = ops.equal(x, zero)
    return ops.less(ops.where(flat, ops.divide(one, ops.where(flat, x, one)), x), zero)


def copysign(ops: Ops, x: S, y: S) -> Any:
    """The magnitude of ``x`` with the sign of ``y``, that of -0.0 included."""
    magnitude = ops.absolute(x)
    return ops.where(ops.signbit(y), ops.negative(magnitude), magnitude)


def nextafter(ops: Ops, x: S, y: S) -> Any:
    """The number of the dtype next to ``x`` in the direction of ``y``; ``y`` where they are equal.
    Below twice the smallest normal number it needs a backend that keeps subnormal ones. Rump,
    Zimmermann, Boldo & Melquiond, 2009."""
    info = finfo(x.dtype)
    unit = info.eps / 2
    tiny = info.smallest_normal * info.eps  # the smallest subnormal number
    scale = ops.constant(1.0 / unit, x)
    step = ops.constant(unit * (1.0 + 2.0 * unit), x)
    magnitude = ops.absolute(x)
    up = ops.less(x, y)
    # The correctly rounded sum with a step of a little more than half a unit in the last place is
    # the neighbour; where that step would be subnormal, x is scaled up first.
    towards = ops.where(up, ops.constant(1.0, x), ops.constant(-1.0, x))
    large = ops.add(x, ops.multiply(ops.multiply(magnitude, step), towards))
    wide = ops.multiply(x, scale)
    middle = ops.add(wide, ops.multiply(ops.multiply(ops.absolute(wide), step), towards))
    middle = ops.multiply(middle, ops.constant(unit, x))
    small = ops.add(x, ops.multiply(ops.constant(tiny, x), towards))
    is_large = ops.less_equal(ops.constant(tiny / unit / unit / 2, x), magnitude)
    is_small = ops.less(magnitude, ops.constant(tiny / unit, x))
    beside = ops.where(is_large, large, ops.where(is_small, small, middle))
    # From infinity the way leads to the largest number.
    top = ops.constant(info.max, x)
    inward = ops.where(up, ops.negative(top), top)
    beside = ops.where(ops.isinf(x), inward, beside)
    # Out of the subnormal numbers it leads to a zero with the sign of x.
    beside = ops.where(ops.equal(beside, ops.constant(0.0, x)), ops.copysign(beside, x), beside)
    missing = ops.logical_or(ops.isnan(x), ops.isnan(y))
    return ops.where(ops.equal(x, y), y, ops.where(missing, ops.add(x, y), beside))


def isposinf(ops: Ops, x: Q) -> Any:
    """True where ``x`` is plus infinity."""
    if not x.dtype.is_floating:
        return ops.full(x.shape, False, dtypes.bool, x.device)
    return ops.equal(x, ops.constant(math.inf, x))


def isneginf(ops: Ops, x: Q) -> Any:
    """True where ``x`` is minus infinity."""
    if not x.dtype.is_floating:
        return ops.full(x.shape, False, dtypes.bool, x.device)
    return ops.equal(x, ops.constant(-math.inf, x))


def fmax(ops: Ops, x: Q, y: Q) -> Any:
    """The larger, or the one that is not NaN."""
    return ops.where(ops.isnan(x), y, ops.where(ops.isnan(y), x, ops.maximum(x, y)))


def fmin(ops: Ops, x: Q, y: Q) -> Any:
    """The smaller, or the one that is not NaN."""
    return ops.where(ops.isnan(x), y, ops.where(ops.isnan(y), x, ops.minimum(x, y)))


def nan_to_num(
    ops: Ops,
    x: Q,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """``x`` with numbers in place of NaN and infinities, which become the largest and the smallest
    of the dtype unless given."""
    if not x.dtype.is_floating:
        return x
    info = finfo(x.dtype)
    x = ops.where(ops.isnan(x), ops.constant(float(nan), x), x)
    above = ops.constant(info.max if posinf is None else float(posinf), x)
    below = ops.constant(info.min if neginf is None else float(neginf), x)
    return ops.where(ops.isposinf(x), above, ops.where(ops.isneginf(x), below, x))


@in_float32
def isclose(
    ops: Ops, x: F, y: F, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether ``|x - y| <= atol + rtol * |y|``; infinities are close to themselves alone, and NaN
    to NaN only with ``equal_nan``."""
    size = ops.absolute(y)
    tolerance = ops.multiply(ops.constant(float(rtol), size), size)
    tolerance = ops.add(tolerance, ops.constant(float(atol), size))
    near = ops.less_equal(ops.absolute(ops.subtract(x, y)), tolerance)
    close = ops.where(ops.isfinite(y), near, ops.equal(x, y))
    if equal_nan:
        close = ops.logical_or(close, ops.logical_and(ops.isnan(x), ops.isnan(y)))
    return close


def allclose(
    ops: Ops, x: F, y: F, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether ``isclose`` holds everywhere, without axes; True for nothing."""
    close = ops.isclose(x, y, rtol, atol, equal_nan)
    return ops.all(close, tuple(range(len(close.shape))), False)


def array_equal(ops: Ops, x: P, y: P, equal_nan: bool = False) -> Any:
    """Whether shapes and all elements are equal, without axes."""
    if tuple(x.shape) != tuple(y.shape):
        return ops.full((), False, dtypes.bool, x.device)
    same = ops.equal(x, y)
    if equal_nan:
        same = ops.logical_or(same, ops.logical_and(ops.isnan(x), ops.isnan(y)))
    return ops.all(same, tuple(range(len(same.shape))), False)
