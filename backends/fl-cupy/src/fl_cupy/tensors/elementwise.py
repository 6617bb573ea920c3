"""Elementwise operations: functions of CuPy as methods, and what CuPy computes otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
from cupyx.scipy import special

from fl_cupy.tensors.adapter import TO_CUPY, CupyAdapter
from fl_cupy.tensors.placement import on_device
from fl_tensor.backend import TensorBackend
from fl_tensor.dtypes import DType

Value = CupyAdapter


def elementwise(function: Callable[..., Any]) -> Any:
    """The method of a function of one or more arrays, which broadcast."""

    @on_device
    def operation(self: TensorBackend, x: Value, *others: Value) -> Value:
        return Value(function(x.array, *[other.array for other in others]), x.device)

    return operation


def rounding(function: Callable[[Any], Any]) -> Any:
    """As ``elementwise``, of what leaves integers as they are."""
    rounded = elementwise(function)

    def operation(self: TensorBackend, x: Value) -> Value:
        found: Value = x if x.dtype.is_integer else rounded(self, x)
        return found

    return operation


def _log1p(z: Any) -> Any:
    """Of complex numbers: CuPy adds 1 first, which loses a small ``z``. |1 + z|^2 is
    1 + x (2 + x) + y^2, and log1p of that is accurate where ``z`` is small."""
    if z.dtype.kind != "c":
        return cupy.log1p(z)
    x, y = z.real, z.imag
    near = cupy.log1p(x * (2 + x) + y * y) / 2
    far = cupy.log(cupy.hypot(1 + x, y))
    out = cupy.empty_like(z)
    out.real = cupy.where(cupy.maximum(cupy.absolute(x), cupy.absolute(y)) < 0.5, near, far)
    out.imag = cupy.arctan2(y, 1 + x)
    return out


def _expm1(z: Any) -> Any:
    """Of complex numbers: exp(x) cos y - 1 is expm1(x) cos y - 2 sin(y / 2)^2."""
    if z.dtype.kind != "c":
        return cupy.expm1(z)
    x, y = z.real, z.imag
    near = cupy.empty_like(z)
    near.real = cupy.expm1(x) * cupy.cos(y) - 2 * cupy.square(cupy.sin(y / 2))
    near.imag = cupy.exp(x) * cupy.sin(y)
    out = cupy.where(cupy.isfinite(z), near, cupy.exp(z) - 1)
    out.real += 0.0  # -0 becomes 0
    return out


def _erf(x: Any) -> Any:
    return special.erf(_wide(x)).astype(x.dtype, copy=False)


def _floor_divide(x: Any, y: Any) -> Any:
    """Of floats from the exact remainder, as NumPy has it: CuPy rounds x / y before the floor."""
    if x.dtype.kind != "f":
        return cupy.floor_divide(x, y)
    a, b = _wide(x), _wide(y)
    rest = cupy.fmod(a, b)
    whole = cupy.rint((a - rest) / b - _crosses(rest, b))  # a whole number but for rounding
    ratio = a / b
    found = cupy.where(whole == 0, cupy.copysign(whole, ratio), whole)
    return cupy.where(b == 0, ratio, found).astype(x.dtype, copy=False)


def _remainder(x: Any, y: Any) -> Any:
    """Of floats by C's, which is x where y is infinite, and exact; then of the sign of y."""
    if x.dtype.kind != "f":
        return cupy.remainder(x, y)
    a, b = _wide(x), _wide(y)
    rest = cupy.fmod(a, b)
    found = cupy.where(_crosses(rest, b), rest + b, cupy.copysign(rest, b))
    return found.astype(x.dtype, copy=False)


def _crosses(rest: Any, y: Any) -> Any:
    """Where the floor of a quotient is one below the whole number nearer to 0."""
    return (rest != 0) & ((rest < 0) != (y < 0))


def _wide(x: Any) -> Any:
    return x.astype("float32") if x.dtype == "float16" else x


class Elementwise(TensorBackend):
    """Mixed into the backend."""

    negative, absolute, sign = map(elementwise, (cupy.negative, cupy.absolute, cupy.sign))
    exp, expm1, log = map(elementwise, (cupy.exp, _expm1, cupy.log))
    log1p, sqrt, tanh = map(elementwise, (_log1p, cupy.sqrt, cupy.tanh))
    sin, cos, erf = map(elementwise, (cupy.sin, cupy.cos, _erf))
    floor, ceil, round = map(rounding, (cupy.floor, cupy.ceil, cupy.rint))
    bitwise_invert = elementwise(cupy.invert)

    add, subtract, multiply = map(elementwise, (cupy.add, cupy.subtract, cupy.multiply))
    divide, floor_divide = elementwise(cupy.true_divide), elementwise(_floor_divide)
    remainder, power, atan2 = map(elementwise, (_remainder, cupy.power, cupy.arctan2))
    maximum, minimum = elementwise(cupy.maximum), elementwise(cupy.minimum)
    equal, less, where = map(elementwise, (cupy.equal, cupy.less, cupy.where))
    bitwise_and, bitwise_or = elementwise(cupy.bitwise_and), elementwise(cupy.bitwise_or)
    bitwise_xor = elementwise(cupy.bitwise_xor)
    bitwise_left_shift = elementwise(cupy.left_shift)
    bitwise_right_shift = elementwise(cupy.right_shift)

    @on_device
    def cast(self, x: Value, dtype: DType) -> Value:
        array = x.array
        if x.dtype.kind == "c" and dtype.kind not in "cb":
            array = array.real
        return Value(array.astype(TO_CUPY[dtype]), x.device)
