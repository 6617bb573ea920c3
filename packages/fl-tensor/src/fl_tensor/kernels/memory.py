"""Memory for results of kernels."""

from __future__ import annotations

import operator
from typing import Any

import fl_memory as mem
from fl_memory import tags
from fl_tensor import dtypes
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.kernels.binding import FORMATS
from fl_tensor.kernels.types import DTYPES

__all__ = ["empty"]


def empty(n: int, dtype: Any) -> memoryview:
    """An array of ``n`` elements for a kernel to write to, a memoryview of memory that the current
    manager of fl-memory gave. What it contains at first is undefined.

    ``ft.asarray(x, copy=False)`` makes it a Tensor without a copy, ``numpy.asarray(x)`` an array.
    Raises DTypeError for a dtype that arrays of kernels cannot have, ArgumentError for a negative
    number, OutOfMemoryError.
    """
    found = dtypes.dtype(dtype)
    if found not in DTYPES:
        raise DTypeError(f"[empty] {found}: expected one of {', '.join(map(str, DTYPES))}")
    try:
        count = operator.index(n)
    except TypeError:
        raise DTypeError(f"[empty] n is a {type(n).__name__}, expected an int") from None
    if count < 0:
        raise ArgumentError(f"[empty] n is {count}")
    view: Any = memoryview(bytearray())
    if count:
        view = mem.current().alloc(count * found.itemsize, tag=tags.current_tag()).view()
    return view.cast(FORMATS[found.name])
