"""Elementwise functions of one number."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.composition import cached_composition
from fl_tensor.derived import complex_plane
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ArgumentError
from fl_tensor.roles import F, N, Ops, Q, R, S

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "clip",
    "cosh",
    "deg2rad",
    "exp2",
    "gelu",
    "hypot",
    "log10",
    "log2",
    "logaddexp",
    "logit",
    "rad2deg",
    "reciprocal",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sinh",
    "softplus",
    "square",
    "tan",
]


def square(ops: Ops, x: N) -> Any:
    """``x * x``."""
    return ops.multiply(x, x)


def reciprocal(ops: Ops, x: F) -> Any:
    """``1 / x``."""
    return ops.divide(ops.constant(1.0, x), x)


@in_float32
def rsqrt(ops: Ops, x: F) -> Any:
    """``1 / sqrt(x)``."""
    return ops.divide(ops.constant(1.0, x), ops.sqrt(x))


@in_float32
def hypot(ops: Ops, x: S, y: S) -> Any:
    """``sqrt(x^2 + y^2)`` without overflow of the squares."""
    a, b = ops.absolute(x), ops.absolute(y)
    large, small = ops.maximum(a, b), ops.minimum(a, b)
    zero, one = ops.constant(0.0, x), ops.constant(1.0, x)
    ratio = ops.divide(small, ops.where(ops.equal(large, zero), one, large))
    ratio = ops.where(ops.equal(small, large), ops.where(ops.equal(large, zero), zero, one), ratio)
    length = ops.multiply(large, ops.sqrt(ops.add(one, ops.multiply(ratio, ratio))))
    # Infinite beside anything, NaN included, is infinite (C99, F.10.4.3).
    inf = ops.constant(math.inf, x)
    return ops.where(ops.logical_or(ops.equal(a, inf), ops.equal(b, inf)), inf, length)


def exp2(ops: Ops, x: F) -> Any:
    """2 to the power ``x``."""
    return ops.power(ops.constant(2.0, x), x)


@in_float32
def log2(ops: Ops, x: F) -> Any:
    """Logarithm to base 2."""
    return ops.multiply(ops.log(x), ops.constant(1.0 / math.log(2.0), x))


@in_float32
def log10(ops: Ops, x: F) -> Any:
    """Logarithm to base 10."""
    return ops.multiply(ops.log(x), ops.constant(1.0 / math.log(10.0), x))


@in_float32
def cbrt(ops: Ops, x: S) -> Any:
    """The real cube root, that of a negative number negative."""
    zero, one = ops.constant(0.0, x), ops.constant(1.0, x)
    plain = ops.logical_and(ops.isfinite(x), ops.not_equal(x, zero))
    a = ops.where(plain, ops.absolute(x), one)
    root = ops.power(a, ops.constant(1.0 / 3.0, x))
    # One step of Newton's method: a third is no number of the dtype.
    excess = ops.subtract(root, ops.divide(a, ops.multiply(root, root)))
    root = ops.subtract(root, ops.multiply(excess, ops.constant(1.0 / 3.0, x)))
    return ops.where(plain, ops.multiply(ops.sign(x), root), x)


@in_float32
def logaddexp(ops: Ops, x: S, y: S) -> Any:
    """``log(exp(x) + exp(y))`` without overflow: max + log1p(exp(-|x - y|))."""
    large = ops.maximum(x, y)
    # Equal infinities have no difference. A NaN that is left out later would be in the gradient.
    same, zero = ops.equal(x, y), ops.constant(0.0, x)
    a, b = (ops.where(same, zero, v) for v in (x, y))
    gap = ops.absolute(ops.subtract(a, b))
    return ops.add(large, ops.log1p(ops.exp(ops.negative(gap))))


@in_float32
def logit(ops: Ops, x: S) -> Any:
    """``log(x / (1 - x))``, the inverse of sigmoid; NaN outside [0, 1]."""
    return ops.subtract(ops.log(x), ops.log1p(ops.negative(x)))


@in_float32
def deg2rad(ops: Ops, x: S) -> Any:
    """Degrees as radians."""
    return ops.multiply(x, ops.constant(math.pi / 180.0, x))


@in_float32
def rad2deg(ops: Ops, x: S) -> Any:
    """Radians as degrees."""
    return ops.multiply(x, ops.constant(180.0 / math.pi, x))


@in_float32
def tan(ops: Ops, x: F) -> Any:
    """Tangent of radians."""
    if x.dtype.kind == "c":
        return complex_plane.tan(ops, x)
    return ops.divide(ops.sin(x), ops.cos(x))


def _leg(ops: Ops, x: Any) -> Any:
    # sqrt(1 - x^2), the other leg of the unit triangle, factored so that x near 1 does not cancel.
    one = ops.constant(1.0, x)
    return ops.sqrt(ops.multiply(ops.subtract(one, x), ops.add(one, x)))


@in_float32
def asin(ops: Ops, x: F) -> Any:
    """The angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside [-1, 1]."""
    if x.dtype.kind == "c":
        return complex_plane.asin(ops, x)
    return ops.atan2(x, _leg(ops, x))


@in_float32
def acos(ops: Ops, x: F) -> Any:
    """The angle in [0, pi] whose cosine is ``x``; NaN outside [-1, 1]."""
    if x.dtype.kind == "c":
        return complex_plane.acos(ops, x)
    return ops.atan2(_leg(ops, x), x)


@in_float32
def atan(ops: Ops, x: F) -> Any:
    """The angle in [-pi/2, pi/2] whose tangent is ``x``."""
    if x.dtype.kind == "c":
        return complex_plane.atan(ops, x)
    return ops.atan2(x, ops.constant(1.0, x))


@in_float32
def sinh(ops: Ops, x: F) -> Any:
    """Hyperbolic sine, as 2 sinh(x/2) cosh(x/2): exact near 0, no early overflow."""
    half = ops.multiply(x, ops.constant(0.5, x))
    minus = ops.negative(half)
    twice_sinh = ops.subtract(ops.expm1(half), ops.expm1(minus))
    twice_cosh = ops.add(ops.exp(half), ops.exp(minus))
    return ops.multiply(ops.multiply(twice_sinh, ops.constant(0.5, x)), twice_cosh)


@in_float32
def cosh(ops: Ops, x: F) -> Any:
    """Hyperbolic cosine, as half the square of 2 cosh(x/2), less 1."""
    half = ops.multiply(x, ops.constant(0.5, x))
    minus = ops.negative(half)
    twice_sinh = ops.subtract(ops.expm1(half), ops.expm1(minus))
    squared = ops.multiply(ops.multiply(twice_sinh, ops.constant(0.5, x)), twice_sinh)
    return ops.add(squared, ops.constant(1.0, x))


def _square_is_all(ops: Ops, x: Any) -> Any:
    # Past this x^2 + 1 is x^2, which may overflow soon: there the inverse is log(x) + log(2).
    return ops.constant(1e8 if x.dtype.itemsize > 2 else 128.0, x)


@in_float32
def asinh(ops: Ops, x: F) -> Any:
    """Inverse of sinh: sign(x) log1p(a + a^2 / (1 + sqrt(a^2 + 1))), a = |x|."""
    if x.dtype.kind == "c":
        return complex_plane.asinh(ops, x)
    one = ops.constant(1.0, x)
    a = ops.absolute(x)
    large = _square_is_all(ops, x)
    small = ops.minimum(a, large)
    squared = ops.multiply(small, small)
    root = ops.sqrt(ops.add(squared, one))
    near = ops.log1p(ops.add(small, ops.divide(squared, ops.add(one, root))))
    far = ops.add(ops.log(ops.maximum(a, one)), ops.constant(math.log(2.0), x))
    result = ops.where(ops.less(large, a), far, near)
    return ops.multiply(ops.sign(x), result)


@in_float32
def acosh(ops: Ops, x: F) -> Any:
    """Inverse of cosh for ``x >= 1``: log1p(t + sqrt(t^2 + 2 t)), t = x - 1; NaN below 1."""
    if x.dtype.kind == "c":
        return complex_plane.acosh(ops, x)
    t = ops.subtract(x, ops.constant(1.0, x))
    near = ops.log1p(
        ops.add(t, ops.multiply(ops.sqrt(t), ops.sqrt(ops.add(t, ops.constant(2.0, x)))))
    )
    far = ops.add(ops.log(x), ops.constant(math.log(2.0), x))
    return ops.where(ops.less(_square_is_all(ops, x), x), far, near)


@in_float32
def atanh(ops: Ops, x: F) -> Any:
    """Inverse of tanh on (-1, 1): (log1p(x) - log1p(-x)) / 2."""
    if x.dtype.kind == "c":
        return complex_plane.atanh(ops, x)
    difference = ops.subtract(ops.log1p(x), ops.log1p(ops.negative(x)))
    return ops.multiply(difference, ops.constant(0.5, x))


@cached_composition
@in_float32
def sigmoid(ops: Ops, x: S) -> Any:
    """``1 / (1 + exp(-x))``, as exp(min(x, 0)) / (1 + exp(-|x|)): no overflow, exact in both
    tails."""
    numerator = ops.exp(ops.minimum(x, ops.constant(0.0, x)))
    small = ops.exp(ops.negative(ops.absolute(x)))
    return ops.divide(numerator, ops.add(ops.constant(1.0, x), small))


@cached_composition
@in_float32
def silu(ops: Ops, x: S) -> Any:
    """``x * sigmoid(x)``, also called swish. Elfwing et al., 2017."""
    return ops.multiply(x, ops.sigmoid(x))


def relu(ops: Ops, x: R) -> Any:
    """``max(x, 0)``; NaN stays NaN."""
    return ops.maximum(x, ops.constant(0, x))


@cached_composition
@in_float32
def softplus(ops: Ops, x: S) -> Any:
    """``log(1 + exp(x))``, as max(x, 0) + log1p(exp(-|x|))."""
    small = ops.exp(ops.negative(ops.absolute(x)))
    return ops.add(ops.maximum(x, ops.constant(0.0, x)), ops.log1p(small))


@cached_composition
@in_float32
def gelu(ops: Ops, x: S, approximate: str = "none") -> Any:
    """x times the normal distribution function at x; ``approximate="tanh"`` for the tanh form.
    Hendrycks & Gimpel, 2016."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"[gelu] approximate {approximate!r}: expected 'none' or 'tanh'")
    half, one = ops.constant(0.5, x), ops.constant(1.0, x)
    if approximate == "tanh":
        cubic = ops.multiply(ops.multiply(x, x), ops.multiply(x, ops.constant(0.044715, x)))
        inner = ops.multiply(ops.add(x, cubic), ops.constant(math.sqrt(2.0 / math.pi), x))
        weight = ops.tanh(inner)
    else:
        weight = ops.erf(ops.multiply(x, ops.constant(math.sqrt(0.5), x)))
    return ops.multiply(ops.multiply(x, half), ops.add(one, weight))


def clip(ops: Ops, x: Q, low: Q | None = None, high: Q | None = None) -> Any:
    """``x`` limited to [low, high]; either bound may be absent. Bounds broadcast."""
    if low is not None:
        x = ops.maximum(x, low)
    if high is not None:
        x = ops.minimum(x, high)
    return x
