"""Elementwise functions. Each is the function of ``fl_tensor`` of that name, or of the name beside
it, with the standard's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_tensor.array import Array

Unary = Callable[[Array], Array]
#: One of the two may be a Python scalar.
Binary = Callable[[Any, Any], Array]


def _unary(function: Callable[..., Any], name: str | None = None) -> Unary:
    def one(x: Array, /) -> Array:
        return function(x)

    return _as(one, function, name)


def _binary(function: Callable[..., Any], name: str | None = None) -> Binary:
    def two(x1: Any, x2: Any, /) -> Array:
        return function(x1, x2)

    return _as(two, function, name)


def _as(made: Any, function: Callable[..., Any], name: str | None) -> Any:
    # Not functools.wraps: the signature is the standard's.
    made.__name__ = made.__qualname__ = name or function.__name__
    made.__doc__ = function.__doc__
    return made


abs = _unary(ft.absolute, "abs")
acos = _unary(ft.acos)
acosh = _unary(ft.acosh)
add = _binary(ft.add)
asin = _unary(ft.asin)
asinh = _unary(ft.asinh)
atan = _unary(ft.atan)
atan2 = _binary(ft.atan2)
atanh = _unary(ft.atanh)
bitwise_and = _binary(ft.bitwise_and)
bitwise_invert = _unary(ft.bitwise_invert)
bitwise_left_shift = _binary(ft.bitwise_left_shift)
bitwise_or = _binary(ft.bitwise_or)
bitwise_right_shift = _binary(ft.bitwise_right_shift)
bitwise_xor = _binary(ft.bitwise_xor)
ceil = _unary(ft.ceil)
conj = _unary(ft.conj)
cos = _unary(ft.cos)
cosh = _unary(ft.cosh)
divide = _binary(ft.divide)
equal = _binary(ft.equal)
exp = _unary(ft.exp)
expm1 = _unary(ft.expm1)
floor = _unary(ft.floor)
floor_divide = _binary(ft.floor_divide)
greater = _binary(ft.greater)
greater_equal = _binary(ft.greater_equal)
hypot = _binary(ft.hypot)
imag = _unary(ft.imag)
isfinite = _unary(ft.isfinite)
isinf = _unary(ft.isinf)
isnan = _unary(ft.isnan)
less = _binary(ft.less)
less_equal = _binary(ft.less_equal)
log = _unary(ft.log)
log10 = _unary(ft.log10)
log1p = _unary(ft.log1p)
log2 = _unary(ft.log2)
logical_and = _binary(ft.logical_and)
logical_not = _unary(ft.logical_not)
logical_or = _binary(ft.logical_or)
logical_xor = _binary(ft.logical_xor)
maximum = _binary(ft.maximum)
minimum = _binary(ft.minimum)
multiply = _binary(ft.multiply)
negative = _unary(ft.negative)
not_equal = _binary(ft.not_equal)
pow = _binary(ft.power, "pow")
real = _unary(ft.real)
reciprocal = _unary(ft.reciprocal)
remainder = _binary(ft.remainder)
round = _unary(ft.round)
sign = _unary(ft.sign)
sin = _unary(ft.sin)
sinh = _unary(ft.sinh)
sqrt = _unary(ft.sqrt)
square = _unary(ft.square)
subtract = _binary(ft.subtract)
tan = _unary(ft.tan)
tanh = _unary(ft.tanh)


def positive(x: Array, /) -> Array:
    """``x``."""
    return +x


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """``x`` limited to [min, max], each a scalar, an array that broadcasts, or None."""
    return ft.clip(x, min, max)
