"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

from fl_tensor import dtypes
from fl_tensor.errors import ShapeError
from fl_tensor.roles import A, Axis, N, Ops

__all__ = ["diag", "diagonal", "trace", "tril", "triu"]


def diagonal(ops: Ops, x: A, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Any:
    """The elements whose index along ``axis2`` is ``offset`` more than along ``axis1``, as a last
    axis in place of the two."""
    if axis1 == axis2:
        raise ShapeError(f"[diagonal] x {x.shape}: axes {axis1} and {axis2} are the same")
    lead = [i for i in range(len(x.shape)) if i not in (axis1, axis2)]
    x = ops.permute(x, (*lead, axis1, axis2))
    rows, columns = x.shape[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = (offset if offset > 0 else -offset * columns) if count else 0
    flat = ops.reshape(x, (*x.shape[:-2], rows * columns))
    zeros, ones = (0,) * len(lead), (1,) * len(lead)
    return ops.slice(flat, (*zeros, first), (*x.shape[:-2], count), (*ones, columns + 1))


def trace(ops: Ops, x: N, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Any:
    """The sum of ``diagonal(x, offset, axis1, axis2)``; dtype as ``sum``."""
    found = ops.diagonal(x, offset, axis1, axis2)
    return ops.sum(found, (len(found.shape) - 1,), False)


def diag(ops: Ops, x: A, k: int = 0) -> Any:
    """A vector (n,) as diagonal ``k`` of a square matrix of zeros, or diagonal ``k`` of a
    matrix."""
    if len(x.shape) == 2:
        return ops.diagonal(x, k, 0, 1)
    if len(x.shape) != 1:
        raise ShapeError(f"[diag] x {x.shape}: expected a vector or a matrix")
    size = x.shape[0] + abs(k)
    low = k if k > 0 else -k * size
    spread = x.shape[0] + max(x.shape[0] - 1, 0) * size
    flat = ops.pad(x, (low,), (size * size - low - spread,), (size,), 0)
    return ops.reshape(flat, (size, size))


def _triangle(ops: Ops, x: Any, k: int) -> Any:
    # True on and below diagonal k of the last two axes.
    if len(x.shape) < 2:
        raise ShapeError(f"[tril, triu] x {x.shape}: at least two axes are needed")
    rows, columns = x.shape[-2:]
    row = ops.arange(k, rows + k, 1, dtypes.int64, x.device)
    column = ops.arange(0, columns, 1, dtypes.int64, x.device)
    return ops.less_equal(column, ops.reshape(row, (rows, 1)))


def tril(ops: Ops, x: A, k: int = 0) -> Any:
    """The lower triangle of the last two axes, diagonal ``k`` included, zeros elsewhere."""
    return ops.where(_triangle(ops, x, k), x, ops.constant(0, x))


def triu(ops: Ops, x: A, k: int = 0) -> Any:
    """The upper triangle of the last two axes, diagonal ``k`` included, zeros elsewhere."""
    return ops.where(_triangle(ops, x, k - 1), ops.constant(0, x), x)
