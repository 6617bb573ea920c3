"""Attention of several heads by content."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria.attention.base import Attention, Memory, key_value_halves
from fl_speech.criteria.attention.content import at_least_one


class MultiHeadContentAttention(Attention):
    """`heads` scaled products of states and frames, each in its own part of their features.
    Vaswani et al., 2017.

    size       features of a state
    key_value  the first half of an encoder's features are keys, the second half values
    split      the parts are slices of state and frames; otherwise of Linear layers of them

    A last Linear layer makes the summaries. Raises nn.ModuleError unless `heads` divides `size`.
    """

    def __init__(
        self,
        size: int,
        heads: int = 8,
        key_value: bool = False,
        split: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        at_least_one("MultiHeadContentAttention", size=size, heads=heads)
        if size % heads:
            raise nn.ModuleError(
                f"[MultiHeadContentAttention] size {size} does not divide into {heads} heads: give "
                "another number of heads"
            )
        self.size, self.heads, self.key_value, self.split = size, heads, key_value, split
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.query = None if split else nn.Linear(size, size, **options)
        self.key = None if split else nn.Linear(size, size, **options)
        self.value = None if split else nn.Linear(size, size, **options)
        self.out = nn.Linear(size, size, **options)

    def memory(self, encoded: ft.Array) -> Memory:
        name = "MultiHeadContentAttention"
        keys, values = key_value_halves(name, encoded, self.size, self.key_value)
        return Memory(self._parts(keys, self.key), self._parts(values, self.value))

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        if state.shape[-1] != self.size:
            raise ft.ShapeError(
                f"[MultiHeadContentAttention] state {state.shape}: expected {self.size} features"
            )
        query = self._parts(state, self.query) * (1.0 / math.sqrt(self.size // self.heads))
        return ft.matmul(query, ft.swapaxes(keys, -1, -2))

    def project(self, mixed: ft.Array) -> ft.Array:
        return self.out(mixed)

    def _parts(self, x: ft.Array, layer: nn.Linear | None) -> ft.Array:
        x = x if layer is None else layer(x)
        batch, steps, _ = x.shape
        return ft.swapaxes(x.reshape(batch, steps, self.heads, -1), 1, 2)

    def extra_repr(self) -> str:
        text = f"{self.size}, {self.heads}"
        return text + ", key_value=True" * self.key_value + ", split=True" * self.split
