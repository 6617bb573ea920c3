"""Attention as a function, and multi-head attention as a layer."""

from __future__ import annotations

import math
import sys
from typing import Any

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError, UnpackingError
from fl_nn.layers.cache import Cache, CacheStep
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.layers.positions import RelativePositionEmbedding, RotaryEmbedding
from fl_nn.layers.unpacking import is_unpacked
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_tensor.annotations import explained


@explained
def attention(
    q: ft.Array,
    k: ft.Array,
    v: ft.Array,
    mask: ft.Array | None = None,
    causal: bool = False,
    scale: float | None = None,
    bias: ft.Array | None = None,
    dropout: Dropout | None = None,
) -> ft.Array:
    """`softmax(q k^T * scale + bias) v`: for every query a mean of values. Vaswani et al., 2017.

    q        (batch, heads, T, size)
    k, v     (batch, kv_heads, S, size) and (batch, kv_heads, S, any); kv_heads divides heads, and
             each serves as many heads in a row (grouped queries: Ainslie et al., 2023)
    mask     bool: True where a query may look; or floating: added to the scores, -inf to forbid.
             Broadcasts to (batch, heads, T, S)
    causal   a query sees no later key; the last query stands at the last key
    scale    1 / sqrt(size) unless given
    bias     added to the scores, (batch, heads, T, S) or what broadcasts to it
    dropout  a layer whose factors the weights are multiplied with

    Gives (batch, heads, T, any). A query that may look nowhere gets zeros. One operation,
    `ft.attention`, which a backend may have its own way for.
    """
    allowed = None
    if mask is not None and not mask.dtype.is_floating:
        allowed = mask.astype(ft.bool)
    elif mask is not None:
        bias = mask if bias is None else bias + mask
    keep = None
    if dropout is not None:
        keep = dropout.factors((*q.shape[:3], k.shape[2]), q)
    return ft.attention(q, k, v, bias, allowed, keep, causal, scale)


class MultiHeadAttention(Module):
    """Attention of `heads` heads over projections of x (batch, steps, size). Vaswani et al., 2017.

    kv_heads   heads of keys and values, each shared by heads / kv_heads query heads in a row
               (grouped queries: Ainslie et al., 2023); `heads` unless given
    head_size  size / heads unless given
    relative   reach of learned relative positions, shared by all heads; 0 for none
    rotary     base of rotary positions of queries and keys; None for none
    dropout    of the attention weights
    groups     another name for kv_heads

    Parameters as PyTorch's MultiheadAttention with batch_first=True: in_proj_weight, the rows of
    queries, keys and values one below the other, in_proj_bias, out_proj.weight, out_proj.bias, and
    the same initial values (Glorot's, biases zero). Two things differ: a bool mask is True where
    attention may go, and the result is the output alone, without weights.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kv_heads: int | None = None,
        head_size: int | None = None,
        relative: int = 0,
        rotary: float | None = None,
        *,
        groups: int | None = None,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if groups is not None and kv_heads is not None:
            raise ModuleError("[MultiHeadAttention] kv_heads and groups are one: give either")
        kv_heads = groups if kv_heads is None else kv_heads
        kv_heads = heads if kv_heads is None else kv_heads
        if min(size, heads, kv_heads) < 1 or heads % kv_heads:
            raise ModuleError(
                f"[MultiHeadAttention] size {size}, {heads} heads, {kv_heads} kv_heads: all at "
                "least 1, and kv_heads must divide heads"
            )
        if head_size is None and size % heads:
            raise ModuleError(
                f"[MultiHeadAttention] size {size} does not divide into {heads} heads; give another"
                " number of heads, or head_size"
            )
        self.size, self.heads, self.kv_heads = size, heads, kv_heads
        self.head_size = size // heads if head_size is None else head_size
        inner, shared = heads * self.head_size, kv_heads * self.head_size
        shape = (inner + 2 * shared, size)
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.in_proj_weight = Parameter(init.glorot_uniform(shape, **options))
        self.in_proj_bias = Parameter(init.constant(shape[:1], 0.0, dtype=dtype)) if bias else None
        self.out_proj = Linear(inner, size, bias, **options)
        if self.out_proj.bias is not None:
            self.out_proj.bias.tensor = ft.zeros_like(self.out_proj.bias.tensor)
        self.dropout = Dropout(dropout)
        self.relative = (
            RelativePositionEmbedding(relative, self.head_size, **options) if relative else None
        )
        self.rotary = None if rotary is None else RotaryEmbedding(self.head_size, rotary)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """`forward`. Raises UnpackingError for ``y, weights = layer(x)``, which would divide the
        batch."""
        if is_unpacked(sys._getframe(1)):
            raise UnpackingError(
                "[MultiHeadAttention] the result is one array, the output, without weights: write "
                "y = layer(query, key, value); for the elements of a batch ft.unstack(y)"
            )
        return super().__call__(*inputs, **options)

    def forward(
        self,
        query: ft.Array,
        key: ft.Array | None = None,
        value: ft.Array | None = None,
        mask: ft.Array | None = None,
        key_mask: ft.Array | None = None,
        causal: bool = False,
        cache: Cache | None = None,
    ) -> ft.Array:
        """Attention of `query` (batch, T, size) to `key` and `value` (batch, S, size); to itself
        when they are absent, and `value` is `key` unless given.

        mask      as in `attention`: bool or floating, broadcasts to (batch, heads, T, S)
        key_mask  (batch, S) bool: False for keys that are padding
        causal    no query sees a later key
        cache     keys and values of earlier steps of this layer; the new ones are added to it

        Gives (batch, T, size).
        """
        itself = key is None
        key = query if key is None else key
        value = key if value is None else value
        for name, x in (("query", query), ("key", key), ("value", value)):
            if x.ndim != 3 or x.shape[-1] != self.size:
                raise ft.ShapeError(
                    f"[MultiHeadAttention] {name} {x.shape}: expected (batch, steps, {self.size})"
                )
        q, k, v = self._project(query, key, value, itself and value is key)
        before: Any = 0 if cache is None else cache.steps
        if self.rotary is not None:
            q, k = self.rotary(q, before), self.rotary(k, before)
        scale = 1.0 / math.sqrt(self.head_size)
        if isinstance(cache, CacheStep):
            if mask is not None or key_mask is not None or self.relative is not None:
                raise ModuleError(
                    "[MultiHeadAttention] a CacheStep has its mask in `visible`, and no relative "
                    "positions: leave mask and key_mask out, or give a KVCache"
                )
            return self._joined(cache.attention(q, k, v, scale, causal))
        if cache is not None:
            k, v = cache.append(k, v)
        bias = None
        if self.relative is not None:
            bias = self.relative(q * scale, k.shape[2], before)
        if key_mask is not None:
            mask = _with_keys(mask, key_mask, k.shape[2])
        return self._joined(attention(q, k, v, mask, causal, scale, bias, self.dropout))

    def _joined(self, mixed: ft.Array) -> ft.Array:
        n, heads, steps, size = mixed.shape
        return self.out_proj(ft.swapaxes(mixed, 1, 2).reshape(n, steps, heads * size))

    def _project(
        self, query: ft.Array, key: ft.Array, value: ft.Array, itself: bool
    ) -> tuple[ft.Array, ft.Array, ft.Array]:
        inner, shared = self.heads * self.head_size, self.kv_heads * self.head_size
        sizes = (inner, shared, shared)
        if itself:
            together = ft.linear(query, self.in_proj_weight, self.in_proj_bias)
            q, k, v = ft.split(together, sizes, -1)
        else:
            weights = ft.split(self.in_proj_weight, sizes, 0)
            biases: list[Any] = [None] * 3
            if self.in_proj_bias is not None:
                biases = ft.split(self.in_proj_bias, sizes, 0)
            q, k, v = map(ft.linear, (query, key, value), weights, biases)
        return self._heads(q), self._heads(k), self._heads(v)

    def _heads(self, x: ft.Array) -> ft.Array:
        n, steps, inner = x.shape
        return ft.swapaxes(x.reshape(n, steps, inner // self.head_size, self.head_size), 1, 2)

    def extra_repr(self) -> str:
        text = f"{self.size}, {self.heads}"
        if self.kv_heads != self.heads:
            text += f", kv_heads={self.kv_heads}"
        return text + ("" if self.in_proj_bias is not None else ", bias=False")


def _with_keys(mask: ft.Array | None, key_mask: ft.Array, keys: int) -> ft.Array:
    if key_mask.ndim != 2 or key_mask.shape[1] != keys or key_mask.dtype is not ft.bool:
        raise ft.ShapeError(
            f"[MultiHeadAttention] key_mask {key_mask.shape} of {key_mask.dtype}: expected bool "
            f"(batch, {keys}), with the keys in the cache"
        )
    known = key_mask[:, None, None, :]
    if mask is None:
        return known
    if mask.dtype.is_floating:
        return ft.where(known, mask, -math.inf)
    return ft.logical_and(mask.astype(ft.bool), known)
