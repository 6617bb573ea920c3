"""Addresses and layouts of arrays, as kernels take them."""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import numpy as np

from fl_jit.kernels.layout import Layout
from fl_tensor.extend.numpy import FROM_NUMPY

Array: TypeAlias = np.ndarray[Any, Any]
_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


def address(a: Array) -> int:
    """The address of the first element. NumPy's own attributes take a microsecond, a buffer a third
    of that."""
    flags = a.flags
    try:
        if flags.carray:
            return _addressof(_from_buffer(a))
        if flags.f_contiguous and flags.writeable:
            return _addressof(_from_buffer(a.T))
    except ValueError:  # bfloat16 has no buffer format
        pass
    return int(a.__array_interface__["data"][0])


def layout(a: Array) -> Layout:
    """The layout of an array."""
    dtype, item = FROM_NUMPY[a.dtype], a.itemsize
    return Layout(dtype, a.shape, tuple([step // item for step in a.strides]))
