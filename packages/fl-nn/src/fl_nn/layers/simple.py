"""Layers without parameters or state: View, ReLU, LogSoftmax."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module


class View(Module):
    """Reshape, in C order. In `shape`, one -1 stands for whatever is left, and 0 for the size the
    input has on that axis: `View((0, -1))` flattens each sample."""

    def __init__(self, shape: tuple[int, ...] | list[int]) -> None:
        self.shape = tuple(shape)
        if any(n < -1 for n in self.shape) or self.shape.count(-1) > 1:
            raise ModuleError(f"[View] shape {self.shape}: sizes are >= 0, and at most one is -1")

    def forward(self, x: ft.Array) -> ft.Array:
        if 0 not in self.shape:
            return ft.reshape(x, self.shape)
        if self.shape.index(0) >= x.ndim or any(n == 0 for n in self.shape[x.ndim :]):
            raise ft.ShapeError(f"[View] x {x.shape}: it has no axis for a 0 in {self.shape}")
        return ft.reshape(x, tuple(n or x.shape[i] for i, n in enumerate(self.shape)))

    def extra_repr(self) -> str:
        return str(self.shape)


class ReLU(Module):
    """`max(x, 0)`."""

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.relu(x)


class LogSoftmax(Module):
    """`log(softmax(x))` along `axis`."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.log_softmax(x, self.axis)

    def extra_repr(self) -> str:
        return "" if self.axis == -1 else f"axis={self.axis}"
