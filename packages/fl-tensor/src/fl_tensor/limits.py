"""Limits of dtypes: ``finfo`` and ``iinfo``."""

from __future__ import annotations

from typing import Any, NamedTuple

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

# Bits of the exponent and of the fraction.
_LAYOUT = {
    dtypes.float16: (5, 10),
    dtypes.bfloat16: (8, 7),
    dtypes.float32: (8, 23),
    dtypes.float64: (11, 52),
}
_PART = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


class FloatInfo(NamedTuple):
    """Limits of a floating dtype, as Python floats.

    eps is the gap between 1 and the next number; smallest_normal the smallest positive number of
    full precision.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntInfo(NamedTuple):
    """Limits of an integer dtype, as Python ints."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(dtype: Any) -> FloatInfo:
    """Limits of a floating dtype, its name, or an array's dtype; of the parts for a complex one.
    Raises DTypeError for any other."""
    kind = _dtype_of(dtype)
    kind = _PART.get(kind, kind)
    if kind not in _LAYOUT:
        raise DTypeError(f"[finfo] {kind} is not floating; see iinfo for integers")
    exponent, fraction = _LAYOUT[kind]
    largest = 1 << (exponent - 1)
    top = (2.0 - 2.0**-fraction) * 2.0 ** (largest - 1)
    normal = 2.0 ** (2 - largest)
    return FloatInfo(8 * kind.itemsize, 2.0**-fraction, top, -top, normal, kind)


def iinfo(dtype: Any) -> IntInfo:
    """Limits of an integer dtype, its name, or an array's dtype. Raises DTypeError for any
    other."""
    kind = _dtype_of(dtype)
    if not kind.is_integer:
        raise DTypeError(f"[iinfo] {kind} is no integer dtype; see finfo for floating ones")
    bits = 8 * kind.itemsize
    if kind.kind == "u":
        return IntInfo(bits, (1 << bits) - 1, 0, kind)
    return IntInfo(bits, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), kind)


def _dtype_of(given: Any) -> DType:
    is_dtype = isinstance(given, (DType, str, type))
    return dtypes.dtype(given if is_dtype else getattr(given, "dtype", given))
