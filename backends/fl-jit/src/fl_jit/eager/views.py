"""Strided views of arrays, without NumPy's checks."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Shape: TypeAlias = tuple[int, ...]


def strided(found: Any, dtype: np.dtype[Any], offset: int, shape: Shape, strides: Shape) -> Array:
    """A view of an array or NumPy scalar of ``dtype``, from element ``offset`` of its memory on,
    ``strides`` in elements. All of it must lie in that memory. It keeps the array alive. Views
    that repeat elements are read-only, as those of ``np.broadcast_to``."""
    if 0 in shape:
        return np.empty(shape, dtype)
    array = np.asarray(found, dtype)
    size = array.itemsize
    steps = tuple([s * size for s in strides])
    if array.flags.c_contiguous:
        made = np.ndarray(shape, dtype, array, offset * size, steps)
        if 0 in strides and any(n > 1 and not s for n, s in zip(shape, strides, strict=True)):
            made.flags.writeable = False
        return made
    words = array.view(np.uint16) if dtype.kind == "V" else array  # bfloat16 has no letter
    return np.asarray(_Interface(words, offset * size, shape, steps)).view(dtype)


def strides_of(array: Array) -> Shape:
    """The strides of an array, in elements."""
    return tuple([s // array.itemsize for s in array.strides])


def outline(array: Array) -> Array:
    """An array of the same dtype, shape and strides, with the memory of one element only. It is for
    inspecting the layout. Do not read elements."""
    return np.lib.stride_tricks.as_strided(np.empty(1, array.dtype), array.shape, array.strides)


class _Interface:
    """Elements of an array that is not in C order, by address: NumPy reads this, and keeps it."""

    def __init__(self, array: Array, offset: int, shape: Shape, strides: Shape) -> None:
        self.array = array
        found = array.__array_interface__
        data = found["data"][0] + offset, True  # nobody writes through it
        self.__array_interface__ = {**found, "data": data, "shape": shape, "strides": strides}
