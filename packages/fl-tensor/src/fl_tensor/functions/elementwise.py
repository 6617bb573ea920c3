"""Public elementwise functions that do more than promote: conversion, parts of complex numbers,
choice."""

from __future__ import annotations

from typing import Any

from fl_tensor import arguments, dtypes
from fl_tensor.dispatch import frontend
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

__all__ = ["cast", "conj", "imag", "positive", "real", "where"]


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


def positive(x: ArrayLike) -> Any:
    """``+x``: a number, not a bool, as it is."""
    x = operand("positive", "N", x)
    return frontend.same_value(x)


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Any:
    """``x`` where ``condition`` (bool) holds, else ``y``; all three broadcast."""
    condition, x, y = operands_of("where", "APP", condition, x, y)
    if condition.dtype is not dtypes.bool:
        raise DTypeError(f"[where] condition is {condition.dtype}: expected bool, such as x != 0")
    return run("where", x, condition._raw, x._raw, y._raw)
