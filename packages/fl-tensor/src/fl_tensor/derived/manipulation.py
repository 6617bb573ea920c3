"""Derived operations that rearrange elements, from ``expand_dims`` to ``topk``.

They are compositions of reshape, permute, slice, gather, scatter and sort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError, ShapeError
from fl_tensor.roles import A, Axes, Axis, NewAxis, Ops, P, Q, Shape

__all__ = [
    "expand_dims",
    "flip",
    "moveaxis",
    "one_hot",
    "roll",
    "slice_update",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "take_along_axis",
    "tile",
    "topk",
]


def expand_dims(ops: Ops, x: A, axis: NewAxis) -> Any:
    """A new axis of size 1 at position ``axis`` of the result."""
    return ops.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def squeeze(ops: Ops, x: A, axis: Axes) -> Any:
    """Without the given axes, which must have size 1 (ShapeError otherwise)."""
    if bad := [a for a in axis if x.shape[a] != 1]:
        raise ShapeError(f"[squeeze] x {x.shape}: axis {bad[0]} has size {x.shape[bad[0]]}, not 1")
    return ops.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axis))


def moveaxis(ops: Ops, x: A, source: Axis, destination: Axis) -> Any:
    """Axis ``source`` moved to position ``destination``; the others keep their order."""
    axes = [i for i in range(len(x.shape)) if i != source]
    axes.insert(destination, source)
    return ops.permute(x, tuple(axes))


def swapaxes(ops: Ops, x: A, axis1: Axis, axis2: Axis) -> Any:
    """Two axes exchanged."""
    axes = list(range(len(x.shape)))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return ops.permute(x, tuple(axes))


def flip(ops: Ops, x: A, axis: Axes) -> Any:
    """The elements in reverse order along the given axes."""
    starts = tuple(max(n - 1, 0) if i in axis else 0 for i, n in enumerate(x.shape))
    steps = tuple(-1 if i in axis else 1 for i in range(len(x.shape)))
    return ops.slice(x, starts, x.shape, steps)


def roll(ops: Ops, x: A, shift: int, axis: Axis) -> Any:
    """Elements moved ``shift`` places along ``axis``; those that fall off come back in front."""
    size = x.shape[axis]
    if size == 0 or shift % size == 0:
        return x
    cut = size - shift % size
    ones = (1,) * len(x.shape)

    def part(start: int, length: int) -> Any:
        starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
        sizes = tuple(length if i == axis else n for i, n in enumerate(x.shape))
        return ops.slice(x, starts, sizes, ones)

    return ops.concatenate([part(cut, size - cut), part(0, cut)], axis)


def tile(ops: Ops, x: A, repeats: Shape) -> Any:
    """``x`` repeated ``repeats[i]`` times along axis i; missing leading axes count as 1."""
    rank = max(len(x.shape), len(repeats))
    shape = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    repeats = (1,) * (rank - len(repeats)) + tuple(repeats)
    apart = tuple(size for n in shape for size in (1, n))
    wide = tuple(size for r, n in zip(repeats, shape, strict=True) for size in (r, n))
    total = tuple(r * n for r, n in zip(repeats, shape, strict=True))
    return ops.reshape(ops.broadcast_to(ops.reshape(x, apart), wide), total)


def stack(ops: Ops, xs: Sequence[P], axis: NewAxis = 0) -> Any:
    """Arrays of one shape joined along a new axis."""
    shapes = [x.shape for x in xs]
    first = shapes[0]
    if shapes.count(first) != len(shapes):
        i = next(i for i, shape in enumerate(shapes) if shape != first)
        raise ShapeError(f"[stack] xs[0] {first} and xs[{i}] {shapes[i]}: shapes differ")
    if axis == 0 and first:  # one reshape, however many arrays there are
        return ops.reshape(ops.concatenate(xs, 0), (len(shapes), *first))
    return ops.concatenate([ops.expand_dims(x, axis) for x in xs], axis)


def split(ops: Ops, x: A, sizes: Sequence[int], axis: Axis = 0) -> list[Any]:
    """Consecutive parts of the given sizes, which add up to the size of ``axis``."""
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ShapeError(
            f"[split] x {x.shape}: sizes {list(sizes)} add up to {sum(sizes)}, "
            f"axis {axis} has {x.shape[axis]}"
        )
    parts, start, ones = [], 0, (1,) * len(x.shape)
    for size in sizes:
        starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
        shape = tuple(size if i == axis else n for i, n in enumerate(x.shape))
        parts.append(ops.slice(x, starts, shape, ones))
        start += size
    return parts


def one_hot(ops: Ops, x: A, classes: int, dtype: DType = dtypes.DEFAULT_FLOAT) -> Any:
    """Integers (...) as rows (..., classes) with a single 1; out of range gives a row of zeros."""
    if not x.dtype.is_integer:
        raise DTypeError(f"[one_hot] x is {x.dtype}: expected class numbers")
    if classes < 0:
        raise ArgumentError(f"[one_hot] classes {classes}: may not be negative")
    if x.dtype is not dtypes.int64:  # which holds all labels
        x = ops.cast(x, dtypes.int64)
    labels = ops.arange(0, classes, 1, x.dtype, x.device)
    return ops.cast(ops.equal(ops.expand_dims(x, len(x.shape)), labels), dtype)


def _linear_index(ops: Ops, like: Any, shape: Shape, parts: Sequence[Any]) -> Any:
    # Position in C order of the element whose index along axis i is parts[i] (broadcast together).
    total, stride = None, math.prod(shape)
    for size, part in zip(shape, parts, strict=True):
        stride //= max(size, 1)
        term = part
        if stride != 1:
            term = ops.multiply(part, ops.full((), stride, dtypes.int64, like.device))
        total = term if total is None else ops.add(total, term)
    return total


def take_along_axis(ops: Ops, x: A, indices: A, axis: Axis = -1) -> Any:
    """``out[..., i, ...] = x[..., indices[..., i, ...], ...]``: shapes equal except along ``axis``;
    the shape of ``indices`` is the result's."""
    rank = len(x.shape)
    mine = tuple(n for i, n in enumerate(x.shape) if i != axis)
    theirs = tuple(n for i, n in enumerate(indices.shape) if i != axis)
    if len(indices.shape) != rank or mine != theirs:
        raise ShapeError(
            f"[take_along_axis] x {x.shape} and indices {indices.shape}: "
            f"shapes must be equal except along axis {axis}"
        )
    if indices.dtype is not dtypes.int64:
        indices = ops.cast(indices, dtypes.int64)
    parts = []
    for i, n in enumerate(x.shape):
        shape = tuple(n if j == i else 1 for j in range(rank))
        along = ops.arange(0, n, 1, dtypes.int64, x.device) if i != axis else None
        parts.append(indices if i == axis else ops.reshape(along, shape))
    flat = ops.reshape(x, (math.prod(x.shape),))
    return ops.gather(flat, _linear_index(ops, x, x.shape, parts), 0)


def topk(ops: Ops, x: Q, k: int, axis: Axis = -1, largest: bool = True) -> tuple[Any, Any]:
    """The ``k`` largest (or smallest) values along ``axis`` in order, and their int64 positions."""
    if not 0 <= k <= x.shape[axis]:
        raise ArgumentError(f"[topk] x {x.shape}: k = {k}, but axis {axis} has {x.shape[axis]}")
    order = ops.argsort(x, axis, largest)
    shape = tuple(k if i == axis else n for i, n in enumerate(x.shape))
    first = ops.slice(order, (0,) * len(shape), shape, (1,) * len(shape))
    return ops.take_along_axis(x, first, axis), first


def slice_update(
    ops: Ops, x: A, starts: Shape, steps: tuple[int, ...], updates: A, donate: bool = False
) -> Any:
    """``x`` with ``updates`` written where ``slice(x, starts, updates.shape, steps)`` reads."""
    rank = len(x.shape)
    parts = []
    for i, (start, size, step) in enumerate(zip(starts, updates.shape, steps, strict=True)):
        along = ops.arange(start, start + size * step, step, dtypes.int64, x.device)
        parts.append(ops.reshape(along, tuple(size if j == i else 1 for j in range(rank))))
    flat = ops.reshape(x, (math.prod(x.shape),))
    if rank == 0:
        index = ops.full((), 0, dtypes.int64, x.device)
    else:
        index = ops.broadcast_to(_linear_index(ops, x, x.shape, parts), updates.shape)
    return ops.reshape(ops.scatter(flat, index, updates, 0, "set"), x.shape)
