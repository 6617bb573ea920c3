"""Comparisons and logical operations."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.roles import A, Ops, P, Q

__all__ = [
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def not_equal(ops: Ops, x: P, y: P) -> Any:
    """``x != y`` as bool; NaN differs from everything."""
    return ops.bitwise_invert(ops.equal(x, y))


def less_equal(ops: Ops, x: Q, y: Q) -> Any:
    """``x <= y`` as bool."""
    return ops.bitwise_or(ops.less(x, y), ops.equal(x, y))


def greater(ops: Ops, x: Q, y: Q) -> Any:
    """``x > y`` as bool."""
    return ops.less(y, x)


def greater_equal(ops: Ops, x: Q, y: Q) -> Any:
    """``x >= y`` as bool."""
    return ops.less_equal(y, x)


def isnan(ops: Ops, x: A) -> Any:
    """True where ``x`` is not a number."""
    return ops.not_equal(x, x)


def isinf(ops: Ops, x: A) -> Any:
    """True where ``x``, or a part of it, is plus or minus infinity."""
    if x.dtype.kind == "c":
        return ops.logical_or(ops.isinf(ops.real(x)), ops.isinf(ops.imag(x)))
    if not x.dtype.is_floating:
        return ops.full(x.shape, False, dtypes.bool, x.device)
    return ops.equal(ops.absolute(x), ops.constant(math.inf, x))


def isfinite(ops: Ops, x: A) -> Any:
    """True where ``x`` is neither infinite nor NaN."""
    if x.dtype.kind == "c":
        return ops.logical_and(ops.isfinite(ops.real(x)), ops.isfinite(ops.imag(x)))
    if not x.dtype.is_floating:
        return ops.full(x.shape, True, dtypes.bool, x.device)
    return ops.less(ops.absolute(x), ops.constant(math.inf, x))


def _truth(ops: Ops, x: Any) -> Any:
    return x if x.dtype is dtypes.bool else ops.cast(x, dtypes.bool)


def logical_not(ops: Ops, x: A) -> Any:
    """True where ``x`` is zero."""
    return ops.bitwise_invert(_truth(ops, x))


def logical_and(ops: Ops, x: A, y: A) -> Any:
    """True where both are non-zero."""
    return ops.bitwise_and(_truth(ops, x), _truth(ops, y))


def logical_or(ops: Ops, x: A, y: A) -> Any:
    """True where either is non-zero."""
    return ops.bitwise_or(_truth(ops, x), _truth(ops, y))


def logical_xor(ops: Ops, x: A, y: A) -> Any:
    """True where exactly one is non-zero."""
    return ops.bitwise_xor(_truth(ops, x), _truth(ops, y))
