"""Products of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.errors import ShapeError
from fl_tensor.roles import A, F, N, Ops

__all__ = ["dot", "embedding", "linear", "outer"]


def dot(ops: Ops, x: N, y: N) -> Any:
    """``sum(x * y)`` along the last axis: (..., n) and (..., n) give (...)."""
    if x.shape[-1:] != y.shape[-1:] or not x.shape:
        raise ShapeError(f"[dot] x {x.shape} and y {y.shape}: last axes differ or are missing")
    left = ops.expand_dims(x, len(x.shape) - 1)
    right = ops.expand_dims(y, len(y.shape))
    product = ops.matmul(left, right)
    return ops.reshape(product, product.shape[:-2])


def outer(ops: Ops, x: N, y: N) -> Any:
    """Every product of an element of ``x`` (m,) with one of ``y`` (n,): shape (m, n)."""
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise ShapeError(f"[outer] x {x.shape} and y {y.shape}: both must have one axis")
    return ops.multiply(ops.expand_dims(x, 1), ops.expand_dims(y, 0))


def linear(ops: Ops, x: F, weight: F, bias: F | None = None) -> Any:
    """``x @ weight.T + bias``: x (..., in), weight (out, in), bias (out,) give (..., out)."""
    if len(weight.shape) != 2 or x.shape[-1:] != weight.shape[1:]:
        raise ShapeError(
            f"[linear] x {x.shape} and weight {weight.shape}: "
            f"expected x (..., in) and weight (out, in)"
        )
    rows = (math.prod(x.shape[:-1]), x.shape[-1])
    y = ops.matmul(x if len(x.shape) == 2 else ops.reshape(x, rows), ops.permute(weight, (1, 0)))
    if bias is not None:
        if bias.shape != weight.shape[:1]:
            raise ShapeError(f"[linear] bias {bias.shape}: expected {weight.shape[:1]}")
        y = ops.add(y, bias)
    return y if len(x.shape) == 2 else ops.reshape(y, (*x.shape[:-1], weight.shape[0]))


def embedding(ops: Ops, weight: A, indices: A) -> Any:
    """Rows of ``weight`` (n, dim) at integer ``indices`` (...): shape (..., dim)."""
    if len(weight.shape) != 2:
        raise ShapeError(f"[embedding] weight {weight.shape}: expected (n, dim)")
    return ops.gather(weight, indices, 0)
