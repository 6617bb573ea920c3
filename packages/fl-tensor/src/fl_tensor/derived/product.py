"""Vector and matrix products."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ShapeError
from fl_tensor.roles import A, Axis, F, N, Ops

__all__ = ["cross", "dot", "embedding", "inner", "kron", "linear", "outer", "tensordot", "vecdot"]


def dot(ops: Ops, x: N, y: N) -> Any:
    """``sum(x * y)`` along the last axis: (..., n) and (..., n) give (...)."""
    if x.shape[-1:] != y.shape[-1:] or not x.shape:
        raise ShapeError(f"[dot] x {x.shape} and y {y.shape}: last axes differ or are missing")
    left = ops.expand_dims(x, len(x.shape) - 1)
    right = ops.expand_dims(y, len(y.shape))
    product = ops.matmul(left, right)
    return ops.reshape(product, product.shape[:-2])


def vecdot(ops: Ops, x: N, y: N, axis: Axis = -1) -> Any:
    """``sum(conj(x) * y)`` along ``axis`` of operands that broadcast; the axis has one size in
    both."""
    rank = max(len(x.shape), len(y.shape))
    if x.dtype.kind == "c":
        x = ops.conj(x)
    back = axis - rank  # the same axis, counted from the end, in an operand of any rank
    if min(len(x.shape), len(y.shape)) < -back or x.shape[back] != y.shape[back]:
        raise ShapeError(f"[vecdot] x {x.shape} and y {y.shape}: axis {back} is no common axis")
    ends = (ops.moveaxis(v, len(v.shape) + back, len(v.shape) - 1) for v in (x, y))
    return ops.dot(*ends)


def inner(ops: Ops, x: N, y: N) -> Any:
    """Sums of products over the last axes of both: (..., n) and (*other, n) give (..., *other). An
    operand without axes multiplies the other."""
    if not x.shape or not y.shape:
        return ops.multiply(x, y)
    return ops.tensordot(x, y, ((len(x.shape) - 1,), (len(y.shape) - 1,)))


def tensordot(ops: Ops, x: N, y: N, axes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Sums of products over ``axes[0]`` of ``x`` and ``axes[1]`` of ``y``, pair by pair; the result
    has the other axes of ``x``, then those of ``y``."""
    mine, theirs = axes
    if [x.shape[a] for a in mine] != [y.shape[a] for a in theirs]:
        raise ShapeError(
            f"[tensordot] x {x.shape} and y {y.shape}: sizes of axes {mine} and {theirs} differ"
        )
    left = tuple(i for i in range(len(x.shape)) if i not in mine)
    right = tuple(i for i in range(len(y.shape)) if i not in theirs)
    rows, columns = tuple(x.shape[i] for i in left), tuple(y.shape[i] for i in right)
    shared = math.prod(x.shape[a] for a in mine)
    product = ops.matmul(
        ops.reshape(ops.permute(x, (*left, *mine)), (math.prod(rows), shared)),
        ops.reshape(ops.permute(y, (*theirs, *right)), (shared, math.prod(columns))),
    )
    return ops.reshape(product, (*rows, *columns))


def kron(ops: Ops, x: N, y: N) -> Any:
    """Kronecker product: every element of ``x`` times all of ``y``, side by side; sizes multiply
    axis by axis, missing leading axes count as 1."""
    rank = max(len(x.shape), len(y.shape))
    a = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    b = (1,) * (rank - len(y.shape)) + tuple(y.shape)
    product = ops.multiply(
        ops.reshape(x, tuple(size for n in a for size in (n, 1))),
        ops.reshape(y, tuple(size for n in b for size in (1, n))),
    )
    return ops.reshape(product, tuple(m * n for m, n in zip(a, b, strict=True)))


@in_float32
def cross(ops: Ops, x: N, y: N, axis: Axis = -1) -> Any:
    """Vector product along ``axis``, which has size 3, of operands of one rank; the other axes
    broadcast."""
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ShapeError(f"[cross] x {x.shape} and y {y.shape}: axis {axis} must have size 3")
    (x1, x2, x3), (y1, y2, y3) = ops.split(x, (1, 1, 1), axis), ops.split(y, (1, 1, 1), axis)
    parts = [
        ops.subtract(ops.multiply(a, d), ops.multiply(b, c))
        for a, b, c, d in ((x2, x3, y2, y3), (x3, x1, y3, y1), (x1, x2, y1, y2))
    ]
    return ops.concatenate(parts, axis)


def outer(ops: Ops, x: N, y: N) -> Any:
    """Every product of an element of ``x`` (m,) with one of ``y`` (n,): shape (m, n)."""
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ShapeError(f"[outer] x {x.shape} and y {y.shape}: both must have one axis")
    return ops.multiply(ops.expand_dims(x, 1), ops.expand_dims(y, 0))


@in_float32
def linear(ops: Ops, x: F, weight: F, bias: F | None = None) -> Any:
    """``x @ weight.T + bias``: x (..., in), weight (out, in), bias (out,) give (..., out)."""
    shape, wide = x.shape, weight.shape
    if len(wide) != 2 or shape[-1:] != wide[1:]:
        raise ShapeError(
            f"[linear] x {shape} and weight {wide}: expected x (..., in) and weight (out, in)"
        )
    rows = x if len(shape) == 2 else ops.reshape(x, (math.prod(shape[:-1]), shape[-1]))
    y = ops.matmul(rows, ops.permute(weight, (1, 0)))
    if bias is not None:
        if bias.shape != wide[:1]:
            raise ShapeError(f"[linear] bias {bias.shape}: expected {wide[:1]}")
        y = ops.add(y, bias)
    return y if len(shape) == 2 else ops.reshape(y, (*shape[:-1], wide[0]))


def embedding(ops: Ops, weight: A, indices: A) -> Any:
    """Rows of ``weight`` (n, dim) at integer ``indices`` (...): shape (..., dim)."""
    if len(weight.shape) != 2:
        raise ShapeError(f"[embedding] weight {weight.shape}: expected (n, dim)")
    return ops.gather(weight, indices, 0)
