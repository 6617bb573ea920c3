"""Losses, as functions and as modules: cross entropy and mean squared error."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.values import check_classes, tensor_of

_REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    log_probs: ft.Array,
    targets: ft.Array,
    reduction: str = "mean",
    ignore_index: int | None = None,
    axis: int = 1,
) -> ft.Array:
    """The negative log-probability of the target classes.

    log_probs   (N, classes, ...) from LogSoftmax, floating; classes on `axis`
    targets     integers in [0, classes), the shape of log_probs without `axis`
    reduction   "mean" over the targets, "sum", or "none": one number per target
    ignore_index  targets of this value count for nothing: loss 0, and not in the mean, which over
                no targets at all is 0

    Gives a scalar, or with "none" the shape of targets. Raises ShapeError, DTypeError, IndexError.
    """
    _check_reduction("cross_entropy", reduction)
    targets = tensor_of(targets)
    if not -log_probs.ndim <= axis < log_probs.ndim:
        raise ft.ShapeError(f"[cross_entropy] log_probs {log_probs.shape} have no axis {axis}")
    classes = log_probs.shape[axis]
    if ignore_index is None:
        hint = "pass ignore_index for targets that do not count"
        check_classes("[cross_entropy] targets", targets, classes, hint)
        return _reduce(ft.cross_entropy(log_probs, targets, axis), reduction)
    counted = ft.not_equal(targets, ignore_index)
    targets = ft.where(counted, targets, 0)
    hint = f"or ignore_index={ignore_index}"
    check_classes("[cross_entropy] targets", targets, classes, hint)
    losses = ft.where(counted, ft.cross_entropy(log_probs, targets, axis), 0.0)
    if reduction != "mean":
        return _reduce(losses, reduction)
    number = ft.maximum(ft.sum(counted), 1)
    return ft.sum(losses) / number.astype(losses.dtype)


def mse(predictions: ft.Array, targets: ft.Array, reduction: str = "mean") -> ft.Array:
    """Squared differences of two floating arrays of the same shape; reduced as `cross_entropy`."""
    _check_reduction("mse", reduction)
    if predictions.shape != targets.shape:
        raise ft.ShapeError(
            f"[mse] predictions {predictions.shape} and targets {targets.shape} differ in shape; "
            "reshape one of them"
        )
    return _reduce(ft.square(predictions - targets), reduction)


class CategoricalCrossEntropy(Module):
    """`cross_entropy` as a module."""

    def __init__(
        self, reduction: str = "mean", ignore_index: int | None = None, axis: int = 1
    ) -> None:
        _check_reduction("CategoricalCrossEntropy", reduction)
        self.reduction, self.ignore_index, self.axis = reduction, ignore_index, axis

    def forward(self, log_probs: ft.Array, targets: ft.Array) -> ft.Array:
        return cross_entropy(log_probs, targets, self.reduction, self.ignore_index, self.axis)

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index is None else f", ignore_index={self.ignore_index}"
        return self.reduction + ignored + ("" if self.axis == 1 else f", axis={self.axis}")


class MeanSquaredError(Module):
    """`mse` as a module."""

    def __init__(self, reduction: str = "mean") -> None:
        _check_reduction("MeanSquaredError", reduction)
        self.reduction = reduction

    def forward(self, predictions: ft.Array, targets: ft.Array) -> ft.Array:
        return mse(predictions, targets, self.reduction)

    def extra_repr(self) -> str:
        return self.reduction


def _check_reduction(where: str, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ModuleError(f"[{where}] reduction {reduction!r}: one of {', '.join(_REDUCTIONS)}")


def _reduce(losses: ft.Array, reduction: str) -> ft.Array:
    if reduction == "none":
        return losses
    return ft.sum(losses) if reduction == "sum" else ft.mean(losses)
