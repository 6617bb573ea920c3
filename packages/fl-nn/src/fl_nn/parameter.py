"""Parameter: a variable that a module owns and an optimizer updates."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_autograd import Variable


class Parameter(Variable):
    """A Variable that a module learns: found by name, updated by an optimizer.

    `p -= x` updates this very parameter, frozen or not: under `ag.no_grad()` while it learns.
    """

    __slots__ = ()
    _updated_in_place = True

    def __init__(self, value: Any, requires_grad: bool = True) -> None:
        super().__init__(value, requires_grad)

    def replace(self, value: ft.Tensor) -> None:
        """Take a value of the same shape that may be of another dtype or on another backend. The
        gradient and hooks, which belong to the old kind of value, are dropped."""
        if value.shape != self.shape:
            raise ft.ShapeError(f"[Parameter] shape {self.shape} cannot become {value.shape}")
        Variable.__init__(self, value, self.requires_grad)


class SparseParameter(Parameter):
    """A table whose gradients are rows, `fl_autograd.RowGradient`: of Embedding(sparse=True), or
    whatever calls `fl_autograd.lookup_rows`. The type tells ranks which have no gradient themselves
    what kind the others have."""

    __slots__ = ()
