"""Attention by content: a state is compared with every frame."""

from __future__ import annotations

import math

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria.attention.base import Attention, Memory, key_value_halves


class ContentAttention(Attention):
    """Scores are products of state and frame, divided by the root of their size. Luong et al.,
    2015; scaled as in Vaswani et al., 2017. It has no parameters.

    key_value  the first half of an encoder's features are keys, the second half values; otherwise
               all are both. The size of a key is that of a state
    """

    def __init__(self, key_value: bool = False) -> None:
        self.key_value = key_value

    def memory(self, encoded: ft.Array) -> Memory:
        keys, values = key_value_halves(type(self).__name__, encoded, None, self.key_value)
        return Memory(ft.expand_dims(keys, 1), ft.expand_dims(values, 1))

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        size = same_size(type(self).__name__, state, keys)
        return products(state, keys) * (1.0 / math.sqrt(size))

    def extra_repr(self) -> str:
        return "key_value=True" * self.key_value


class NeuralContentAttention(Attention):
    """Scores are a network of the sum of state and frame: relu, then `layers` - 1 times a Linear
    layer of `size` and relu, and a Linear layer to one number. After Bahdanau et al., 2015.

    State and frames have `size` features. Raises nn.ModuleError for a size or number below 1.
    """

    def __init__(
        self,
        size: int,
        layers: int = 1,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        at_least_one("NeuralContentAttention", size=size, layers=layers)
        self.size = size
        self.hidden = [
            nn.Linear(size, size, generator=generator, dtype=dtype) for _ in range(layers - 1)
        ]
        self.out = nn.Linear(size, 1, generator=generator, dtype=dtype)

    def memory(self, encoded: ft.Array) -> Memory:
        keys, values = key_value_halves("NeuralContentAttention", encoded, self.size, False)
        return Memory(ft.expand_dims(keys, 1), ft.expand_dims(values, 1))

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        same_size("NeuralContentAttention", state, keys)
        hidden = ft.relu(ft.expand_dims(state, 2) + keys)  # (B, U, T, size)
        for layer in self.hidden:
            hidden = ft.relu(layer(hidden))
        return ft.expand_dims(self.out(hidden)[..., 0], 1)

    def extra_repr(self) -> str:
        return f"{self.size}, layers={len(self.hidden) + 1}"


def products(state: ft.Array, keys: ft.Array) -> ft.Array:
    """Products of states (B, U, H) and keys (B, 1, T, H): (B, 1, U, T)."""
    return ft.matmul(ft.expand_dims(state, 1), ft.swapaxes(keys, -1, -2))


def same_size(name: str, state: ft.Array, keys: ft.Array) -> int:
    """The features of a key, as many as those of a state: ShapeError otherwise."""
    if state.shape[-1] != keys.shape[-1]:
        raise ft.ShapeError(
            f"[{name}] states have {state.shape[-1]} features and keys {keys.shape[-1]}: give an "
            "encoder as many outputs as the decoder has hidden features, twice as many for keys "
            "and values"
        )
    return keys.shape[-1]


def at_least_one(where: str, **numbers: int) -> None:
    """Raise nn.ModuleError for a number below 1."""
    if min(numbers.values()) < 1:
        given = ", ".join(f"{name}={value}" for name, value in numbers.items())
        raise nn.ModuleError(f"[{where}] {given}: all at least 1")
