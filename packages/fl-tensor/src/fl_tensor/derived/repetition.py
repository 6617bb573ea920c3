"""Repetition, padding modes, and differences of neighbours."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from fl_tensor import dtypes
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.roles import A, Axis, Ops, P, Shape

__all__ = ["diff", "pad_edges", "repeat", "unstack"]

PAD_MODES = ("edge", "reflect", "symmetric", "wrap")


def repeat(ops: Ops, x: A, repeats: Sequence[int], axis: Axis) -> Any:
    """Every slice along ``axis`` several times in a row: ``repeats[i]`` times slice i, or
    ``repeats[0]`` times each."""
    size = x.shape[axis]
    if len(repeats) not in (1, size) or min(repeats, default=0) < 0:
        raise ShapeError(
            f"[repeat] x {x.shape}: {len(repeats)} repeats {_some(repeats)} for axis {axis} of "
            f"{size}; expected one number or one for each slice, none negative"
        )
    before, after = tuple(x.shape[:axis]), tuple(x.shape[axis + 1 :])
    if len(repeats) == 1:
        (n,) = repeats
        wide = ops.broadcast_to(ops.expand_dims(x, axis + 1), (*before, size, n, *after))
        return ops.reshape(wide, (*before, size * n, *after))
    places = [i for i, n in enumerate(repeats) for _ in range(n)]
    data = memoryview(struct.pack(f"{len(places)}q", *places))
    return ops.gather(x, ops.from_host(data, (len(places),), dtypes.int64, x.device), axis)


def _some(values: Sequence[int]) -> str:
    return str(list(values)) if len(values) < 10 else f"{list(values[:8])}..."


def unstack(ops: Ops, x: A, axis: Axis = 0) -> tuple[Any, ...]:
    """The slices along ``axis``, without it."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return tuple(ops.reshape(part, shape) for part in ops.split(x, (1,) * x.shape[axis], axis))


def diff(
    ops: Ops,
    x: P,
    n: int = 1,
    axis: Axis = -1,
    prepend: P | None = None,
    append: P | None = None,
) -> Any:
    """Differences of neighbours along ``axis``, ``n`` times over; of bools, whether they differ.
    ``prepend`` and ``append`` are put before and after ``x`` first; one without axes is a single
    element."""
    if n < 0:
        raise ArgumentError(f"[diff] n {n}: may not be negative")
    parts = [x]
    if prepend is not None:
        parts.insert(0, _slab(ops, prepend, x, axis))
    if append is not None:
        parts.append(_slab(ops, append, x, axis))
    x = ops.concatenate(parts, axis) if len(parts) > 1 else x
    rank = len(x.shape)
    for _ in range(n):
        shape = tuple(max(s - 1, 0) if i == axis else s for i, s in enumerate(x.shape))
        second = tuple(1 if i == axis and s else 0 for i, s in enumerate(shape))
        before = ops.slice(x, (0,) * rank, shape, (1,) * rank)
        after = ops.slice(x, second, shape, (1,) * rank)
        differ = ops.not_equal if x.dtype is dtypes.bool else ops.subtract
        x = differ(after, before)
    return x


def _slab(ops: Ops, value: Any, x: Any, axis: int) -> Any:
    if value.shape:
        return value
    return ops.broadcast_to(value, tuple(1 if i == axis else n for i, n in enumerate(x.shape)))


def pad_edges(ops: Ops, x: A, low: Shape, high: Shape, mode: str = "edge") -> Any:
    """``low`` and ``high`` elements around ``x`` that continue it: ``"edge"`` repeats the outermost
    elements, ``"wrap"`` starts again at the other end, ``"symmetric"`` mirrors at the edge,
    ``"reflect"`` at the outermost elements."""
    if mode not in PAD_MODES:
        raise ArgumentError(f"[pad] mode {mode!r}: expected 'constant' or one of {PAD_MODES}")
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        if not (before or after):
            continue
        if x.shape[axis] == 0:
            raise ShapeError(
                f"[pad] x {x.shape}: axis {axis} is empty, {mode!r} has nothing to add"
            )
        places = ops.arange(-before, x.shape[axis] + after, 1, dtypes.int64, x.device)
        x = ops.gather(x, _source(ops, places, x.shape[axis], mode), axis)
    return x


def _source(ops: Ops, places: Any, size: int, mode: str) -> Any:
    # Which element stands at each place when 0 .. size - 1 are those of the array.
    last = ops.constant(size - 1, places)
    if mode == "edge" or size == 1:
        return ops.clip(places, ops.constant(0, places), last)
    if mode == "wrap":
        return ops.remainder(places, ops.constant(size, places))
    # Both mirrors repeat after going there and back; the way back counts down.
    period = 2 * size if mode == "symmetric" else 2 * size - 2
    there = ops.remainder(places, ops.constant(period, places))
    back = ops.constant(2 * size - 1 if mode == "symmetric" else 2 * size - 2, places)
    return ops.minimum(there, ops.subtract(back, there))
