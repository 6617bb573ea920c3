"""Elementary functions of floating vectors, float32 and float64, as straight-line code.

All functions are correct at zeros (with their signs), infinities and NaN, and accept subnormal
numbers. The table gives the largest errors in units in the last place (ulp), float32 / float64,
over the whole range. The tests measure them against 50 digits.

    exp 1 / 1          expm1 2 / 2.5    log 1 / 1     log1p 1 / 1        sigmoid 2.5 / 2.5
    tanh 2.5 / 2.5     erf 2 / 4        power 1 / 1.5 atan2 1.5 / 2      rsqrt 1.5 / 1.5
    sin, cos 1.5 / 1.5

Methods:

* exp and log reduce the argument by powers of two (Cody & Waite, "Software Manual for the
  Elementary Functions", 1980).
* log then uses log((1 + s) / (1 - s)) = 2 atanh(s).
* atan uses the analogous substitution around 45 degrees.
* tanh subtracts multiples of log(2) / 2 and uses the addition formula.
* erf away from 0 is 1 - exp(-p(x)).
* sin and cos subtract multiples of pi / 2, which is stored in three parts. Larger arguments go to
  the C library, lane by lane.

Polynomials are in ``coefficients.py``.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from fl_jit.kernels.codegen import coefficients as table
from fl_jit.kernels.codegen.vector_ops import Num
from fl_jit.kernels.codegen.vectors import IR, f32, f64, i1, i32, i64, lane_type

INF = math.inf
#: By floating type: bits, integer type, bits of the fraction, bias of the exponent.
_FORMAT: dict[Any, tuple[int, Any, int, int]] = {f32: (32, i32, 23, 127), f64: (64, i64, 52, 1023)}
#: log(2) and pi / 2 in parts. The first parts end in enough zeros for exact products with the
#: integers that occur.
LN2 = {
    32: (0.693145751953125, 1.4286068203094173e-06),
    64: (0.6931471805592082, 7.371002565167799e-13),
}
_HALF_PI = {
    32: (1.5703125, 0.0004837512969970703, 7.549789954891882e-08),
    64: (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),
}
#: Arguments of sin and cos from which the parts of pi / 2 are not precise enough.
_FAR = {32: 1e4, 64: 1e6}


def _bits(x: Num) -> int:
    return _FORMAT[lane_type(x.value.type)][0]


def _as_integers(x: Num) -> IR:
    return x.of.b.bitcast(x.value, x.of.of(_FORMAT[lane_type(x.value.type)][1]))


def _power_of_two(x: Num, exponents: IR) -> Num:
    # 2^exponents (integers), in the range of normal numbers.
    _, _, fraction, bias = _FORMAT[lane_type(x.value.type)]
    b = x.of.b
    biased = b.add(exponents, x.of.like(exponents, bias))
    return x.new(b.bitcast(b.shl(biased, x.of.like(biased, fraction)), x.value.type))


def _scale(x: Num, n: Num) -> Num:
    # x * 2^n, by an AVX-512 instruction, or in two steps to allow for subnormal results.
    b = x.of.b
    if x.of.target.vector_bits == 512 and x.of.lanes * _bits(x) == 512:
        suffix = "ps" if _bits(x) == 32 else "pd"
        every = ir.Constant(ir.IntType(x.of.lanes), -1)
        name = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
        return x.new(x.of.call(name, x.value.type, x.value, n.value, x.value, every, i32(4)))
    n = n.where(n.compare("==", n), 0.0)  # the conversion of NaN to an integer is undefined in LLVM
    exponent = b.fptosi(n.value, x.of.of(_FORMAT[lane_type(x.value.type)][1]))
    half = b.ashr(exponent, x.of.like(exponent, 1))
    return x * _power_of_two(x, half) * _power_of_two(x, b.sub(exponent, half))


def _reduced(x: Num) -> tuple[Num, Num]:
    # x = n log(2) + r, |r| <= log(2) / 2.
    high, low = LN2[_bits(x)]
    n = (x * (1.0 / math.log(2.0))).round()
    return n, n.fma(-low, n.fma(-high, x))


#: Arguments below and above which exp is 0 and infinite, with a margin.
_EXP_RANGE = {32: (-105.0, 90.0), 64: (-747.0, 711.0)}


def exp(x: Num, low: Num | None = None) -> Num:
    """exp(``x``), or exp(``x`` + ``low``) with ``low`` small beside ``x``."""
    x = x.clip(*_EXP_RANGE[_bits(x)])
    n, r = _reduced(x)
    if low is not None:
        r = r + low
    return _scale((r * r).fma(r.polynomial(table.EXP[_bits(x)]), r) + 1.0, n)


#: Bounds of the argument: 2^n / 4 is finite up to the upper one, 2^n is not.
_EXPM1_RANGE = {32: (-105.0, 89.0), 64: (-747.0, 710.0)}


def expm1(x: Num) -> Num:
    """exp(x) - 1 without cancellation."""
    bits = _bits(x)
    y = x.clip(*_EXPM1_RANGE[bits])
    n, r = _reduced(y)
    q = (r * r).fma(r.polynomial(table.EXP[bits]), r)
    # 2^n q + (2^n - 1), computed divided by 4, because 2^n itself may overflow.
    quarter = _scale(x.new(x.raw(0.25)), n)
    result = quarter.fma(q, quarter - 0.25) * 4.0
    result = q.where(n.compare("==", 0.0), result)
    result = x.new(x.raw(-1.0)).where(n.compare("<", -60.0), result)
    return x.where(x.compare("==", 0.0), result)


def split(x: Num) -> tuple[Num, Num]:
    """m and e of positive normal x = m 2^e, with m from sqrt(1/2) to sqrt(2)."""
    _, _, fraction, bias = _FORMAT[lane_type(x.value.type)]
    b, of = x.of.b, x.of
    bits_of_x = _as_integers(x)
    offset = _as_integers(x.new(x.raw(math.sqrt(0.5))))
    e = b.ashr(b.sub(bits_of_x, offset), of.like(bits_of_x, fraction))
    m = b.sub(bits_of_x, b.shl(e, of.like(bits_of_x, fraction)))
    return x.new(b.bitcast(m, x.value.type)), x.new(b.sitofp(e, x.value.type))


def normal(x: Num) -> tuple[Num, Num]:
    """Positive x as a normal number times 2^-k; returns that number and k."""
    _, _, fraction, bias = _FORMAT[lane_type(x.value.type)]
    small = x.compare("<", 2.0 ** (1 - bias))
    lifted = (x * 2.0 ** (fraction + 2)).where(small, x)
    return lifted, x.new(x.raw(fraction + 2.0)).where(small, 0.0)


def log(x: Num, correction: Num | None = None) -> Num:
    """The natural logarithm, plus ``correction``, which is small beside it."""
    bits = _bits(x)
    lifted, k = normal(x)
    m, e = split(lifted)
    e = e - k
    high, low = LN2[bits]
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half_square = 0.5 * f * f
    # log(1 + f) = f - (f^2/2 - s (f^2/2 + R)), R = z * polynomial
    series = s * (half_square + z * z.polynomial(table.LOG[bits]))
    tail = e.fma(low, series) if correction is None else e.fma(low, series + correction)
    result = e.fma(high, f - (half_square - tail))
    result = x.where(x.compare("==", INF), result)
    result = x.new(x.raw(-INF)).where(x.compare("==", 0.0), result)
    # NaN below 0, and NaN of NaN
    return result.where(x.compare(">=", 0.0), math.nan)


def log1p(x: Num) -> Num:
    """log(1 + x): the rounding error of u = 1 + x, relative to u, is added to log(u)."""
    u = x + 1.0
    lost = (x - (u - 1.0)).where(x.compare("<", 1.0), 1.0 - (u - x))
    correction = (lost / u).where(u.compare(">", 0.0), 0.0)
    correction = correction.where(u.compare("<", INF), 0.0)
    result = log(u, correction)
    return x.where(x.compare("==", 0.0), result)


def sigmoid(x: Num) -> Num:
    """1 / (1 + exp(-x)), accurate in both tails."""
    e = exp(-abs(x))
    return x.new(x.raw(1.0)).where(x.compare(">=", 0.0), e) / (e + 1.0)


def tanh(x: Num) -> Num:
    """The hyperbolic tangent, by the addition formula.

    |x| = n log(2) / 2 + v, and the tangent of the first term is (2^n - 1) / (2^n + 1).
    """
    bits = _bits(x)
    end = 10.0 if bits == 32 else 20.0
    far = abs(x)
    far = x.new(x.raw(end)).where(far.compare(">", end), far)
    n, power = _integer_power(far * (2.0 / math.log(2.0)))
    v = n.fma(-math.log(2.0) / 2.0, far)
    s = v * v
    u = (v * s).fma(s.polynomial(table.TANH[bits]), v)
    more, less = power + 1.0, power - 1.0
    return (u.fma(more, less) / u.fma(less, more)).copysign(x)


def _integer_power(x: Num) -> tuple[Num, Num]:
    # The integer n nearest to x, which is small, and 2^n. The last bits of a sum with
    # 1.5 * 2^fraction are an integer. Shifted up, n + bias is the exponent of 2^n.
    _, _, fraction, bias = _FORMAT[lane_type(x.value.type)]
    shift = 1.5 * 2.0**fraction + bias
    shifted = x + shift
    integer = _as_integers(shifted)
    power = x.of.b.bitcast(x.of.b.shl(integer, x.of.like(integer, fraction)), x.value.type)
    return shifted - shift, x.new(power)


#: Arguments from which erf rounds to 1.
_ERF_END = {32: 4.0, 64: 6.0}


def erf(x: Num) -> Num:
    """The error function."""
    bits = _bits(x)
    end = _ERF_END[bits]
    near = x + x * (x * x).polynomial(table.ERF[bits])
    a = abs(x).clip(0.0, end)
    t = (a - (1 + end) / 2) * (2 / (end - 1))
    far = (1.0 - exp(-t.polynomial(table.ERFC_EXPONENT[bits]))).copysign(x)
    return near.where(abs(x).compare("<", 1.0), far)


def sin(x: Num) -> Num:
    """The sine of radians."""
    return _periodic(x, "sin")


def cos(x: Num) -> Num:
    """The cosine of radians."""
    return _periodic(x, "cos")


def _periodic(x: Num, name: str) -> Num:
    bits = _bits(x)
    b, of = x.of.b, x.of
    distant = abs(x).compare(">", _FAR[bits])
    y = x.where(abs(x).compare("<=", _FAR[bits]), 0.0)
    n = (y * (2.0 / math.pi)).round()
    r = y
    for part in _HALF_PI[bits]:
        r = n.fma(-part, r)
    z = r * r
    sine = r + r * (z * z.polynomial(table.SIN[bits]))
    cosine = (z * z).fma(z.polynomial(table.COS[bits]), 1.0 - 0.5 * z)
    quadrant = b.fptosi(n.value, of.of(i32))
    if name == "cos":
        quadrant = b.add(quadrant, of.like(quadrant, 1))
    odd = b.icmp_signed("!=", b.and_(quadrant, of.like(quadrant, 1)), of.like(quadrant, 0))
    low = b.icmp_signed("==", b.and_(quadrant, of.like(quadrant, 2)), of.like(quadrant, 0))
    magnitude = cosine.where(odd, sine)
    result = magnitude.where(low, -magnitude)
    if name == "sin":
        result = x.where(x.compare("==", 0.0), result)
    result = result.where(abs(x).compare("<", INF), math.nan)
    return _unless_distant(result, x, distant, name)


def _unless_distant(result: Num, x: Num, distant: IR, name: str) -> Num:
    # The C library's function in the lanes that need it, if any.
    b, of = x.of.b, x.of
    before = b.block
    some = of.call(f"llvm.vector.reduce.or.v{of.lanes}i1", i1, distant)
    with b.if_then(some, likely=False):
        exact = of.unary(name, x.value)
        patched = b.select(distant, exact, result.value)
        inside = b.block
    joined = b.phi(x.value.type)
    joined.add_incoming(result.value, before)
    joined.add_incoming(patched, inside)
    return x.new(joined)


def rsqrt(x: Num) -> Num:
    """1 / sqrt(x)."""
    return 1.0 / x.new(x.of.unary("sqrt", x.value))


def atan2(y: Num, x: Num) -> Num:
    """The angle of the point (x, y)."""
    bits = _bits(x)
    a, c = abs(x), abs(y)
    steep = c.compare(">", a)
    small, large = a.where(steep, c), c.where(steep, a)
    # Two infinities count as 45 degrees, two zeros as 0.
    both = x.of.b.and_(a.compare("==", INF), c.compare("==", INF))
    one = x.new(x.raw(1.0))
    small, large = one.where(both, small), one.where(both, large)
    large = one.where(large.compare("==", 0.0), large)
    # Above tan(pi / 8), atan(t) = pi / 4 + atan((t - 1) / (t + 1)). Halved to avoid overflow.
    scale = x.new(x.raw(0.5)).where(large.compare(">", 1.0), 1.0)
    small, large = small * scale, large * scale
    upper = small.compare(">", (math.sqrt(2) - 1) * large)
    t = (small - large).where(upper, small) / (small + large).where(upper, large)
    z = t * t
    angle = t + t * (z * z.polynomial(table.ATAN[bits]))
    rest = _PI_REST[bits]
    angle = (angle + rest / 4 + _PI[bits] / 4).where(upper, angle)
    angle = (_PI[bits] / 2 - (angle - rest / 2)).where(steep, angle)
    angle = (_PI[bits] - (angle - rest)).where(negative(x), angle)
    angle = angle.copysign(y)
    unordered = x.of.b.or_(x.is_nan(), y.is_nan())
    return x.new(x.raw(math.nan)).where(unordered, angle)


_PI = {32: 3.1415927410125732, 64: math.pi}
#: pi minus the number above.
_PI_REST = {32: -8.742278000372485e-08, 64: 1.2246467991473532e-16}


def negative(x: Num) -> IR:
    """A mask of set sign bits, including those of zeros."""
    integer = _as_integers(x)
    return x.of.b.icmp_signed("<", integer, x.of.like(integer, 0))
