"""Transformer layers, post-norm (Vaswani et al., 2017) or pre-norm (Xiong et al., 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.cache import Cache
from fl_nn.layers.drop_path import DropPath
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.layers.norm import LayerNorm
from fl_nn.module import Module
from fl_nn.padding import Lengths, padding_mask

ACTIVATIONS: dict[str, Callable[[ft.Array], ft.Array]] = {
    "relu": ft.relu,
    "gelu": ft.gelu,
    "gelu_tanh": lambda x: ft.gelu(x, "tanh"),
    "silu": ft.silu,
}


class _TransformerLayer(Module):
    def __init__(
        self,
        size: int,
        hidden: int,
        dropout: float,
        activation: str,
        norm_first: bool,
        layer_drop: float,
        bias: bool,
        options: dict[str, Any],
        drop_path: float = 0.0,
    ) -> None:
        name = type(self).__name__
        if activation not in ACTIVATIONS:
            raise ModuleError(
                f"[{name}] activation {activation!r}: one of {', '.join(ACTIVATIONS)}"
            )
        if not 0.0 <= layer_drop < 1.0:
            raise ModuleError(f"[{name}] layer_drop={layer_drop}: a probability below 1")
        self.activation, self.norm_first, self.layer_drop = activation, norm_first, layer_drop
        self.generator = ft.default_generator().split(1)[0] if layer_drop else None
        self.linear1 = Linear(size, hidden, bias, **options)
        self.linear2 = Linear(hidden, size, bias, **options)
        self.dropout = Dropout(dropout)
        self.drop_path = DropPath(drop_path) if drop_path else None

    def _skipped(self) -> bool:
        # LayerDrop: in training the layer is left out with a probability. Fan et al., 2020.
        if not self.training or self.generator is None:
            return False
        return bool(self.generator.bernoulli((), self.layer_drop).item())

    def _sublayer(
        self, x: ft.Array, norm: Module, function: Callable[[ft.Array], ft.Array]
    ) -> ft.Array:
        branch = self.dropout(function(norm(x) if self.norm_first else x))
        x = x + (branch if self.drop_path is None else self.drop_path(branch))
        return x if self.norm_first else norm(x)

    def _feed_forward(self, x: ft.Array) -> ft.Array:
        return self.linear2(self.dropout(ACTIVATIONS[self.activation](self.linear1(x))))

    def extra_repr(self) -> str:
        return f"activation={self.activation}, norm_first={self.norm_first}"


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network over x (batch, steps, size), each with dropout, a
    residual and LayerNorm: x = norm(x + f(x)), or with `norm_first` x = x + f(norm(x)).

    layer_drop  probability that training leaves the whole layer out
    causal      no step ever sees a later one
    drop_path   probability that training leaves a residual branch out for a sample: see DropPath
    kv_heads, head_size, relative, rotary   as in MultiHeadAttention

    Parameters and defaults as PyTorch's TransformerEncoderLayer (always batch first): self_attn,
    linear1, linear2, norm1, norm2. Dropout also acts on attention weights, as there.
    """

    takes_lengths = True

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        layer_drop: float = 0.0,
        kv_heads: int | None = None,
        head_size: int | None = None,
        relative: int = 0,
        rotary: float | None = None,
        causal: bool = False,
        drop_path: float = 0.0,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.causal = causal
        self.self_attn = MultiHeadAttention(
            size, heads, dropout, bias, kv_heads, head_size, relative, rotary, **options
        )
        super().__init__(
            size, hidden, dropout, activation, norm_first, layer_drop, bias, options, drop_path
        )
        self.norm1 = LayerNorm(size, eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(size, eps, bias=bias, dtype=dtype)

    def forward(
        self,
        x: ft.Array,
        mask: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        causal: bool = False,
        cache: Cache | None = None,
        lengths: Lengths | None = None,
        positions: ft.Array | None = None,
    ) -> ft.Array:
        """Masks and cache as in MultiHeadAttention; `lengths` as in Sequential, in place of
        `key_mask`. `positions`, which broadcasts to x, is added to queries and keys, not to values:
        Carion et al., 2020."""
        if self._skipped():
            return x
        causal = causal or self.causal
        key_mask = padding_mask("TransformerEncoderLayer", x, key_mask, lengths)

        def attend(x: ft.Array) -> ft.Array:
            inputs = _inputs(x, positions)
            return self.self_attn(*inputs, mask=mask, key_mask=key_mask, causal=causal, cache=cache)

        x = self._sublayer(x, self.norm1, attend)
        return self._sublayer(x, self.norm2, self._feed_forward)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to `memory`, and a feed-forward network, each with dropout, a
    residual and LayerNorm as in TransformerEncoderLayer.

    kv_heads    as in MultiHeadAttention, of both attentions

    Parameters and defaults as PyTorch's TransformerDecoderLayer (always batch first): self_attn,
    multihead_attn, linear1, linear2, norm1, norm2, norm3.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        hidden: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        layer_drop: float = 0.0,
        kv_heads: int | None = None,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.self_attn = MultiHeadAttention(size, heads, dropout, bias, kv_heads, **options)
        self.multihead_attn = MultiHeadAttention(size, heads, dropout, bias, kv_heads, **options)
        super().__init__(size, hidden, dropout, activation, norm_first, layer_drop, bias, options)
        self.norm1 = LayerNorm(size, eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(size, eps, bias=bias, dtype=dtype)
        self.norm3 = LayerNorm(size, eps, bias=bias, dtype=dtype)

    def forward(
        self,
        x: ft.Array,
        memory: ft.Array,
        mask: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        memory_mask: ft.Array | None = None,
        memory_key_mask: ft.Array | None = None,
        causal: bool = False,
        cache: Cache | None = None,
        positions: ft.Array | None = None,
        memory_positions: ft.Array | None = None,
    ) -> ft.Array:
        """x (batch, T, size) and memory (batch, S, size) give (batch, T, size). Masks as in
        MultiHeadAttention, the first two for self-attention; so is the cache.

        `positions` are added to queries and keys of self-attention and to queries of the attention
        to memory, `memory_positions` to its keys; values have none. Carion et al., 2020."""
        if self._skipped():
            return x

        def attend(x: ft.Array) -> ft.Array:
            inputs = _inputs(x, positions)
            return self.self_attn(*inputs, mask=mask, key_mask=key_mask, causal=causal, cache=cache)

        def look(x: ft.Array) -> ft.Array:
            query = x if positions is None else x + positions
            key = memory if memory_positions is None else memory + memory_positions
            return self.multihead_attn(
                query, key, memory, mask=memory_mask, key_mask=memory_key_mask
            )

        x = self._sublayer(x, self.norm1, attend)
        x = self._sublayer(x, self.norm2, look)
        return self._sublayer(x, self.norm3, self._feed_forward)


def _inputs(x: ft.Array, positions: ft.Array | None) -> tuple[ft.Array, ...]:
    # Of self-attention: x alone, or queries, keys and values.
    if positions is None:
        return (x,)
    placed = x + positions
    return placed, placed, x
