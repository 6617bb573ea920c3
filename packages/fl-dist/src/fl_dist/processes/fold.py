"""Reductions of arrays in rank order, for ranks that see one another's memory.

The result has the bits of ``fl_dist.reduction.fold``: ((x0 + x1) + x2) + ..., 16-bit floating
elements in float32 with one rounding at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fl_tensor as ft
from fl_dist.host_arrays import HostArray, bfloat16
from fl_tensor import DType

__all__ = ["accumulate", "finish", "fold", "is_widened", "narrowed", "widened"]

_UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,  # NaN wins
    "min": np.minimum,
    "prod": np.multiply,
}


def fold(op: str, dtype: DType, rows: Sequence[HostArray], out: HostArray) -> None:
    """Reduce one array per rank, in rank order, into ``out``."""
    if dtype is ft.bfloat16 and op in ("max", "min") and bfloat16() is not None:
        rows, out = [row.view(bfloat16()) for row in rows], out.view(bfloat16())
    elif is_widened(op, dtype):
        total = widened(dtype, rows[0])
        for row in rows[1:]:
            accumulate(op, total, widened(dtype, row))
        finish(op, total, len(rows))
        narrowed(dtype, total, out)
        return
    ufunc = _UFUNCS[op]
    with np.errstate(all="ignore"):
        if len(rows) == 1:
            np.copyto(out, rows[0])
        else:
            ufunc(rows[0], rows[1], out=out)
        for row in rows[2:]:
            ufunc(out, row, out=out)
        if op == "mean":
            np.divide(out, len(rows), out=out)


def is_widened(op: str, dtype: DType) -> bool:
    """Whether partial results have another dtype: float32 in place of float16 and bfloat16."""
    return dtype is ft.bfloat16 or (dtype is ft.float16 and op not in ("max", "min"))


def accumulate(op: str, total: HostArray, row: HostArray) -> None:
    """One step, in place: ``total`` is the result of the ranks before, ``row`` the next value."""
    with np.errstate(all="ignore"):
        _UFUNCS[op](total, row, out=total)


def finish(op: str, total: HostArray, count: int) -> None:
    """The last step, in place: a mean divides its sum by the number of ranks."""
    if op == "mean":
        with np.errstate(all="ignore"):
            np.divide(total, count, out=total)


def widened(dtype: DType, row: HostArray) -> HostArray:
    """A copy of ``row`` in the dtype of partial results."""
    if dtype is ft.bfloat16:
        return (row.astype(np.uint32) << 16).view(np.float32)
    return row.astype(np.float32 if dtype is ft.float16 else row.dtype)


def narrowed(dtype: DType, total: HostArray, out: HostArray) -> None:
    """Partial results rounded to ``dtype`` (to nearest, ties to even)."""
    if dtype is not ft.bfloat16:
        with np.errstate(all="ignore"):
            np.copyto(out, total, casting="same_kind")
        return
    bits = total.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    quiet = (bits >> 16) | 0x40  # a NaN stays one whatever its payload
    np.copyto(out, np.where(np.isnan(total), quiet, rounded), casting="unsafe")
