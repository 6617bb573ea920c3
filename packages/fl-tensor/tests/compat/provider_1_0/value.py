"""A value: a NumPy array that nobody writes to, in a block of the memory manager when large."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_memory
import fl_tensor as ft

TO_NUMPY = {
    ft.bool: np.dtype("bool"),
    ft.uint8: np.dtype("uint8"),
    ft.int32: np.dtype("int32"),
    ft.int64: np.dtype("int64"),
    ft.float32: np.dtype("float32"),
}


class Value(ft.TensorAdapter):
    __slots__ = ("array", "_dtype")

    def __init__(self, array: np.ndarray, dtype: ft.DType) -> None:
        self.array = array
        self._dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> ft.DType:
        return self._dtype

    @property
    def device(self) -> ft.Device:
        return ft.CPU


def made(array: Any, dtype: ft.DType) -> Value:
    """A value of ``dtype`` from what NumPy computed."""
    array = np.asarray(array, TO_NUMPY[dtype])
    manager = fl_memory.current()
    if array.nbytes == 0 or array.nbytes < manager.small_bytes:
        return Value(array, dtype)
    room = np.frombuffer(manager.alloc(array.nbytes).view(), array.dtype, array.size)
    room = room.reshape(array.shape)
    np.copyto(room, array)
    return Value(room, dtype)
