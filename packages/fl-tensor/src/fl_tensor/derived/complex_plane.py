"""Inverse functions of complex numbers, computed in real arithmetic in the first quadrant.

``asin``, ``atanh`` and the others built on them commute with reflection at both axes. So they are
computed of (|x|, |y|), where no branch cut is crossed, and get the signs of x and y at the end;
zeros have signs, too: they tell the two sides of a cut apart. Kahan, "Branch cuts for complex
elementary functions", 1987.
"""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.roles import Ops


def from_parts(ops: Ops, real: Any, imag: Any, like: Any) -> Any:
    """``real + 1j * imag`` in the dtype of ``like``."""
    turned = ops.multiply(ops.cast(imag, like.dtype), ops.constant(1j, like))
    return ops.add(ops.cast(real, like.dtype), turned)


def asin(ops: Ops, z: Any) -> Any:
    x, y = ops.real(z), ops.imag(z)
    angle, growth = _asin_quadrant(ops, ops.absolute(x), ops.absolute(y))
    return from_parts(ops, _signed(ops, angle, x), _signed(ops, growth, y), z)


def acos(ops: Ops, z: Any) -> Any:
    angle, growth = _acos(ops, z)
    return from_parts(ops, angle, _signed(ops, ops.negative(growth), ops.imag(z)), z)


def acosh(ops: Ops, z: Any) -> Any:
    angle, growth = _acos(ops, z)
    return from_parts(ops, growth, _signed(ops, angle, ops.imag(z)), z)


def asinh(ops: Ops, z: Any) -> Any:
    # asinh(z) = -i asin(i z): the parts of z and of the result change places
    x, y = ops.real(z), ops.imag(z)
    angle, growth = _asin_quadrant(ops, ops.absolute(y), ops.absolute(x))
    return from_parts(ops, _signed(ops, growth, x), _signed(ops, angle, y), z)


def atanh(ops: Ops, z: Any) -> Any:
    x, y = ops.real(z), ops.imag(z)
    growth, angle = _atanh_quadrant(ops, ops.absolute(x), ops.absolute(y))
    return from_parts(ops, _signed(ops, growth, x), _signed(ops, angle, y), z)


def atan(ops: Ops, z: Any) -> Any:
    # atan(z) = -i atanh(i z)
    x, y = ops.real(z), ops.imag(z)
    growth, angle = _atanh_quadrant(ops, ops.absolute(y), ops.absolute(x))
    return from_parts(ops, _signed(ops, angle, x), _signed(ops, growth, y), z)


def tan(ops: Ops, z: Any) -> Any:
    # tan(z) = -i tanh(i z): sin and cos overflow where their quotient is nearly i
    i = ops.constant(1j, z)
    return ops.negative(ops.multiply(i, ops.tanh(ops.multiply(i, z))))


def _signed(ops: Ops, magnitude: Any, like: Any) -> Any:
    # copysign, for magnitudes >= 0 (or all <= 0): the angle of (-1, -0.0) is -pi.
    below = ops.less(ops.atan2(like, ops.constant(-1.0, like)), ops.constant(0.0, like))
    return ops.where(below, ops.negative(magnitude), magnitude)


def _roots(ops: Ops, u: Any, v: Any) -> tuple[Any, Any]:
    # Real and imaginary part of sqrt(u + i v), v >= 0. The larger one first: the other would cancel
    # if it were not computed from v.
    half, zero = ops.constant(0.5, u), ops.constant(0.0, u)
    larger = ops.sqrt(ops.multiply(half, ops.add(ops.hypot(u, v), ops.absolute(u))))
    none = ops.equal(larger, zero)
    divisor = ops.where(none, ops.constant(1.0, u), larger)
    smaller = ops.where(none, zero, ops.divide(ops.multiply(half, v), divisor))
    left = ops.less(u, zero)
    return ops.where(left, smaller, larger), ops.where(left, larger, smaller)


def _asin_quadrant(ops: Ops, x: Any, y: Any) -> tuple[Any, Any]:
    # asin(x + i y) for x, y >= 0: with p = sqrt(1 - z), q = sqrt(1 + z) it is
    # atan2(x, Re(p q)) + i asinh(Im(conj(p) q)).
    (c, d), (e, f) = _legs(ops, x, y)
    angle = ops.atan2(x, ops.add(ops.multiply(c, e), ops.multiply(d, f)))
    return angle, ops.asinh(ops.add(ops.multiply(c, f), ops.multiply(d, e)))


def _acos(ops: Ops, z: Any) -> tuple[Any, Any]:
    # The real part of acos(z), and the magnitude of the imaginary one.
    x = ops.real(z)
    (c, d), (e, f) = _legs(ops, ops.absolute(x), ops.absolute(ops.imag(z)))
    angle = ops.multiply(ops.constant(2.0, x), ops.atan2(c, e))
    angle = ops.where(
        ops.less(x, ops.constant(0.0, x)), ops.subtract(ops.constant(math.pi, x), angle), angle
    )
    return angle, ops.asinh(ops.add(ops.multiply(c, f), ops.multiply(d, e)))


def _legs(ops: Ops, x: Any, y: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    # sqrt(1 - z) = c - i d and sqrt(1 + z) = e + i f for z = x + i y in the first quadrant.
    one = ops.constant(1.0, x)
    return _roots(ops, ops.subtract(one, x), y), _roots(ops, ops.add(one, x), y)


def _atanh_quadrant(ops: Ops, x: Any, y: Any) -> tuple[Any, Any]:
    # Real and imaginary part of atanh(x + i y), x, y >= 0.
    one, two = ops.constant(1.0, x), ops.constant(2.0, x)
    gap, squared = ops.subtract(one, x), ops.multiply(y, y)
    distance = ops.add(ops.multiply(gap, gap), squared)
    quotient = ops.divide(ops.multiply(ops.constant(4.0, x), x), distance)
    growth = ops.multiply(ops.constant(0.25, x), ops.log1p(quotient))
    rest = ops.subtract(ops.multiply(gap, ops.add(one, x)), squared)
    angle = ops.multiply(ops.constant(0.5, x), ops.atan2(ops.multiply(two, y), rest))
    return growth, angle
