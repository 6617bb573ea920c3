"""Elementwise functions: division with remainders, parts of floating numbers, integers, others."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments, dtypes
from fl_tensor.dispatch.frontend import ArrayLike, cast, operand, operands_of
from fl_tensor.numpy_functions.operands import together

__all__ = [
    "bitwise_count",
    "divmod",
    "fabs",
    "float_power",
    "fmod",
    "frexp",
    "gcd",
    "heaviside",
    "i0",
    "lcm",
    "ldexp",
    "logaddexp2",
    "modf",
    "real_if_close",
    "rint",
    "sinc",
    "spacing",
    "unwrap",
]

# ---- division ------------------------------------------------------------------------------------


def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """``(floor_divide(x, y), remainder(x, y))``."""
    return ft.floor_divide(x, y), ft.remainder(x, y)


def fmod(x: ArrayLike, y: ArrayLike) -> Any:
    """``x - y * trunc(x / y)``: the sign of ``x``, as in C, where ``remainder`` has that of
    ``y``."""
    x, y = operands_of("fmod", "RR", x, y)
    if x.dtype.is_floating:
        sign = _sign(x)
        return sign * ft.remainder(sign * x, ft.absolute(y))
    rest = ft.remainder(x, y)
    return ft.where((rest != 0) & ((x < 0) != (y < 0)), rest - y, rest)


def modf(x: ArrayLike) -> tuple[Any, Any]:
    """The fractional and the integer part, both with the sign of ``x``."""
    x = operand("modf", "S", x)
    sign = _sign(x)
    return sign * ft.where(ft.isinf(x), 0.0, ft.remainder(sign * x, 1.0)), ft.trunc(x)


def _sign(x: Any) -> Any:
    # 1, and -1 of negative numbers and of -0.0: a constant, where copysign has no slope at 0.
    one = ft.ones_like(x)
    return ft.where(ft.signbit(x), -one, one)


# ---- parts of floating numbers -------------------------------------------------------------------


def ldexp(x: ArrayLike, n: ArrayLike) -> Any:
    """``x * 2^n`` for integers ``n``, exact unless the result is subnormal."""
    x, n = operands_of("ldexp", "AA", x, n)
    x = operand("ldexp", "S", x)
    if not n.dtype.is_integer:
        raise ft.DTypeError(f"[ldexp] n is {n.dtype}: expected integers")
    most = _EXPONENTS.get(x.dtype, 100)
    rest = cast(n, dtypes.int64)
    for _ in range(3):  # a single factor could overflow where the product does not
        step = ft.clip(rest, -most, most)
        x, rest = x * _power_of_two(step, x.dtype, most), rest - step
    return x


#: An exponent of which three span the dtype, its subnormal numbers included. Others: 100.
_EXPONENTS = {dtypes.float16: 14, dtypes.float64: 1000}


def _power_of_two(n: Any, dtype: ft.DType, most: int) -> Any:
    # From the bits of |n| <= most, because exp2 may round.
    size = ft.absolute(n)
    made = ft.ones_like(size, dtype)
    for bit in range(most.bit_length()):
        is_set = ft.bitwise_right_shift(size, bit) % 2 == 1
        made = made * ft.where(is_set, ft.full_like(made, 2.0 ** (1 << bit)), 1.0)
    return ft.where(n < 0, 1.0 / made, made)


def frexp(x: ArrayLike) -> tuple[Any, Any]:
    """``(m, n)`` with ``x = m * 2^n`` and 0.5 <= |m| < 1, n in int32. Zero, infinities and NaN are
    their own m, with n = 0."""
    x = operand("frexp", "S", x)
    size = ft.absolute(x)
    usual = ft.isfinite(x) & (size > 0)
    n = ft.cast(ft.floor(ft.log2(ft.where(usual, size, 1.0))), dtypes.int64) + 1
    m = ldexp(x, -n)
    # The logarithm may have rounded to the integer beside.
    over, under = ft.absolute(m) >= 1, ft.absolute(m) < 0.5
    m = ft.where(over, m * 0.5, ft.where(under, m * 2.0, m))
    n = n + ft.cast(over, dtypes.int64) - ft.cast(under, dtypes.int64)
    return ft.where(usual, m, x), ft.cast(ft.where(usual, n, 0), dtypes.int32)


def spacing(x: ArrayLike) -> Any:
    """The distance from ``x`` to the next number away from zero, with the sign of ``x``; NaN for
    infinities. It has no gradient."""
    x = operand("spacing", "S", x).detach()
    size = ft.absolute(x)
    return ft.copysign(ft.nextafter(size, math.inf) - size, x)


# ---- integers ------------------------------------------------------------------------------------


def gcd(x: ArrayLike, y: ArrayLike) -> Any:
    """The greatest common divisor of integers, not negative; 0 of two zeros. By Euclid's algorithm,
    which reads whether it has ended."""
    x, y = operands_of("gcd", "ZZ", x, y)
    x, y = ft.broadcast_arrays(ft.absolute(x), ft.absolute(y))
    while ft.any(y != 0).item():
        done = y == 0
        x, y = ft.where(done, x, y), ft.where(done, 0, ft.remainder(x, ft.where(done, 1, y)))
    return x


def lcm(x: ArrayLike, y: ArrayLike) -> Any:
    """The least common multiple of integers, not negative; 0 where either is."""
    x, y = operands_of("lcm", "ZZ", x, y)
    shared = gcd(x, y)
    return ft.absolute(ft.floor_divide(x, ft.where(shared == 0, 1, shared)) * y)


def bitwise_count(x: ArrayLike) -> Any:
    """The number of ones among the bits of ``|x|``, uint8."""
    x = operand("bitwise_count", "Z", x)
    size = ft.absolute(x)
    counts = ft.zeros_like(size)
    for _ in range(8 * x.dtype.itemsize):
        counts, size = counts + ft.bitwise_and(size, 1), ft.bitwise_right_shift(size, 1)
    return ft.cast(counts, dtypes.uint8)


# ---- functions of real numbers -------------------------------------------------------------------


def float_power(x: ArrayLike, y: ArrayLike) -> Any:
    """``x`` to the power ``y`` in double precision: float64, or complex128 for complex numbers."""
    x, y = together("float_power", x, y)
    if isinstance(x, arguments.SCALARS) and isinstance(y, arguments.SCALARS):
        x = ft.asarray(x, _double(x))
    return ft.power(_in_double(x), _in_double(y))


def _in_double(x: Any) -> Any:
    # Not numbers, which are weak: beside an array that is cast later they would be rounded first.
    if isinstance(x, arguments.SCALARS):
        return x
    return cast(operand("float_power", "A", x), _double(x))


def _double(x: Any) -> ft.DType:
    is_complex = isinstance(x, complex) or getattr(x, "dtype", dtypes.float64).kind == "c"
    return dtypes.complex128 if is_complex else dtypes.float64


def fabs(x: ArrayLike) -> Any:
    """The absolute value of real numbers; of integers in the default float."""
    return ft.absolute(operand("fabs", "S", x))


def rint(x: ArrayLike) -> Any:
    """The nearest integer, of two the even one; of integers in the default float."""
    return ft.round(operand("rint", "F", x))


def heaviside(x: ArrayLike, y: ArrayLike) -> Any:
    """0 below zero, 1 above, ``y`` at zero; NaN stays NaN."""
    x, y = operands_of("heaviside", "SS", x, y)
    step = ft.cast(x > 0, x.dtype)
    return ft.where(ft.isnan(x), x, ft.where(x == 0, y, step))


def logaddexp2(x: ArrayLike, y: ArrayLike) -> Any:
    """``log2(2^x + 2^y)`` without overflow: max + log2(1 + 2^-|x - y|)."""
    x, y = operands_of("logaddexp2", "SS", x, y)
    return ft.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)


def sinc(x: ArrayLike) -> Any:
    """``sin(pi x) / (pi x)``, and 1 at 0. Near 0 its power series, because derivatives of the
    quotient cancel there."""
    x = operand("sinc", "F", x)
    is_near = ft.absolute(x) < 0.25
    small, angle = ft.where(is_near, x, 0.0) * math.pi, ft.where(is_near, 1.0, x) * math.pi
    series = ft.ones_like(x)
    for k in range(16, 0, -2):
        series = 1.0 - small * small / float(k * (k + 1)) * series
    return ft.where(is_near, series, ft.sin(angle) / angle)


def i0(x: ArrayLike) -> Any:
    """The modified Bessel function of the first kind of order 0.

    Up to |x| = 20 its power series, beyond the asymptotic one: Abramowitz & Stegun, 9.6.12 and
    9.7.1. Relative error at most 2e-15 in float64.
    """
    x = operand("i0", "S", x)
    size = ft.absolute(x)
    is_near, near, far = _series_of_i0(x, size)
    half = ft.exp(size / 2.0)  # exp(size) overflows earlier than the function
    return ft.where(is_near, near, half * far * half)


def scaled_i0(x: ArrayLike) -> Any:
    """``exp(-|x|) i0(x)``, which does not overflow."""
    x = operand("i0", "S", x)
    size = ft.absolute(x)
    is_near, near, far = _series_of_i0(x, size)
    return ft.where(is_near, near * ft.exp(-ft.where(is_near, size, _FAR)), far)


#: Where the asymptotic series of i0 begins.
_FAR = 20.0


def _series_of_i0(x: Any, size: Any) -> tuple[Any, Any, Any]:
    # Where x is near 0, the power series of i0 there, and the asymptotic one of exp(-size) i0.
    is_near = size <= _FAR
    inner = ft.where(is_near, x, _FAR)
    quarter = inner * inner / 4.0
    near = ft.ones_like(x)
    for k in range(45, 0, -1):
        near = 1.0 + quarter / float(k * k) * near
    place = ft.where(is_near, _FAR, size)
    far = ft.ones_like(x)
    for k in range(20, 0, -1):
        far = 1.0 + (2 * k - 1) ** 2 / (8.0 * k) / place * far
    return is_near, near, far / ft.sqrt(2.0 * math.pi * place)


def real_if_close(x: ArrayLike, tol: float = 100.0) -> Any:
    """The real part, where no imaginary part is above ``tol`` times the epsilon of the dtype (above
    ``tol`` itself for ``tol <= 1``); else ``x``. Reads ``x``."""
    x = operand("real_if_close", "A", x)
    if x.dtype.kind != "c":
        return x.copy()
    tol = arguments.float_of("real_if_close", tol, "tol")
    bound = tol * ft.finfo(x.dtype).eps if tol > 1 else tol
    return ft.real(x) if ft.all(ft.absolute(ft.imag(x)) < bound).item() else x.copy()


def unwrap(
    x: ArrayLike, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Any:
    """Angles along ``axis`` with multiples of ``period`` added, so that neighbours are at most half
    a period apart. Jumps below ``discont`` stay (by default, and at least, half a period)."""
    x = operand("unwrap", "S", x)
    period = arguments.float_of("unwrap", period, "period")
    half = period / 2.0
    limit = half if discont is None else arguments.float_of("unwrap", discont, "discont")
    jumps = ft.diff(x, axis=axis)
    folded = ft.remainder(jumps + half, period) - half
    folded = ft.where((folded == -half) & (jumps > 0), half, folded)
    added = ft.where(ft.absolute(jumps) < limit, 0.0, folded - jumps)
    axis = arguments.axis_of("unwrap", axis, x.shape)
    before = tuple((int(i == axis), 0) for i in range(x.ndim))
    return x + ft.pad(ft.cumulative_sum(added, axis), before)
