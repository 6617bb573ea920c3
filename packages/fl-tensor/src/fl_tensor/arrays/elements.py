"""Conversion between bytes and Python scalars, without an array library."""

from __future__ import annotations

import array
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

__all__ = ["FORMATS", "pack", "swapped", "unpack"]

#: The letter of an element in the buffer protocol (PEP 3118). There is none for bfloat16.
FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "Zf",
    "complex128": "Zd",
}
#: Where the upper half of a float32, which is a bfloat16, lies in its four bytes.
_UPPER = 2 if sys.byteorder == "little" else 0
#: From here float16 rounds to infinity.
_FLOAT16_OVERFLOW = 65520.0


def unpack(data: memoryview, dtype: DType) -> list[Any]:
    """The numbers in bytes of ``dtype``."""
    if dtype is dtypes.float16:
        return list(struct.unpack(f"{data.nbytes // 2}e", data))
    if dtype is dtypes.bfloat16:
        wide = bytearray(2 * data.nbytes)
        wide[_UPPER::4], wide[_UPPER + 1 :: 4] = data[::2], data[1::2]
        return unpack(memoryview(wide), dtypes.float32)
    if dtype.kind == "c":
        parts = unpack(data, dtypes.real_of(dtype))
        return [complex(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return data.cast(FORMATS[dtype.name]).tolist()  # type: ignore[call-overload]


def swapped(data: bytes, dtype: DType) -> bytes:
    """The bytes of ``dtype`` in the other byte order."""
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if size == 1:
        return data
    words = array.array({2: "H", 4: "I", 8: "Q"}[size], data)
    words.byteswap()
    return words.tobytes()


def pack(values: Sequence[Any], dtype: DType) -> bytes:
    """The numbers as bytes of ``dtype``, rounded to it. Raises DTypeError for what it cannot
    hold."""
    if dtype.kind == "b":
        return bytes(bool(v) for v in values)
    try:
        if dtype is dtypes.float16:
            return struct.pack(f"{len(values)}e", *map(_finite_float16, values))
        if dtype is dtypes.bfloat16:
            return _upper_halves(array.array("f", values))
        if dtype.kind == "c":
            return array.array(FORMATS[dtype.name][1], _parts(values)).tobytes()
        return array.array(FORMATS[dtype.name], values).tobytes()
    except (OverflowError, TypeError, struct.error) as error:
        raise DTypeError(f"[asarray] the values do not fit {dtype}: {error}") from None


def _finite_float16(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= _FLOAT16_OVERFLOW else value


def _parts(values: Iterable[complex]) -> Iterable[float]:
    for value in values:
        number = complex(value)
        yield number.real
        yield number.imag


def _upper_halves(singles: array.array[float]) -> bytes:
    # To nearest, ties to even; NaN keeps its upper half, which is never that of infinity.
    bits = array.array("I", singles.tobytes())
    rounded = (
        b >> 16 | 0x40 if b & 0x7FFFFFFF > 0x7F800000 else (b + 0x7FFF + (b >> 16 & 1)) >> 16
        for b in bits
    )
    return array.array("H", rounded).tobytes()
