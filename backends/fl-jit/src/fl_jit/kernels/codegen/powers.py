"""Powers of floating vectors with the semantics of C's pow: exp(y log |x|).

float32 is computed in float64. float64 uses a logarithm in two parts.
"""

from __future__ import annotations

import math

from fl_jit.kernels.codegen import coefficients as table
from fl_jit.kernels.codegen.libm import INF, LN2, exp, log, negative, normal, split
from fl_jit.kernels.codegen.vector_ops import Num
from fl_jit.kernels.codegen.vectors import f32, f64


def power(x: Num, y: Num) -> Num:
    """``x`` to the power ``y``, with the semantics of C's pow."""
    if x.value.type.element is f32:
        result = exp(_widened(y) * log(_widened(abs(x))))
        return _powers_of_special(x, y, x.new(x.of.b.fptrunc(result.value, x.value.type)))
    high, low = _double_log(abs(x))
    product = y * high
    rest = _product_rest(y, high, -product) + y * low
    # If exp is 0 or infinite, the correction is meaningless.
    rest = rest.where(abs(product).compare("<", 1000.0), 0.0)
    return _powers_of_special(x, y, exp(product, rest))


def _powers_of_special(x: Num, y: Num, result: Num) -> Num:
    b = x.of.b
    one, nan = x.new(x.raw(1.0)), x.new(x.raw(math.nan))
    is_integer = y.new(y.of.unary("trunc", y.value)).compare("==", y)
    half = y * 0.5
    odd = b.and_(is_integer, half.new(y.of.unary("trunc", half.value)).compare("!=", half))
    odd = b.and_(odd, abs(y).compare("<", INF))
    growing = y.compare(">", 0.0)
    size = abs(x)
    zero, infinite = x.new(x.raw(0.0)), x.new(x.raw(INF))
    result = zero.where(growing, infinite).where(size.compare("==", 0.0), result)
    result = infinite.where(growing, zero).where(size.compare("==", INF), result)
    # infinite exponents: the result depends on whether |x| is above 1
    above = infinite.where(b.xor(size.compare("<", 1.0), growing), zero)
    result = above.where(abs(y).compare("==", INF), result)
    result = one.where(b.and_(abs(y).compare("==", INF), size.compare("==", 1.0)), result)
    result = (-result).where(b.and_(odd, negative(x)), result)
    finite = b.and_(x.compare("<", 0.0), abs(x).compare("<", INF))
    broken = b.and_(finite, b.not_(is_integer))
    result = nan.where(b.and_(broken, abs(y).compare("<", INF)), result)
    result = nan.where(b.or_(x.is_nan(), y.is_nan()), result)
    return one.where(b.or_(y.compare("==", 0.0), x.compare("==", 1.0)), result)


def _widened(x: Num) -> Num:
    return x.new(x.of.b.fpext(x.value, x.of.of(f64)))


def _double_log(x: Num) -> tuple[Num, Num]:
    # log(x) as the sum of two float64: 2 s + 2/3 s^3 + ..., where s and s^3 have two parts each.
    lifted, k = normal(x)
    m, e = split(lifted)
    e = e - k
    f, g = m - 1.0, m + 1.0
    lost = f - (g - 2.0)  # m + 1 = g + lost
    s = f / g
    s_low = (_product_rest(-s, g, f) - s * lost) / g
    z, z_low = _times(s, s)
    z_low = z_low + 2.0 * s * s_low
    cube, cube_low = _times(s, z)
    cube_low = cube_low + s * z_low + s_low * z
    third, third_low = _times(cube, 2.0 / 3.0)
    third_low = third_low + cube_low * (2.0 / 3.0) + cube * _THIRD_REST
    rest = cube * (z * z.polynomial(table.LOG_LOW[64]))
    high, low = LN2[64]
    total, error = _sum(e * high, 2.0 * s)
    total, more = _sum(total, third)
    small = error + more + (e.fma(low, 2.0 * s_low + third_low) + rest)
    high_part, low_part = _sum(total, small)
    return high_part, low_part


#: 2/3 minus its float64 value.
_THIRD_REST = 3.700743415417188e-17


def _product_rest(x: Num, y: Num, plus: Num) -> Num:
    return x.new(x.of.exact_fma(x.value, y.value, plus.value))


def _times(x: Num, y: Num | float) -> tuple[Num, Num]:
    product = x * y
    other = y if isinstance(y, Num) else x.new(x.raw(y))
    return product, _product_rest(x, other, -product)


def _sum(x: Num, y: Num) -> tuple[Num, Num]:
    # Knuth's two-sum: x + y and its rounding error.
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)
