"""Result arrays in the installed memory manager's blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fl_memory


class _BlockBuffer:
    """Shows a block to NumPy, which keeps this object, and with it the block, as the array's
    base."""

    __slots__ = ("__array_interface__", "block")

    def __init__(
        self, block: fl_memory.Block, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.block = block
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": dtype.str,
            "data": (block.address, False),
        }


def is_small(nbytes: int) -> bool:
    """Whether a result of so many bytes may come from the runtime instead of the manager."""
    return nbytes < fl_memory.current().small_bytes


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised array: in a block of the current manager from ``small_bytes`` upwards."""
    nbytes = math.prod(shape) * dtype.itemsize
    manager = fl_memory.current()
    if nbytes < manager.small_bytes or nbytes == 0:
        return np.empty(shape, dtype)
    return np.asarray(_BlockBuffer(manager.alloc(nbytes), shape, dtype))


def owned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` itself when small, else a copy in a block: for functions that cannot write into
    one."""
    if is_small(array.nbytes):
        return array
    out = empty(array.shape, array.dtype)
    np.copyto(out, array)
    return out
