"""Rules of operations that move elements."""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.pieces import Pieces
from fl_autograd.rules.table import passed_on, rule
from fl_tensor import dtypes

Shape = tuple[int, ...]


def _permute(ops: Any, g: Any, axes: Shape) -> Any:
    back = [0] * len(axes)
    for i, axis in enumerate(axes):
        back[axis] = i
    return ops.permute(g, tuple(back))


def _concatenate(ops: Any, g: Any, index: int, xs_shapes: list[Shape], axis: int) -> Any:
    start = sum(shape[axis] for shape in xs_shapes[:index])
    rank = len(g.shape)
    starts = tuple(start if i == axis else 0 for i in range(rank))
    return ops.slice(g, starts, xs_shapes[index], (1,) * rank)


def _pad(ops: Any, g: Any, x_shape: Shape, low: Shape, interior: Shape) -> Any:
    return ops.slice(g, low, x_shape, tuple(n + 1 for n in interior))


def _slice(ops: Any, g: Any, x_shape: Shape, starts: Shape, steps: Shape) -> Any:
    if 0 in g.shape:
        return ops.full(x_shape, 0, g.dtype, g.device)
    return Pieces(x_shape, starts, steps, g)


def _gather(ops: Any, g: Any, x_shape: Shape, indices: Any, axis: int) -> Any:
    zeros = ops.full(x_shape, 0, g.dtype, g.device)
    return ops.scatter(zeros, indices, g, axis, "add", True)


def _written_last(ops: Any, indices: Any, size: int) -> Any:
    # True where "set" keeps an update: of duplicate indices the last in C order.
    count = math.prod(indices.shape)
    flat = ops.reshape(indices, (count,))
    order = ops.arange(0, count, 1, dtypes.int64, indices.device)
    owner = ops.full((size,), 0, dtypes.int64, indices.device)
    owner = ops.scatter(owner, flat, order, 0, "set", True)
    return ops.reshape(ops.equal(ops.gather(owner, flat, 0), order), indices.shape)


def _scatter_x(ops: Any, g: Any, indices: Any, updates_shape: Shape, axis: int, mode: str) -> Any:
    if mode == "add":
        return g
    zeros = ops.full(updates_shape, 0, g.dtype, g.device)
    return ops.scatter(g, indices, zeros, axis, "set")


def _scatter_updates(ops: Any, g: Any, x_shape: Shape, indices: Any, axis: int, mode: str) -> Any:
    picked = ops.gather(g, indices, axis)
    if mode == "add":
        return picked
    kept = _written_last(ops, indices, x_shape[axis])
    inner = (1,) * (len(x_shape) - axis - 1)
    kept = ops.reshape(kept, (*indices.shape, *inner))
    return ops.where(kept, picked, ops.constant(0.0, g))


rule("reshape", x=lambda ops, g, x_shape: ops.reshape(g, x_shape))
rule("permute", x=_permute)
rule("broadcast_to", x=passed_on)
rule("concatenate", xs=_concatenate)
rule("pad", x=_pad)
rule("slice", x=_slice, partial=True)
rule("gather", x=_gather)
rule("scatter", x=_scatter_x, updates=_scatter_updates)
