"""Scatter by the largest and the smallest, by a stable sort of the updates."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.roles import A, Axis, Ops, Q

__all__ = ["scatter_max", "scatter_min"]

SINCE = {"scatter_max": "1.1", "scatter_min": "1.1"}


def scatter_max(ops: Ops, x: Q, indices: A, updates: Q, axis: Axis = 0) -> Any:
    """``x`` where ``gather`` with these ``indices`` would read it replaced with the largest of it
    and all ``updates`` for that place (shape and dtype of ``gather(x, indices, axis)``); NaN if one
    is."""
    return ops.maximum(x, _last(ops, x, indices, updates, updates, axis))


def scatter_min(ops: Ops, x: Q, indices: A, updates: Q, axis: Axis = 0) -> Any:
    """As ``scatter_max``, with the smallest."""
    turned = ops.negative if updates.dtype.is_floating else ops.bitwise_invert
    return ops.minimum(x, _last(ops, x, indices, updates, turned(updates), axis))


def _last(ops: Ops, x: Any, indices: Any, updates: Any, keys: Any, axis: int) -> Any:
    # ``x`` with that of the updates for a place that has the largest key; NaN is the largest.
    # Written in ascending order, the last of duplicates stays.
    shape, count = tuple(x.shape), math.prod(updates.shape)
    places = ops.reshape(_numbers(ops, math.prod(shape), indices), shape)
    places = ops.reshape(ops.gather(places, indices, axis), (count,))
    order = ops.argsort(ops.reshape(keys, (count,)), 0, False)
    written = ops.scatter(
        ops.reshape(x, (math.prod(shape),)),
        ops.gather(places, order, 0),
        ops.gather(ops.reshape(updates, (count,)), order, 0),
        0,
        "set",
    )
    return ops.reshape(written, shape)


def _numbers(ops: Ops, count: int, like: Any) -> Any:
    return ops.arange(0, count, 1, dtypes.int64, like.device)
