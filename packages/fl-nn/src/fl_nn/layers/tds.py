"""Time-depth separable convolution, for speech."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.conv import Conv2D
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.layers.norm import ScalarLayerNorm
from fl_nn.module import Module


class TDSBlock(Module):
    """Convolution along time, then a feed-forward network at every step, each with dropout, a
    residual and a norm. Hannun et al., 2019. x (batch, channels, width, steps) keeps its shape.

    kernel         steps that the convolution sees
    hidden         features between the two Linears; channels * width unless given
    future         how many of the kernel's steps lie ahead: half unless given, fewer for streaming
    norm_over_time whether the norms take their statistics over time too, as published; without, a
                   step does not see later ones through them
    """

    def __init__(
        self,
        channels: int,
        kernel: int,
        width: int,
        dropout: float = 0.0,
        hidden: int = 0,
        future: int | None = None,
        norm_over_time: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if future is not None and not 0 <= future < kernel:
            raise ModuleError(f"[TDSBlock] future={future}: from 0 to kernel - 1 = {kernel - 1}")
        self.channels, self.kernel, self.width = channels, kernel, width
        self.future = kernel - 1 - (kernel - 1) // 2 if future is None else future
        size, axes = channels * width, (1, 2, 3) if norm_over_time else (1, 2)
        self.conv = Conv2D(channels, channels, (1, kernel), generator=generator, dtype=dtype)
        self.norm1 = ScalarLayerNorm(axes, dtype=dtype)
        self.linear1 = Linear(size, hidden or size, generator=generator, dtype=dtype)
        self.linear2 = Linear(hidden or size, size, generator=generator, dtype=dtype)
        self.norm2 = ScalarLayerNorm(axes, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(self, x: ft.Array) -> ft.Array:
        if x.ndim != 4 or x.shape[1:3] != (self.channels, self.width):
            raise ft.ShapeError(
                f"[TDSBlock] x {x.shape}: expected (batch, {self.channels}, {self.width}, steps)"
            )
        past = self.kernel - 1 - self.future
        return self._of(x, ft.pad(x, ((0, 0), (0, 0), (0, 0), (past, self.future))))

    def without_padding(self, x: ft.Array) -> ft.Array:
        """The steps that see a whole kernel in x: `kernel - 1` fewer, for x that arrives in
        pieces."""
        past = self.kernel - 1 - self.future
        return self._of(x[..., past : x.shape[-1] - self.future], x)

    def _of(self, x: ft.Array, padded: ft.Array) -> ft.Array:
        x = self.norm1(x + self.dropout(ft.relu(self.conv(padded))))
        return self.norm2(x + self._feed_forward(x))

    def _feed_forward(self, x: ft.Array) -> ft.Array:
        steps = ft.permute(x, (0, 3, 1, 2))
        y = steps.reshape(*steps.shape[:2], self.channels * self.width)
        y = self.linear2(self.dropout(ft.relu(self.linear1(y))))
        return self.dropout(ft.permute(y.reshape(steps.shape), (0, 2, 3, 1)))

    def extra_repr(self) -> str:
        return f"{self.channels}, kernel={self.kernel}, width={self.width}, future={self.future}"
