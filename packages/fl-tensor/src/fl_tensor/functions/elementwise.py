"""Public elementwise functions with more than promotion: conversion, complex parts, rounding,
choice.
"""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import arguments, dtypes, functions
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.limits import finfo, iinfo

__all__ = ["angle", "cast", "conj", "imag", "positive", "real", "round", "where"]


def cast(x: ArrayLike, dtype: DType | str | type[Any]) -> Any:
    """``x`` in another dtype: floats truncate towards zero, integers wrap, bool is ``x != 0``."""
    x = operand("cast", "A", x)
    made = frontend.cast(x, dtypes.dtype(dtype))
    return frontend.same_value(x) if made is x else made


def real(x: ArrayLike) -> Any:
    """Real part; ``x`` itself where it is real."""
    x = operand("real", "A", x)
    return run("real", x, x._raw) if x.dtype.kind == "c" else frontend.same_value(x)


def imag(x: ArrayLike) -> Any:
    """Imaginary part; zeros where ``x`` is real."""
    x = operand("imag", "A", x)
    if x.dtype.kind == "c":
        return run("imag", x, x._raw)
    zero = x._constant(arguments.scalar("imag", 0, x.dtype), x.dtype)
    return run("broadcast_to", x, zero._raw, x.shape)


def conj(x: ArrayLike) -> Any:
    """Complex conjugate; ``x`` itself where it is real."""
    x = operand("conj", "A", x)
    return run("conj", x, x._raw) if x.dtype.kind == "c" else frontend.same_value(x)


def angle(x: ArrayLike) -> Any:
    """The angle of complex numbers in radians, in [-pi, pi]. Of real ones 0, or pi below 0; NaN
    stays NaN. Integers become the default float."""
    x = operand("angle", "F", x)
    if x.dtype.kind == "c":
        return run("angle", x, x._raw)
    zero = x._constant(0.0, x.dtype)
    return where(functions.isnan(x), x, where(x < 0, math.pi, zero))


def positive(x: ArrayLike) -> Any:
    """``+x``: a number, not a bool, as it is."""
    x = operand("positive", "N", x)
    return frontend.same_value(x)


def round(x: ArrayLike, decimals: int = 0) -> Any:
    """The nearest number with ``decimals`` digits after the point, halves to even, of complex
    numbers in both parts; -2 rounds to hundreds. Integers stay integers.

    As in NumPy and PyTorch, ``x * 10^decimals`` is what is rounded (of half precision in float32).
    ArgumentError where the dtype does not hold ``10^decimals``.
    """
    digits = arguments.int_of("round", decimals, "decimals")
    if digits == 0:
        return frontend.unary("round", "N", x)
    x = operand("round", "N", x)
    if x.dtype.is_integer:
        return frontend.same_value(x) if digits > 0 else _rounded_integers(x, -digits)
    wide = frontend.cast(x, dtypes.accumulator(x.dtype))
    most = int(math.log10(finfo(wide.dtype).max))
    if abs(digits) > most:
        raise ArgumentError(
            f"[round] decimals {digits}: for {wide.dtype} expected -{most} to {most}"
        )
    factor = 10.0 ** abs(digits)
    scaled = wide * factor if digits > 0 else wide / factor
    units = round(scaled)
    made = units / factor if digits > 0 else units * factor
    # What overflows when scaled has no digits after the point.
    made = where(functions.isfinite(scaled), made, round(wide))
    return frontend.cast(made, x.dtype)


def _rounded_integers(x: Any, zeros: int) -> Any:
    # To multiples of 10^zeros, in integer arithmetic.
    step = 10**zeros
    if step > iinfo(x.dtype).max:
        return x * 0
    multiple = x // step
    rest = x - multiple * step
    gap = step - rest
    up = (rest > gap) | ((rest == gap) & (multiple % 2 == 1))
    return (multiple + frontend.cast(up, x.dtype)) * step


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Any:
    """``x`` where ``condition`` (bool) holds, else ``y``; all three broadcast. Without both, the
    places where it holds, as ``nonzero``."""
    if x is None and y is None:
        condition = operand("where", "A", condition)
        return run("nonzero", condition, condition._raw)
    condition, x, y = operands_of("where", "APP", condition, x, y)
    if condition.dtype is not dtypes.bool:
        raise DTypeError(f"[where] condition is {condition.dtype}: expected bool, such as x != 0")
    return run("where", x, condition._raw, x._raw, y._raw)
