"""Tensors as flat NumPy arrays over host memory, and back, for transports that move bytes.

NumPy has no bfloat16: its elements are shown as uint16.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

import fl_memory as mem
import fl_tensor as ft
from fl_memory.buffers import exporter
from fl_tensor import DType, Tensor
from fl_tensor.extend import count_if_alone, getrefcount

__all__ = ["HostArray", "bfloat16", "empty", "flat", "reusable", "storage", "tensor", "zeros"]

HostArray: TypeAlias = np.ndarray[Any, Any]

#: What ``empty`` made, by its ``id``. NumPy's views of views refer to the array itself, so its
#: references are its views.
_made: WeakValueDictionary[int, HostArray] = WeakValueDictionary()


def _adapter_references(x: Tensor) -> int:
    return getrefcount(x.adapter)


def _base_references(view: HostArray) -> int:
    return getrefcount(view.base)


_SOLE_ADAPTER = count_if_alone(_adapter_references, lambda: ft.zeros(1), lambda x: x.adapter)
_SOLE_BASE = count_if_alone(_base_references, lambda: np.empty(1)[:], lambda view: view.base)


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


def empty(count: int, dtype: np.dtype[Any]) -> HostArray:
    """An uninitialised array. A large one lies in a block of the memory manager, whose pages have
    been touched before: the first touch of a page costs more than its transfer."""
    nbytes = count * dtype.itemsize
    manager = mem.current()
    if nbytes < max(manager.small_bytes, 1):
        made = np.empty(count, dtype)
    else:
        block = manager.alloc(nbytes)
        made = np.ndarray(count, dtype, exporter(block.address, nbytes, block))
    _made[id(made)] = made
    return made


def zeros(shape: Sequence[int], dtype: DType | str) -> Tensor:
    """A tensor of zeros on the default backend, over memory of ``empty`` where it can be."""
    dtype = ft.dtype(dtype)
    array = empty(math.prod(shape), storage(dtype))
    array[...] = 0
    return tensor(array, tuple(shape), dtype, like=None)


def reusable(x: Tensor | None) -> HostArray | None:
    """The array under ``x`` if it was made by ``empty`` and nothing else can read it: no other
    handle, view, deferred operation or consumer of DLPack. Else, and for None, None."""
    if x is None or _adapter_references(x) != _SOLE_ADAPTER:
        return None
    adapter: Any = x.adapter
    if not hasattr(adapter, "__array__"):
        return None
    view: HostArray = adapter.__array__()
    del adapter
    made = _made.get(id(view.base))
    if made is None or made is not view.base or view.nbytes != made.nbytes:
        return None
    if not view.flags.c_contiguous:
        return None
    del made
    return view.base if _base_references(view) == _SOLE_BASE else None


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
