"""Host data of the kit: conversion between NumPy arrays and bytes in C order.

NumPy has no bfloat16, so the kit represents it by float32 arrays that hold only bfloat16 values.
Only the two functions below depend on that.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fl_tensor import dtypes
from fl_tensor.dtypes import DType

HostArray: TypeAlias = NDArray[Any]

#: Distance from 1.0 to the next larger number, the unit in which tolerances are stated.
EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
#: Smallest positive normal number: below it a relative tolerance means nothing.
SMALLEST_NORMAL = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
    "complex64": 2.0**-126,
    "complex128": 2.0**-1022,
}
LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2.0 - 2.0**-7) * 2.0**127,
    "float32": (2.0 - 2.0**-23) * 2.0**127,
    "float64": float(np.finfo(np.float64).max),
}


def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype in which the kit holds values of ``dtype``."""
    return np.dtype("float32" if dtype is dtypes.bfloat16 else dtype.name)


def round_to(values: HostArray, dtype: DType) -> HostArray:
    """``values`` rounded to ``dtype``, in the kit's storage for it."""
    with np.errstate(all="ignore"):
        if dtype is not dtypes.bfloat16:
            return np.asarray(values).astype(storage(dtype))
        single = np.asarray(values).astype(np.float32)
        return _from_bfloat16_bits(_bfloat16_bits(single))


def encode(values: HostArray, dtype: DType) -> bytes:
    """C-order bytes of ``values`` as a tensor of ``dtype`` holds them."""
    if dtype is dtypes.bfloat16:
        return _bfloat16_bits(np.asarray(values, np.float32)).tobytes()
    return np.asarray(values).astype(storage(dtype)).tobytes()


def decode(data: bytes | memoryview, shape: tuple[int, ...], dtype: DType) -> HostArray:
    """The array that C-order ``data`` holds. Raises ValueError if the size does not fit."""
    count = 1
    for n in shape:
        count *= n
    got, expected = memoryview(data).nbytes, count * dtype.itemsize
    if got != expected:
        raise ValueError(f"to_host gave {got} bytes for {dtype}{shape}; {expected} expected")
    if dtype is dtypes.bfloat16:
        return _from_bfloat16_bits(np.frombuffer(bytes(data), np.uint16)).reshape(shape)
    return np.frombuffer(bytes(data), storage(dtype)).reshape(shape)


def _bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Upper halves of the float32 bits, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def _from_bfloat16_bits(bits: NDArray[np.uint16]) -> HostArray:
    wide = np.ascontiguousarray(bits.astype(np.uint32) << 16)
    return wide.view(np.float32).reshape(bits.shape)
