"""Scans along an axis in log2(n) sweeps (Hillis & Steele, 1986)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.precision import in_float32
from fl_tensor.roles import Axis, N, Ops, Q, S

__all__ = ["cumulative_logsumexp", "cumulative_max", "cumulative_min", "cumulative_prod"]


def _scan(ops: Ops, combine: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    # After each sweep an element holds the result over itself and ``step - 1`` before it.
    size, rank = x.shape[axis], len(x.shape)

    def part(start: int, length: int) -> Any:
        starts = tuple(start if i == axis else 0 for i in range(rank))
        sizes = tuple(length if i == axis else n for i, n in enumerate(x.shape))
        return ops.slice(x, starts, sizes, (1,) * rank)

    step = 1
    while step < size:
        combined = combine(part(0, size - step), part(step, size - step))
        x = ops.concatenate([part(0, step), combined], axis)
        step *= 2
    return x


@in_float32
def cumulative_prod(ops: Ops, x: N, axis: Axis = -1) -> Any:
    """Inclusive running product; dtype as ``prod``."""
    target = dtypes.sum_dtype(x.dtype)
    x = x if x.dtype is target else ops.cast(x, target)
    return _scan(ops, ops.multiply, x, axis)


def cumulative_max(ops: Ops, x: Q, axis: Axis = -1) -> Any:
    """The largest element so far; NaN from the first one on."""
    return _scan(ops, ops.maximum, x, axis)


def cumulative_min(ops: Ops, x: Q, axis: Axis = -1) -> Any:
    """The smallest element so far; NaN from the first one on."""
    return _scan(ops, ops.minimum, x, axis)


@in_float32
def cumulative_logsumexp(ops: Ops, x: S, axis: Axis = -1) -> Any:
    """``log(cumulative_sum(exp(x)))`` without overflow."""
    return _scan(ops, ops.logaddexp, x, axis)
