"""Tensors as flat NumPy arrays over host memory, and back, for transports that move bytes.

NumPy has no bfloat16: its elements are shown as uint16.
"""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

import fl_memory as mem
import fl_tensor as ft
from fl_memory.buffers import exporter
from fl_tensor import DType, Tensor

__all__ = ["HostArray", "bfloat16", "empty", "flat", "storage", "tensor", "writable"]

HostArray: TypeAlias = np.ndarray[Any, Any]


@functools.cache
def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds elements of ``dtype``."""
    return np.dtype(np.uint16 if dtype is ft.bfloat16 else dtype.name)


def flat(x: Tensor) -> HostArray:
    """The elements of ``x`` in C order, read-only; a view where they lie so in host memory."""
    if x.dtype is ft.bfloat16:
        return np.frombuffer(x.tobytes(), np.uint16)
    array: HostArray = x.numpy()
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return array.reshape(-1)


def writable(x: Tensor) -> HostArray:
    """The memory of ``x``, a value that nobody else holds, to be written. Raises ValueError where
    the value is not in host memory, or not in C order."""
    array = x.numpy() if x.dtype is not ft.bfloat16 else flat(x)
    if str(x.device) != "cpu" or not array.flags.c_contiguous:
        raise ValueError(f"{x.dtype} {x.shape} on {x.device} is not contiguous host memory")
    address = array.__array_interface__["data"][0]
    if not array.nbytes:
        return np.empty(0, storage(x.dtype))
    return np.ndarray(array.size, storage(x.dtype), exporter(address, array.nbytes, x))


def empty(count: int, dtype: np.dtype[Any]) -> HostArray:
    """An uninitialised array. A large one lies in a block of the memory manager, whose pages have
    been touched before: the first touch of a page costs more than its transfer."""
    nbytes = count * dtype.itemsize
    manager = mem.current()
    if nbytes < max(manager.small_bytes, 1):
        return np.empty(count, dtype)
    block = manager.alloc(nbytes)
    return np.ndarray(count, dtype, exporter(block.address, nbytes, block))


def tensor(array: HostArray, shape: tuple[int, ...], dtype: DType, like: Tensor | None) -> Tensor:
    """The tensor over ``array``, which nobody writes to any more, beside ``like`` (default: on the
    default backend); copied only where its backend cannot use host memory."""
    if array.size != math.prod(shape):
        raise ValueError(f"{array.size} elements for shape {shape}")
    backend = None if like is None else like.backend
    device = None if like is None else like.device
    if dtype is ft.bfloat16:
        kind = bfloat16()
        if kind is None:
            return ft.frombytes(memoryview(array.view(np.uint8)), shape, dtype, device, backend)
        array = array.view(kind)
    array = array.reshape(shape)
    if like is not None:  # as ft.from_dlpack does, without looking at its arguments
        adapter = like.backend.from_dlpack(array, like.device)
        if adapter is not None:
            return Tensor(adapter, like.backend)
    return ft.from_dlpack(array, backend, device)


@functools.lru_cache(maxsize=1)
def bfloat16() -> np.dtype[Any] | None:
    """NumPy's dtype of bfloat16, where the package ml_dtypes is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)
