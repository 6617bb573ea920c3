"""The reduction of losses (mean, sum, none), and their modules."""

from __future__ import annotations

from typing import ClassVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module

REDUCTIONS = ("mean", "sum", "none")


def check_reduction(where: str, reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise ModuleError for a reduction that there is not."""
    if reduction not in allowed:
        raise ModuleError(f"[{where}] reduction {reduction!r}: one of {', '.join(allowed)}")


def reduce(losses: ft.Array, reduction: str) -> ft.Array:
    """The mean or sum of all losses, or each of them."""
    if reduction == "none":
        return losses
    return ft.sum(losses) if reduction == "sum" else ft.mean(losses)


def same_shapes(
    where: str, predictions: ft.Array, targets: ft.Array, names: str = "predictions and targets"
) -> None:
    """Raise ShapeError unless both have one shape: broadcasting would hide a mistake; DTypeError
    for numbers, which have none."""
    first, second = names.split(" and ")
    for name, x in ((first, predictions), (second, targets)):
        if not hasattr(x, "shape"):
            raise ft.DTypeError(
                f"[{where}] {name} are a {type(x).__name__}: expected an array; use ft.asarray"
            )
    if predictions.shape != targets.shape:
        raise ft.ShapeError(
            f"[{where}] {first} {predictions.shape} and {second} {targets.shape} differ in shape; "
            "reshape one of them"
        )


class Loss(Module):
    """A loss as a module: predictions and targets to a number, or to one per target."""

    allowed: ClassVar[tuple[str, ...]] = REDUCTIONS

    def __init__(self, reduction: str = "mean") -> None:
        check_reduction(type(self).__name__, reduction, self.allowed)
        self.reduction = reduction

    def extra_repr(self) -> str:
        return self.reduction
