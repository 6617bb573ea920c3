"""Convolution over one, two or three spatial axes, and its transpose."""

from __future__ import annotations

import math
from typing import ClassVar

import fl_autograd as ag
import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers import window_arguments
from fl_nn.layers.window_arguments import IntOrSizes, PaddingLike, Sizes
from fl_nn.module import Module
from fl_nn.parameter import Parameter


@ag.as_operation("conv_bias", casts_like="conv")
def _shifted(y: ft.Array, bias: ft.Array | None) -> ft.Array:
    return y if bias is None else y + bias.reshape(1, -1, *(1,) * (y.ndim - 2))


class _Kernels(Module):
    # What a convolution and its transpose share: channels, kernels, and how they start.

    spatial: ClassVar[int]

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: IntOrSizes,
        stride: IntOrSizes,
        dilation: IntOrSizes,
        groups: int,
    ) -> None:
        name = type(self).__name__
        if groups < 1 or inputs < 1 or outputs < 1 or inputs % groups or outputs % groups:
            raise ModuleError(
                f"[{name}] {inputs} inputs, {outputs} outputs, groups={groups}: all at least 1, "
                "and groups must divide both channel counts"
            )
        self.inputs, self.outputs, self.groups = inputs, outputs, groups
        self.kernel = window_arguments.per_axis(name, "kernel", kernel, self.spatial, 1)
        self.stride = window_arguments.per_axis(name, "stride", stride, self.spatial, 1)
        self.dilation = window_arguments.per_axis(name, "dilation", dilation, self.spatial, 1)

    def _start(
        self, shape: Sizes, bias: bool, generator: ft.Generator | None, dtype: ft.DType | None
    ) -> None:
        self.weight = Parameter(
            init.kaiming_uniform(shape, a=math.sqrt(5), generator=generator, dtype=dtype)
        )
        self.bias: Parameter | None = None
        if bias:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            size = (self.outputs,)
            values = init.uniform(size, -bound, bound, generator=generator, dtype=dtype)
            self.bias = Parameter(values)

    def _check(self, x: ft.Array) -> None:
        if x.ndim != self.spatial + 2 or x.shape[1] != self.inputs:
            raise ft.ShapeError(
                f"[{type(self).__name__}] x {x.shape}: expected (N, {self.inputs}, "
                f"{window_arguments.batched(self.spatial)}); View puts an axis in"
            )

    def extra_repr(self) -> str:
        text = f"{self.inputs}, {self.outputs}, kernel={window_arguments.text(self.kernel)}"
        if max(self.stride) > 1:
            text += f", stride={window_arguments.text(self.stride)}"
        text += self._padding_text()
        if max(self.dilation) > 1:
            text += f", dilation={window_arguments.text(self.dilation)}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + ("" if self.bias is not None else ", bias=False")

    def _padding_text(self) -> str:
        return ""


class _Conv(_Kernels):
    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: IntOrSizes,
        stride: IntOrSizes = 1,
        padding: PaddingLike = 0,
        dilation: IntOrSizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, dilation, groups)
        self.padding = window_arguments.padding_of(type(self).__name__, padding, self.spatial)
        self._start((outputs, inputs // groups, *self.kernel), bias, generator, dtype)

    def forward(self, x: ft.Array) -> ft.Array:
        self._check(x)
        sides = self.padding_sides(x.shape[2:])
        y = ft.conv(
            x, self.weight, self.stride, sides, kernel_dilation=self.dilation, groups=self.groups
        )
        return _shifted(y, self.bias)

    def padding_sides(self, size: Sizes) -> window_arguments.Sides:
        """Padding before and behind each spatial axis of an input with these sizes."""
        return window_arguments.sides(self.padding, size, self.kernel, self.stride, self.dilation)

    def _padding_text(self) -> str:
        return window_arguments.padding_text(self.padding)


class Conv1D(_Conv):
    """Cross-correlation of sequences (N, inputs, length) with `outputs` kernels: settings as in
    Conv2D, parameters as in PyTorch's Conv1d."""

    spatial = 1


class Conv2D(_Conv):
    """Cross-correlation of images (N, inputs, height, width) with `outputs` kernels.

    kernel, stride, dilation   an int, or a pair (rows, columns)
    padding                    zeros around the image: an int, "same", which makes output sizes
                               ceil(size / stride) (an odd zero goes behind), or a pair of these
    groups                     splits channels into groups that do not see one another

    weight (outputs, inputs / groups, rows, columns) and bias (outputs,) start uniform within
    +-1 / sqrt(inputs / groups * rows * columns).
    """

    spatial = 2


class Conv3D(_Conv):
    """Cross-correlation of volumes (N, inputs, depth, height, width) with `outputs` kernels:
    settings as in Conv2D with three numbers, parameters as in PyTorch's Conv3d."""

    spatial = 3


class _ConvTranspose(_Kernels):
    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: IntOrSizes,
        stride: IntOrSizes = 1,
        padding: IntOrSizes = 0,
        output_padding: IntOrSizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: IntOrSizes = 1,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, dilation, groups)
        name = type(self).__name__
        self.padding = window_arguments.per_axis(name, "padding", padding, self.spatial, 0)
        self.output_padding = window_arguments.per_axis(
            name, "output_padding", output_padding, self.spatial, 0
        )
        if any(o >= max(s, d) for o, s, d in zip(self.output_padding, self.stride, self.dilation)):
            raise ModuleError(
                f"[{name}] output_padding {self.output_padding} must be smaller than the stride "
                f"{self.stride} or the dilation {self.dilation}: there is no more to choose from"
            )
        self._start((inputs, outputs // groups, *self.kernel), bias, generator, dtype)

    def forward(self, x: ft.Array) -> ft.Array:
        self._check(x)
        reach = tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel))
        sides = tuple(
            (r - p, r - p + o) for r, p, o in zip(reach, self.padding, self.output_padding)
        )
        y = ft.conv(
            x,
            self._flipped(),
            padding=sides,
            input_dilation=self.stride,
            kernel_dilation=self.dilation,
            groups=self.groups,
        )
        return _shifted(y, self.bias)

    def _flipped(self) -> ft.Array:
        # The kernels mirrored, inputs and outputs exchanged within each group.
        inner, axes = self.inputs // self.groups, tuple(range(2, 2 + self.spatial))
        w = ft.flip(self.weight, axes).reshape(self.groups, inner, -1, *self.kernel)
        w = ft.swapaxes(w, 1, 2)
        return w.reshape(self.outputs, inner, *self.kernel)

    def _padding_text(self) -> str:
        text = f", padding={window_arguments.text(self.padding)}" if any(self.padding) else ""
        if any(self.output_padding):
            text += f", output_padding={window_arguments.text(self.output_padding)}"
        return text


class ConvTranspose1D(_ConvTranspose):
    """The transpose (gradient) of Conv1D: settings as in ConvTranspose2D."""

    spatial = 1


class ConvTranspose2D(_ConvTranspose):
    """The transpose (gradient) of Conv2D: images (N, inputs, height, width) become larger by the
    stride. Dumoulin & Visin, 2016.

    Output sizes are (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding
    + 1; `output_padding` chooses among those that Conv2D maps to `size`.

    weight (inputs, outputs / groups, rows, columns) and bias (outputs,), started and ordered as in
    PyTorch's ConvTranspose2d.
    """

    spatial = 2


class ConvTranspose3D(_ConvTranspose):
    """The transpose (gradient) of Conv3D: settings as in ConvTranspose2D."""

    spatial = 3
