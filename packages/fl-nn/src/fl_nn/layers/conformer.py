"""Conformer: a Transformer layer with a convolution module, for speech."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.containers import Sequential
from fl_nn.errors import ModuleError
from fl_nn.layers.activations import Swish
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.conv import Conv1D
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.layers.norm import BatchNorm, LayerNorm
from fl_nn.module import Module
from fl_nn.padding import Lengths, steps_known


class Conformer(Module):
    """Half a feed-forward network, self-attention, convolution, another half network, each behind
    a LayerNorm and with a residual, and a LayerNorm at the end. Gulati et al., 2020.
    x (batch, steps, size) keeps its shape.

    kernel     steps that the depthwise convolution sees, half of them ahead; an odd number
    relative   reach of the learned relative positions; 0 for none
    kv_heads   as in MultiHeadAttention
    layer_drop probability that training leaves the whole layer out (Fan et al., 2020)
    """

    takes_lengths = True

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        kernel: int = 31,
        relative: int = 0,
        dropout: float = 0.1,
        layer_drop: float = 0.0,
        head_size: int | None = None,
        kv_heads: int | None = None,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if kernel < 1 or kernel % 2 == 0:
            raise ModuleError(f"[Conformer] kernel {kernel}: give an odd number of steps")
        if not 0.0 <= layer_drop < 1.0:
            raise ModuleError(f"[Conformer] layer_drop={layer_drop}: a probability below 1")
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}

        def feed_forward() -> Sequential:
            return Sequential(
                LayerNorm(size, dtype=dtype), Linear(size, hidden, **options), Swish(),
                Dropout(dropout), Linear(hidden, size, **options), Dropout(dropout),
            )  # fmt: skip

        self.layer_drop = layer_drop
        self.generator = ft.default_generator().split(1)[0] if layer_drop else None
        self.feed_forward1 = feed_forward()
        self.norm_attn = LayerNorm(size, dtype=dtype)
        self.self_attn = MultiHeadAttention(
            size, heads, dropout, True, kv_heads, head_size, relative, **options
        )
        self.norm_conv = LayerNorm(size, dtype=dtype)
        self.pointwise1 = Linear(size, 2 * size, **options)
        self.depthwise = Conv1D(
            size, size, kernel, padding=(kernel - 1) // 2, groups=size, **options
        )
        self.batch_norm = BatchNorm(size, dtype=dtype)
        self.pointwise2 = Linear(size, size, **options)
        self.feed_forward2 = feed_forward()
        self.norm = LayerNorm(size, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: ft.Array,
        mask: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        lengths: Lengths | None = None,
    ) -> ft.Array:
        """`mask` as in MultiHeadAttention; steps that are False in `key_mask` (batch, steps), bool,
        are padding: attention and convolution do not see them. `lengths` as in Sequential, in place
        of `key_mask`."""
        if self.training and self.generator is not None:
            if self.generator.bernoulli((), self.layer_drop).item():
                return x
        key_mask = steps_known("Conformer", x, key_mask, lengths)
        x = x + self.feed_forward1(x) * 0.5
        attended = self.self_attn(self.norm_attn(x), mask=mask, key_mask=key_mask)
        x = x + self.dropout(attended)
        x = x + self.dropout(self._convolve(self.norm_conv(x), key_mask))
        x = x + self.feed_forward2(x) * 0.5
        return self.norm(x)

    def _convolve(self, x: ft.Array, key_mask: ft.Array | None) -> ft.Array:
        value, gate = ft.split(self.pointwise1(x), 2, -1)
        y = value * ft.sigmoid(gate)
        if key_mask is not None:
            y = ft.where(ft.expand_dims(key_mask, -1), y, 0.0)
        y = self.batch_norm(self.depthwise(ft.swapaxes(y, 1, 2)))
        return self.pointwise2(ft.silu(ft.swapaxes(y, 1, 2)))
