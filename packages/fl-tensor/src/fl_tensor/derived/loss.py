"""Losses without reduction: one value per sample."""

from __future__ import annotations

from typing import Any

from fl_tensor import dtypes
from fl_tensor.errors import DTypeError, ShapeError
from fl_tensor.roles import A, Axis, Ops, S

__all__ = ["cross_entropy"]


def cross_entropy(ops: Ops, log_probs: S, targets: A, axis: Axis = -1) -> Any:
    """``-log_probs`` at integer ``targets`` along ``axis``: log_probs (..., classes, ...), targets
    the same shape without that axis, and so is the result. Targets are in [0, classes)."""
    expected = (*log_probs.shape[:axis], *log_probs.shape[axis + 1 :])
    if tuple(targets.shape) != expected:
        raise ShapeError(
            f"[cross_entropy] log_probs {log_probs.shape} and targets {targets.shape}: "
            f"targets must be {expected} for classes on axis {axis}"
        )
    if not targets.dtype.is_integer:
        raise DTypeError(f"[cross_entropy] targets are {targets.dtype}: expected class numbers")
    picked = ops.take_along_axis(
        log_probs, ops.cast(ops.expand_dims(targets, axis), dtypes.int64), axis
    )
    return ops.negative(ops.reshape(picked, expected))
