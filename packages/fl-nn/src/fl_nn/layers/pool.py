"""Max and average pooling over one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers import settings
from fl_nn.layers.settings import IntOrSizes, PaddingLike
from fl_nn.module import Module

_MODES = ("max", "avg", "avg_exclude_padding")


class _Pool(Module):
    spatial: ClassVar[int]

    def __init__(
        self,
        window: IntOrSizes,
        stride: IntOrSizes | None = None,
        padding: PaddingLike = 0,
        mode: str = "max",
        *,
        ceil_mode: bool = False,
        dilation: IntOrSizes = 1,
    ) -> None:
        name, n = type(self).__name__, self.spatial
        if mode not in _MODES:
            raise ModuleError(f"[{name}] mode {mode!r}: one of {', '.join(_MODES)}")
        self.window = settings.per_axis(name, "window", window, n, 1)
        self.stride = settings.per_axis(name, "stride", window if stride is None else stride, n, 1)
        self.padding = settings.padding_of(name, padding, n)
        self.dilation = settings.per_axis(name, "dilation", dilation, n, 1)
        if mode != "max" and max(self.dilation) > 1:
            raise ModuleError(f"[{name}] dilation {dilation!r} with mode {mode!r}: only of 'max'")
        self.mode, self.ceil_mode = mode, ceil_mode

    def forward(self, x: ft.Array) -> ft.Array:
        _check(self, x)
        sides = settings.sides(self.padding, x.shape[2:], self.window, self.stride, self.dilation)
        if self.mode == "max":
            dilation = self.dilation if max(self.dilation) > 1 else 1
            return ft.max_pool(
                x, self.window, self.stride, sides, ceil_mode=self.ceil_mode, dilation=dilation
            )
        inside = self.mode == "avg"
        return ft.avg_pool(x, self.window, self.stride, sides, inside, ceil_mode=self.ceil_mode)

    def extra_repr(self) -> str:
        window, stride = settings.text(self.window), settings.text(self.stride)
        text = f"{self.mode}, window={window}, stride={stride}"
        text += settings.padding_text(self.padding)
        if max(self.dilation) > 1:
            text += f", dilation={settings.text(self.dilation)}"
        return text + ", ceil_mode=True" * self.ceil_mode


class Pool1D(_Pool):
    """Pools sequences (N, C, length) over windows: settings as in Pool2D."""

    spatial = 1


class Pool2D(_Pool):
    """Pools images (N, C, height, width) over windows.

    window, stride   an int, or a pair (rows, columns); the stride is the window unless given
    padding          an int, "same": output sizes are ceil(size / stride), or a pair of these
    mode             "max" (padding never wins), "avg" (padding counts as zeros), or
                     "avg_exclude_padding" (padding does not count)
    ceil_mode        a last window may reach over the end, if it starts before the padding there;
                     what is beyond the padding never counts
    dilation         the elements of a window are so many places apart (mode "max" only): an int, or
                     a pair

    `Pool2D(3, 2, ceil_mode=True)` is PyTorch's `MaxPool2d(3, 2, ceil_mode=True)`.
    """

    spatial = 2


class Pool3D(_Pool):
    """Pools volumes (N, C, depth, height, width) over windows: settings as in Pool2D."""

    spatial = 3


class _AdaptiveAvgPool(Module):
    spatial: ClassVar[int]

    def __init__(self, size: int | Sequence[int | None]) -> None:
        name, n = type(self).__name__, self.spatial
        given = (size,) * n if isinstance(size, int) else tuple(size)
        if len(given) != n or not all(v is None or (isinstance(v, int) and v > 0) for v in given):
            raise ModuleError(
                f"[{name}] size {size!r}: give an int or {n} of them, at least 1; None keeps a size"
            )
        self.size = given

    def forward(self, x: ft.Array) -> ft.Array:
        _check(self, x)
        for axis, wanted in enumerate(self.size, 2):
            # A mean over a box is a mean over its rows of means over its columns.
            if wanted == 1:
                x = ft.mean(x, axis, keepdims=True)
            elif wanted is not None and wanted != x.shape[axis]:
                table = ft.asarray(
                    _means(x.shape[axis], wanted), x.dtype, x.device, backend=x.backend
                )
                x = ft.moveaxis(ft.linear(ft.moveaxis(x, axis, -1), table), -1, axis)
        return x

    def extra_repr(self) -> str:
        return str(self.size)


class AdaptiveAvgPool1D(_AdaptiveAvgPool):
    """Means over as many windows as make sequences (N, C, length) `size` long: see
    AdaptiveAvgPool2D."""

    spatial = 1


class AdaptiveAvgPool2D(_AdaptiveAvgPool):
    """Means over windows that make images (N, C, height, width) of a fixed `size`: an int, or a
    pair in which None keeps the size there.

    Of n values in m windows, window i reaches from floor(i n / m) to ceil((i + 1) n / m), as in
    PyTorch's AdaptiveAvgPool2d: windows may overlap, and differ by one in length.
    """

    spatial = 2


class AdaptiveAvgPool3D(_AdaptiveAvgPool):
    """Means over windows that make volumes (N, C, depth, height, width) of a fixed `size`: see
    AdaptiveAvgPool2D."""

    spatial = 3


def _means(size: int, wanted: int) -> list[list[float]]:
    # Row i holds the weights of the values in window i.
    rows = []
    for i in range(wanted):
        start, end = i * size // wanted, -(-(i + 1) * size // wanted)
        rows.append([1.0 / (end - start) if start <= j < end else 0.0 for j in range(size)])
    return rows


def _check(layer: _Pool | _AdaptiveAvgPool, x: ft.Array) -> None:
    if x.ndim != layer.spatial + 2:
        place = settings.batched(layer.spatial)
        raise ft.ShapeError(
            f"[{type(layer).__name__}] x {x.shape}: expected (N, channels, {place})"
        )
