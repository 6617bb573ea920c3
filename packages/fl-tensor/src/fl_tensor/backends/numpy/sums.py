"""Floating sums with the accuracy of pairwise summation along every axis.

NumPy adds pairwise along the axis that lies innermost in memory. Along any other it adds one row
after the other, so that the error grows with their number. Here rows are added in blocks of
``BLOCK``, then the results of the blocks in the same way, and so on (N. J. Higham, "The accuracy of
floating point summation", 1993). Narrow rows are also added much faster: NumPy's inner loop goes
over a part of all rows at once.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Type: TypeAlias = np.dtype[Any]

#: Rows that are added one after the other.
BLOCK = 16
#: Elements of a cumulative sum that are there at a time in a dtype twice as wide, if rows are no
#: longer.
PART = 1 << 16
_WIDE = {np.dtype(t): np.dtype(w) for t, w in (("f4", "f8"), ("c8", "c16"))}

_add = np.add.reduce


def adds_rows(a: Array, axis: tuple[int, ...]) -> bool:
    """Whether NumPy's sum over these axes adds more than ``BLOCK`` rows one after the other."""
    if axis and a.flags.c_contiguous and min(axis) == a.ndim - len(axis):
        return False
    shape = a.shape
    return math.prod([shape[i] for i in axis]) > BLOCK


def total(a: Array, axis: tuple[int, ...], dtype: Type, out: Array | None, keepdims: bool) -> Any:
    """``np.add.reduce(a, axis, dtype, out, keepdims)``, rows in blocks."""
    # From the outermost axis inwards: rows are as long as they can be.
    for i in sorted(axis, key=lambda i: -abs(a.strides[i])):
        if not adds_rows(a, axis) or _is_innermost(a, i):
            break
        a = _rows(a, i, dtype)
    return _add(a, axis, dtype, out, keepdims)


def _is_innermost(a: Array, axis: int) -> bool:
    step = abs(a.strides[axis])
    return all(n == 1 or step <= abs(s) for n, s in zip(a.shape, a.strides))


def _rows(a: Array, axis: int, dtype: Type) -> Array:
    # The sum over one axis, which stays, with one element.
    before, after, size = a.shape[:axis], a.shape[axis + 1 :], a.shape[axis]
    rows = (slice(None),) * axis
    while size > BLOCK:
        count, left = divmod(size, BLOCK)
        whole = a[(*rows, slice(size - left))].reshape(*before, BLOCK, count, *after)
        made = _add(whole, axis, dtype)
        if left:
            made[(*rows, 0)] += _add(a[(*rows, slice(size - left, size))], axis, dtype)
        a, size = made, count
    return _add(a, axis, dtype, None, True)


def cumulative(a: Array, axis: int, out: Array) -> None:
    """Cumulative sums of ``a`` along ``axis``, not negative, into ``out``. Those in float32 and
    complex64 are accumulated in float64 and complex128, and rounded once each, as PyTorch's
    are."""
    wide = _WIDE.get(out.dtype, out.dtype)
    if wide is out.dtype:
        np.cumsum(a, axis, wide, out)
        return
    step = PART * len(a) // max(a.size, 1)
    if step == 0 and axis:
        for row, made in zip(a, out):
            cumulative(row, axis - 1, made)
        return
    before: Any = None
    for start in range(0, len(a), max(step, 1)):
        part = a[start : start + max(step, 1)].astype(wide, "C")
        if axis == 0 and start:
            part[0] += before
        np.cumsum(part, axis, out=part)
        before = part[-1]
        out[start : start + max(step, 1)] = part
