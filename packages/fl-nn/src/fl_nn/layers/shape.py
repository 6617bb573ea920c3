"""Layers that change shapes or dtypes, without parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_tensor.arguments import choice_of
from fl_tensor.derived.repetition import PAD_MODES


class Identity(Module):
    """What it is given: one input as it is, several as a tuple."""

    def forward(self, *inputs: Any) -> Any:
        return inputs[0] if len(inputs) == 1 else inputs


class View(Module):
    """Reshape, in C order. In `shape`, one -1 stands for whatever is left, and 0 for the size the
    input has on that axis: `View((0, -1))` flattens each sample. With `from_end` it is the axis
    that is as far from the end: `View((-1, 0), True)` keeps the last."""

    def __init__(self, shape: tuple[int, ...] | list[int], from_end: bool = False) -> None:
        self.shape, self.from_end = tuple(shape), from_end
        if any(n < -1 for n in self.shape) or self.shape.count(-1) > 1:
            raise ModuleError(f"[View] shape {self.shape}: sizes are >= 0, and at most one is -1")

    def forward(self, x: ft.Array) -> ft.Array:
        if 0 not in self.shape:
            return ft.reshape(x, self.shape)
        shift = x.ndim - len(self.shape) if self.from_end else 0
        if not all(n or 0 <= i + shift < x.ndim for i, n in enumerate(self.shape)):
            raise ft.ShapeError(f"[View] x {x.shape}: it has no axis for a 0 in {self.shape}")
        sizes = tuple(n or x.shape[i + shift] for i, n in enumerate(self.shape))
        if not x.size and -1 in sizes:
            # Sizes of 0 do not tell what -1 stands for; the axes that are not kept do.
            kept = [i + shift for i, n in enumerate(self.shape) if not n]
            left = math.prod(n for i, n in enumerate(x.shape) if i not in kept)
            rest, over = divmod(left, math.prod(n for n in self.shape if n > 0))
            sizes = sizes if over else tuple(rest if n < 0 else n for n in sizes)
        return ft.reshape(x, sizes)

    def extra_repr(self) -> str:
        return str(self.shape) + ", from_end=True" * self.from_end


class Flatten(Module):
    """One axis in place of axes `start` to `end`, both included: by default of all but the first,
    as in PyTorch."""

    def __init__(self, start: int = 1, end: int = -1) -> None:
        self.start, self.end = start, end

    def forward(self, x: ft.Array) -> ft.Array:
        start, end = (a + x.ndim if a < 0 else a for a in (self.start, self.end))
        if not 0 <= start <= end < x.ndim:
            raise ft.ShapeError(f"[Flatten] x {x.shape}: it has no axes {self.start} to {self.end}")
        size = math.prod(x.shape[start : end + 1])
        return ft.reshape(x, (*x.shape[:start], size, *x.shape[end + 1 :]))

    def extra_repr(self) -> str:
        return f"{self.start}, {self.end}"


class Reorder(Module):
    """The axes in another order: axis i of the result is axis `axes[i]` of the input."""

    def __init__(self, axes: Sequence[int]) -> None:
        self.axes = tuple(axes)

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.permute(x, self.axes)

    def extra_repr(self) -> str:
        return str(self.axes)


class Padding(Module):
    """Elements `value` around x, or others (`mode` of ft.pad). `widths`: a (before, after) pair per
    axis, or one int for all."""

    def __init__(
        self,
        widths: int | Sequence[tuple[int, int]],
        value: float = 0.0,
        mode: str = "constant",
    ) -> None:
        self.widths = widths if isinstance(widths, int) else tuple((a, b) for a, b in widths)
        self.value, self.mode = value, choice_of("Padding", mode, "mode", ("constant", *PAD_MODES))

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.pad(x, self.widths, mode=self.mode, value=self.value)

    def extra_repr(self) -> str:
        how = f"value={self.value}" if self.mode == "constant" else f"mode={self.mode!r}"
        return f"{self.widths}, {how}"


class Transform(Module):
    """Any function of arrays as a module: `Transform(ft.exp)`. A function has no configuration, so
    a model with one is rebuilt by its own code."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        if not callable(function):
            raise ModuleError(f"[Transform] {function!r} is no function")
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)

    def extra_repr(self) -> str:
        return self.name


class Cast(Module):
    """The input in another dtype; gradients come back in the dtype of the input. Flashlight's
    PrecisionCast."""

    def __init__(self, dtype: ft.DType | str) -> None:
        self.dtype = ft.dtype(dtype)

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.cast(x, self.dtype)

    def extra_repr(self) -> str:
        return str(self.dtype)


class Normalize(Module):
    """x scaled so that its `p`-norm over `axis` is `value`: `value * x / max(norm, eps)`."""

    def __init__(
        self,
        axis: int | Sequence[int] = 1,
        p: float = 2.0,
        eps: float = 1e-12,
        value: float = 1.0,
    ) -> None:
        if not p > 0:
            raise ModuleError(f"[Normalize] p={p}: a norm has p > 0")
        if not 0.0 <= eps < math.inf:
            raise ModuleError(f"[Normalize] eps={eps}: give a number of at least 0")
        self.axis = axis if isinstance(axis, int) else tuple(axis)
        self.p, self.eps, self.value = p, eps, value

    def forward(self, x: ft.Array) -> ft.Array:
        length = ft.norm(x, axis=self.axis, keepdims=True, ord=self.p)
        y = x / ft.maximum(length, self.eps)
        return y if self.value == 1.0 else y * self.value

    def extra_repr(self) -> str:
        return f"axis={self.axis}, p={self.p}, value={self.value}"
