"""AsymmetricConv1D: a convolution with more past than future context."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers import window_arguments
from fl_nn.layers.conv import Conv1D
from fl_nn.layers.window_arguments import IntOrSizes, PaddingLike


class AsymmetricConv1D(Conv1D):
    """Conv1D whose padding is not half in front and half behind: `future` of it goes behind, 0 for
    none (the output knows the past alone), 1 for all. With `padding` an int it is twice that number
    which is shared out; with "same" as much as keeps ceil(length / stride)."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: IntOrSizes,
        stride: IntOrSizes = 1,
        padding: PaddingLike = "same",
        future: float = 0.5,
        dilation: IntOrSizes = 1,
        groups: int = 1,
        bias: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if not 0.0 <= future <= 1.0:
            raise ModuleError(f"[AsymmetricConv1D] future={future}: a share lies in [0, 1]")
        super().__init__(
            inputs, outputs, kernel, stride, padding, dilation, groups, bias,
            generator=generator, dtype=dtype,
        )  # fmt: skip
        self.future = future

    def padding_sides(self, size: tuple[int, ...]) -> window_arguments.Sides:
        (total,) = map(
            window_arguments.total_of_same, size, self.kernel, self.stride, self.dilation
        )
        if self.padding[0] is not None:
            total = 2 * self.padding[0]
        behind = math.ceil(total * self.future)
        return ((total - behind, behind),)

    def _padding_text(self) -> str:
        return super()._padding_text() + f", future={self.future}"
