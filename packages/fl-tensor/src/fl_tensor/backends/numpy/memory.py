"""Result arrays in the installed memory manager's blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fl_memory import selection
from fl_memory.buffers import exporter
from fl_memory.tags import CURRENT as TAG
from fl_tensor.backends.numpy import errstate

__all__ = ["cast", "empty", "is_small", "owned"]


def is_small(nbytes: int) -> bool:
    """Whether a result of so many bytes may come from the runtime instead of the manager."""
    return nbytes < selection.always_small or nbytes < selection.current().small_bytes


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised array: in a block of the current manager from ``small_bytes`` upwards. The
    array's base keeps the block alive."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < selection.always_small:
        return np.empty(shape, dtype)
    manager = selection.current()
    if nbytes < manager.small_bytes or nbytes == 0:
        return np.empty(shape, dtype)
    block = manager.alloc(nbytes, tag=TAG.get())
    return np.ndarray(shape, dtype, exporter(block.address, nbytes, block))


def owned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` itself when small, else a copy in a block: for functions that cannot write into
    one."""
    if is_small(array.nbytes):
        return array
    return cast(array, array.dtype)


def cast(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A copy in another dtype, in C order."""
    if array.size * dtype.itemsize < selection.always_small:
        found: np.ndarray[Any, Any] = errstate.call(array.astype, dtype, "C")
        return found
    out = empty(array.shape, dtype)
    errstate.writing(out.nbytes)(np.copyto, out, array, "unsafe")
    return out
