"""Elementwise functions. Each is the function of ``fl_tensor`` of that name, or of the name beside
it, with the standard's parameters."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_tensor.array_api.signatures import binary, unary
from fl_tensor.arrays.array import Array

abs = unary(ft.absolute, "abs")
acos = unary(ft.acos)
acosh = unary(ft.acosh)
add = binary(ft.add)
asin = unary(ft.asin)
asinh = unary(ft.asinh)
atan = unary(ft.atan)
atan2 = binary(ft.atan2)
atanh = unary(ft.atanh)
bitwise_and = binary(ft.bitwise_and)
bitwise_invert = unary(ft.bitwise_invert)
bitwise_left_shift = binary(ft.bitwise_left_shift)
bitwise_or = binary(ft.bitwise_or)
bitwise_right_shift = binary(ft.bitwise_right_shift)
bitwise_xor = binary(ft.bitwise_xor)
ceil = unary(ft.ceil)
conj = unary(ft.conj)
copysign = binary(ft.copysign)
cos = unary(ft.cos)
cosh = unary(ft.cosh)
divide = binary(ft.divide)
equal = binary(ft.equal)
exp = unary(ft.exp)
expm1 = unary(ft.expm1)
floor = unary(ft.floor)
floor_divide = binary(ft.floor_divide)
greater = binary(ft.greater)
greater_equal = binary(ft.greater_equal)
hypot = binary(ft.hypot)
imag = unary(ft.imag)
isfinite = unary(ft.isfinite)
isinf = unary(ft.isinf)
isnan = unary(ft.isnan)
less = binary(ft.less)
less_equal = binary(ft.less_equal)
log = unary(ft.log)
log10 = unary(ft.log10)
log1p = unary(ft.log1p)
log2 = unary(ft.log2)
logaddexp = binary(ft.logaddexp)
logical_and = binary(ft.logical_and)
logical_not = unary(ft.logical_not)
logical_or = binary(ft.logical_or)
logical_xor = binary(ft.logical_xor)
maximum = binary(ft.maximum)
minimum = binary(ft.minimum)
multiply = binary(ft.multiply)
negative = unary(ft.negative)
nextafter = binary(ft.nextafter)
not_equal = binary(ft.not_equal)
pow = binary(ft.power, "pow")
real = unary(ft.real)
reciprocal = unary(ft.reciprocal)
remainder = binary(ft.remainder)
round = unary(ft.round)
sign = unary(ft.sign)
signbit = unary(ft.signbit)
sin = unary(ft.sin)
sinh = unary(ft.sinh)
sqrt = unary(ft.sqrt)
square = unary(ft.square)
subtract = binary(ft.subtract)
tan = unary(ft.tan)
tanh = unary(ft.tanh)
trunc = unary(ft.trunc)


def positive(x: Array, /) -> Array:
    """``x``."""
    return +x


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """``x`` limited to [min, max], each a scalar, an array that broadcasts, or None."""
    return ft.clip(x, min, max)
