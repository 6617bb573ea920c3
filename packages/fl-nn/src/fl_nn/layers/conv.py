"""Conv2D: convolution over images."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers import settings
from fl_nn.layers.settings import IntOrPair
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class Conv2D(Module):
    """Cross-correlation of images (N, inputs, height, width) with `outputs` kernels.

    kernel, stride, dilation   an int, or a pair (rows, columns)
    padding                    zeros around the image: an int, a pair, or "same": output sizes are
                               ceil(size / stride), an odd zero goes behind
    groups                     splits channels into groups that do not see one another

    weight (outputs, inputs / groups, rows, columns) and bias (outputs,) start uniform within
    +-1 / sqrt(inputs / groups * rows * columns).
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: IntOrPair,
        stride: IntOrPair = 1,
        padding: str | IntOrPair = 0,
        dilation: IntOrPair = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if groups < 1 or inputs < 1 or outputs < 1 or inputs % groups or outputs % groups:
            raise ModuleError(
                f"[Conv2D] {inputs} inputs, {outputs} outputs, groups={groups}: all at least 1, "
                "and groups must divide both channel counts"
            )
        self.inputs, self.outputs, self.groups = inputs, outputs, groups
        self.kernel = settings.pair("Conv2D", "kernel", kernel, 1)
        self.stride = settings.pair("Conv2D", "stride", stride, 1)
        self.dilation = settings.pair("Conv2D", "dilation", dilation, 1)
        self.padding = settings.padding("Conv2D", padding)
        shape = (outputs, inputs // groups, *self.kernel)
        self.weight = Parameter(
            init.kaiming_uniform(shape, a=math.sqrt(5), generator=generator, dtype=dtype)
        )
        self.bias: Parameter | None = None
        if bias:
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            values = init.uniform((outputs,), -bound, bound, generator=generator, dtype=dtype)
            self.bias = Parameter(values)

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim != 4 or x.shape[1] != self.inputs:
            raise ft.ShapeError(
                f"[Conv2D] x {x.shape}: expected (N, {self.inputs}, height, width); "
                "View puts an axis in"
            )
        sides = settings.sides(self.padding, x.shape[2:], self.kernel, self.stride, self.dilation)
        y = ft.conv(
            x, self.weight, self.stride, sides, kernel_dilation=self.dilation, groups=self.groups
        )
        if self.bias is None:
            return y
        return y + self.bias.reshape(1, self.outputs, 1, 1)

    def extra_repr(self) -> str:
        text = f"{self.inputs}, {self.outputs}, kernel={settings.text(self.kernel)}"
        if self.stride != (1, 1):
            text += f", stride={settings.text(self.stride)}"
        if self.padding != (0, 0):
            text += f", padding={settings.text(self.padding) if self.padding else 'same'}"
        if self.dilation != (1, 1):
            text += f", dilation={settings.text(self.dilation)}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + ("" if self.bias is not None else ", bias=False")
