"""Conversion steps of a rename rule: transpose, merge, split, and their inverses."""

from __future__ import annotations

from collections.abc import Sequence

import fl_tensor as ft


class Step:
    """A change of the tensors of one rule, from theirs to ours (`forward`) and back (`backward`).
    Derive from it for changes of your own: both are made of `ft` functions on tensors."""

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        """Theirs to ours."""
        raise NotImplementedError

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        """Ours to theirs."""
        raise NotImplementedError


class Transpose(Step):
    """Their axes in the order `axes`; two axes swapped unless given."""

    def __init__(self, axes: Sequence[int] = (1, 0)) -> None:
        self.axes = tuple(axes)

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return [ft.permute(x, self.axes) for x in tensors]

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        inverse = tuple(map(self.axes.index, range(len(self.axes))))
        return [ft.permute(x, inverse) for x in tensors]


class Squeeze(Step):
    """They have one more axis, of length 1, at place `axis`."""

    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return [ft.squeeze(x, self.axis) for x in tensors]

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return [ft.expand_dims(x, self.axis) for x in tensors]


class Merge(Step):
    """What are several tensors there is one here, one after another along `axis`. `parts` says how
    many, of one length, or gives the length of each."""

    def __init__(self, parts: int | Sequence[int], axis: int = 0) -> None:
        self.parts, self.axis = parts, axis

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return [ft.concatenate(tensors, self.axis)]

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        (whole,) = tensors
        return list(ft.split(whole, self.parts, self.axis))


class Split(Merge):
    """What is one tensor there are several here: Merge the other way."""

    def forward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return super().backward(tensors)

    def backward(self, tensors: list[ft.Tensor]) -> list[ft.Tensor]:
        return super().forward(tensors)
