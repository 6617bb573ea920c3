"""Reductions of segments: of all slices of an array that have the same number."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import arguments, dtypes, functions
from fl_tensor.dispatch.frontend import ArrayLike, cast, operands_of, run
from fl_tensor.errors import ArgumentError, IndexingError, ShapeError
from fl_tensor.functions.gathering import in_range
from fl_tensor.functions.shaping import reshape
from fl_tensor.limits import iinfo

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_softmax", "segment_sum"]


def segment_sum(x: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Any:
    """The sums of the slices of ``x`` (n, ...) whose number in ``ids`` (n,) is 0, 1, ...:
    (num_segments, ...), in the dtype of ``x``. A segment of nothing is 0.

    ids           integers in any order; IndexingError for one outside [0, num_segments)
    num_segments  by default the largest of ``ids`` and 1, which has to be read for it
    """
    x, ids, count = _segments("segment_sum", "N", x, ids, num_segments)
    return _sums(x, ids, count)


def segment_mean(x: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Any:
    """The means of the slices with the same number, otherwise as ``segment_sum``. Integers become
    the default float."""
    x, ids, count = _segments("segment_mean", "F", x, ids, num_segments)
    one = x._constant(1, dtypes.int64)
    held = _sums(run("broadcast_to", x, one._raw, ids.shape), ids, count)
    held = reshape(functions.maximum(held, 1), (count, *(1,) * (x.ndim - 1)))
    # In half precision a sum overflows before its mean does.
    wide = cast(x, dtypes.accumulator(x.dtype))
    return cast(_sums(wide, ids, count) / cast(held, wide.dtype), x.dtype)


def segment_max(x: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Any:
    """The largest elements of the slices with the same number, otherwise as ``segment_sum``; NaN if
    there is one. A segment of nothing is -inf, of integers the smallest of the dtype. The gradient
    goes in equal parts to all that reach the maximum."""
    x, ids, count = _segments("segment_max", "R", x, ids, num_segments)
    return _extreme(x, ids, count, "max")


def segment_min(x: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Any:
    """As ``segment_max``, of the smallest; a segment of nothing is inf, of integers the largest of
    the dtype."""
    x, ids, count = _segments("segment_min", "R", x, ids, num_segments)
    return _extreme(x, ids, count, "min")


def segment_softmax(x: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Any:
    """``exp(x)`` (n, ...) divided by its sum over the slices with the same number, without
    overflow; otherwise as ``segment_sum``. Its shape is that of ``x``. Veličković et al., "Graph
    attention networks", 2018, equation 3."""
    x, ids, count = _segments("segment_softmax", "S", x, ids, num_segments)
    largest = _extreme(x, ids, count, "max")
    shifted = x - run("gather", x, largest._raw, ids._raw, 0)
    weights = functions.exp(cast(shifted, dtypes.accumulator(x.dtype)))
    total = _sums(weights, ids, count)
    return cast(weights / run("gather", x, total._raw, ids._raw, 0), x.dtype)


def _segments(
    op: str, role: str, x: ArrayLike, ids: ArrayLike, num_segments: int | None
) -> tuple[Any, Any, int]:
    x, ids = operands_of(op, role + "A", x, ids)
    if x.ndim < 1 or ids.shape != x.shape[:1]:
        raise ShapeError(
            f"[{op}] x {x.shape} and ids {ids.shape}: expected one number for each slice x[i]"
        )
    if num_segments is None:
        count = int(ids.max().item()) + 1 if ids.size else 0
    else:
        count = arguments.int_of(op, num_segments, "num_segments")
        if count < 0:
            raise ArgumentError(f"[{op}] num_segments {count}: may not be negative")
    if ids.size and ids._backend.has_values and ids.min().item() < 0:
        raise IndexingError(f"[{op}] ids: {ids.min().item()} is negative; leave its slice out")
    return x, in_range(op, ids, count, 0, (count,)), count


def _sums(x: Any, ids: Any, count: int) -> Any:
    base = _filled(x, 0, count)
    return run("scatter", x, base._raw, ids._raw, x._raw, 0, "add")


def _extreme(x: Any, ids: Any, count: int, mode: str) -> Any:
    sign = -1 if mode == "max" else 1
    if x.dtype.is_floating:
        fill: float = sign * math.inf
    else:
        fill = iinfo(x.dtype).min if mode == "max" else iinfo(x.dtype).max
    base = _filled(x, fill, count)
    return run(f"scatter_{mode}", x, base._raw, ids._raw, x._raw, 0)


def _filled(x: Any, value: float, count: int) -> Any:
    constant = x._constant(arguments.scalar("segment", value, x.dtype), x.dtype)
    return run("broadcast_to", x, constant._raw, (count, *x.shape[1:]))
