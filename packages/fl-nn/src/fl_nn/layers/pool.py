"""Pool2D: the largest or the mean value of each window of an image."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers import settings
from fl_nn.layers.settings import IntOrPair
from fl_nn.module import Module

_MODES = ("max", "avg", "avg_exclude_padding")


class Pool2D(Module):
    """Pools images (N, C, height, width) over windows.

    window, stride   an int, or a pair (rows, columns); the stride is the window unless given
    padding          an int, a pair, or "same": output sizes are ceil(size / stride)
    mode             "max" (padding never wins), "avg" (padding counts as zeros), or
                     "avg_exclude_padding" (padding does not count)
    """

    def __init__(
        self,
        window: IntOrPair,
        stride: IntOrPair | None = None,
        padding: str | IntOrPair = 0,
        mode: str = "max",
    ) -> None:
        if mode not in _MODES:
            raise ModuleError(f"[Pool2D] mode {mode!r}: one of {', '.join(_MODES)}")
        self.window = settings.pair("Pool2D", "window", window, 1)
        self.stride = settings.pair("Pool2D", "stride", window if stride is None else stride, 1)
        self.padding = settings.padding("Pool2D", padding)
        self.mode = mode

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim != 4:
            raise ft.ShapeError(f"[Pool2D] x {x.shape}: expected (N, channels, height, width)")
        sides = settings.sides(self.padding, x.shape[2:], self.window, self.stride, (1, 1))
        if self.mode == "max":
            return ft.max_pool(x, self.window, self.stride, sides)
        return ft.avg_pool(x, self.window, self.stride, sides, self.mode == "avg")

    def extra_repr(self) -> str:
        window, stride = settings.text(self.window), settings.text(self.stride)
        text = f"{self.mode}, window={window}, stride={stride}"
        if self.padding != (0, 0):
            text += f", padding={settings.text(self.padding) if self.padding else 'same'}"
        return text
