"""One value: numbers in C order, in a block of the installed memory manager when there are many."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import fl_memory
import fl_tensor as ft
from fl_tensor.backend import TensorAdapter

CODES = dict(bool="B", uint8="B", int32="i", int64="q", float32="f", float64="d")
CPU = ft.Device("cpu")
Shape = tuple[int, ...]


class Value(TensorAdapter):
    """`items` is an array, or a typed view of a block's memory (which keeps the block alive)."""

    __slots__ = ("dtype", "items", "shape")
    shape: Shape
    dtype: ft.DType
    device = CPU

    def __init__(self, items: Any, shape: Shape, dtype: ft.DType) -> None:
        self.items, self.shape, self.dtype = items, shape, dtype

    def numbers(self) -> list[Any]:
        return self.items.tolist()


def make(numbers: Iterable[Any], shape: Shape, dtype: ft.DType) -> Value:
    """Numbers in C order, rounded (floats) or wrapped (integers) to `dtype`."""
    numbers = list(numbers)
    try:
        items = array(CODES[dtype.name], numbers)
    except OverflowError:
        half = 1 << 8 * dtype.itemsize - 1
        low = half if dtype.kind == "i" else 0
        items = array(CODES[dtype.name], [(n + low) % (2 * half) - low for n in numbers])
    return stored(items, shape, dtype)


def stored(items: array[Any], shape: Shape, dtype: ft.DType) -> Value:
    nbytes = len(items) * items.itemsize
    manager = fl_memory.current()
    if not nbytes or nbytes < manager.small_bytes:
        return Value(items, shape, dtype)
    view = manager.alloc(nbytes, tag=fl_memory.current_tag()).view()
    view[:] = memoryview(items).cast("B")
    code: Any = items.typecode
    return Value(view.cast(code), shape, dtype)
