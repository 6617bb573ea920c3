"""FourAxes: an adapter for sequence layers in an image network."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.module import Module
from fl_nn.padding import Lengths, informed


class FourAxes(Module):
    """Calls a layer of three axes, or of fewer, with x of four, the axis `axis` of which has size
    1: it is taken off, and put back where the result has three. Other x are passed on as they are.
    Of a layer with several results, such as LSTM, the first is the result.

    Networks that were written for four axes everywhere, as Flashlight's architecture files are,
    have (1, batch, steps, size) before a Transformer.
    """

    takes_lengths = True

    def __init__(self, module: Module, axis: int = 0) -> None:
        self.module, self.axis = module, axis

    def forward(self, x: ft.Array, lengths: Lengths | None = None) -> ft.Array:
        four = x.ndim == 4
        if four and x.shape[self.axis] != 1:
            kind = type(self.module).__name__
            raise ft.ShapeError(
                f"[FourAxes] x {x.shape}: {kind} has no place for axis {self.axis} unless its size "
                "is 1; View or Reorder the input"
            )
        result: Any = informed(self.module, lengths)(ft.squeeze(x, self.axis) if four else x)
        y: ft.Array = result[0] if isinstance(result, tuple) else result
        return ft.expand_dims(y, self.axis) if four and y.ndim == 3 else y

    def extra_repr(self) -> str:
        return f"axis={self.axis}" if self.axis else ""
