"""Transformer and Conformer layers with the parameters that Flashlight's have.

TransformerEncoderLayer and Conformer follow PyTorch and the papers. These follow Flashlight's
`fl::Transformer` and `fl::Conformer`, so that its architecture files give its parameter counts and
its weights fit. `build_sequential(..., as_flashlight=True)` makes them.
"""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.conv import Conv1D
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.layers.norm import LayerNorm, ScalarLayerNorm
from fl_nn.module import Module
from fl_nn.padding import Lengths, padding_mask


def _attention(size: int, heads: int, relative: int, dropout: float) -> MultiHeadAttention:
    made = MultiHeadAttention(size, heads, dropout, bias=False, relative=relative)
    bound = 1.0 / math.sqrt(size)
    made.in_proj_weight.tensor = init.uniform(made.in_proj_weight.shape, -bound, bound)
    return made


class _Dropped(Module):
    # A layer whose sub-layers are left out in training with a probability, its norms never.

    def __init__(self, layer_drop: float) -> None:
        if not 0.0 <= layer_drop < 1.0:
            raise ModuleError(
                f"[{type(self).__name__}] layer_drop={layer_drop}: a probability below 1"
            )
        self.layer_drop = layer_drop
        self.generator = ft.default_generator().split(1)[0] if layer_drop else None

    def _skipped(self) -> bool:
        if not self.training or self.generator is None:
            return False
        return bool(self.generator.bernoulli((), self.layer_drop).item())


class OriginalTransformer(_Dropped):
    """Self-attention and a feed-forward network over x (batch, steps, size), as Flashlight has it.

    Its Linears have no biases, and its norms one scale and one shift each (ScalarLayerNorm).
    x = norm(x + f(x)); with `norm_output`, which Flashlight calls preLN, x = x + norm(f(x)). Where
    `layer_drop` leaves the sub-layers out, the norms of the first form still apply.

    Parameters: `4 size^2 + 2 size hidden + 4`, and `(2 relative - 1) size / heads` of positions.
    """

    takes_lengths = True

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        relative: int = 0,
        dropout: float = 0.1,
        layer_drop: float = 0.0,
        norm_output: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__(layer_drop)
        self.norm_output, self.causal = norm_output, causal
        self.self_attn = _attention(size, heads, relative, dropout)
        self.linear1 = Linear(size, hidden, False)
        self.linear2 = Linear(hidden, size, False)
        self.norm1 = ScalarLayerNorm(-1)
        self.norm2 = ScalarLayerNorm(-1)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: ft.Array, key_mask: ft.Array | None = None, lengths: Lengths | None = None
    ) -> ft.Array:
        """`key_mask` (batch, steps), bool, is False where a step is padding; `lengths` as in
        Sequential, in its place."""
        key_mask = padding_mask("OriginalTransformer", x, key_mask, lengths)
        if self._skipped():
            return x if self.norm_output else self.norm2(self.norm1(x))
        attended = self.self_attn(x, key_mask=key_mask, causal=self.causal)
        if self.norm_output:
            x = x + self.norm1(attended)
            return x + self.norm2(self._feed_forward(x))
        x = self.norm1(x + attended)
        return self.norm2(x + self._feed_forward(x))

    def _feed_forward(self, x: ft.Array) -> ft.Array:
        return self.linear2(self.dropout(ft.relu(self.linear1(x))))

    def extra_repr(self) -> str:
        return f"norm_output={self.norm_output}"


class OriginalConformer(_Dropped):
    """Half a feed-forward network, self-attention, convolution, another half network, over x
    (batch, steps, size), as Flashlight has it.

    Its Linears have no biases, and behind the depthwise convolution stands a LayerNorm in place of
    the paper's batch norm. The convolution sees padding. Where `layer_drop` leaves the sub-layers
    out, the last norm still applies.

    Parameters: `7 size^2 + 4 size hidden + (kernel + 13) size`, and `(2 relative - 1) size / heads`
    of positions.
    """

    takes_lengths = True

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int,
        kernel: int,
        relative: int = 0,
        dropout: float = 0.1,
        layer_drop: float = 0.0,
    ) -> None:
        super().__init__(layer_drop)
        self.self_attn = _attention(size, heads, relative, dropout)
        self.linear11, self.linear12 = Linear(size, hidden, False), Linear(hidden, size, False)
        self.linear21, self.linear22 = Linear(size, hidden, False), Linear(hidden, size, False)
        self.pointwise1 = Linear(size, 2 * size, False)
        self.pointwise2 = Linear(size, size, False)
        self.depthwise = Conv1D(size, size, kernel, padding="same", groups=size)
        self.norm1, self.norm2, self.norm3 = LayerNorm(size), LayerNorm(size), LayerNorm(size)
        self.norm_attn, self.norm_conv1 = LayerNorm(size), LayerNorm(size)
        self.norm_conv2 = LayerNorm(size)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: ft.Array, key_mask: ft.Array | None = None, lengths: Lengths | None = None
    ) -> ft.Array:
        """`key_mask` (batch, steps), bool, is False where a step is padding; `lengths` as in
        Sequential, in its place."""
        key_mask = padding_mask("OriginalConformer", x, key_mask, lengths)
        if self._skipped():
            return self.norm3(x)
        drop = self.dropout
        x = x + 0.5 * self._feed_forward(self.norm1(x), self.linear11, self.linear12)
        x = x + drop(self.self_attn(self.norm_attn(x), key_mask=key_mask))
        x = x + drop(self._convolve(self.norm_conv1(x)))
        x = x + 0.5 * self._feed_forward(self.norm2(x), self.linear21, self.linear22)
        return self.norm3(x)

    def _feed_forward(self, x: ft.Array, first: Linear, second: Linear) -> ft.Array:
        return self.dropout(second(self.dropout(ft.silu(first(x)))))

    def _convolve(self, x: ft.Array) -> ft.Array:
        value, gate = ft.split(self.pointwise1(x), 2, -1)
        y = ft.swapaxes(value * ft.sigmoid(gate), 1, 2)
        y = ft.swapaxes(self.depthwise(y), 1, 2)
        return self.pointwise2(ft.silu(self.norm_conv2(y)))
