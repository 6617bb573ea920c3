"""Attention by location: scores also depend on where the step before looked.

Chorowski et al., 2015. A convolution over the weights of the step before adds to the scores, so
that a call has one step. In the first step there is nothing to add.
"""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria.attention.base import Attention, Memory, key_value_halves
from fl_speech.criteria.attention.content import at_least_one, products, same_size


class SimpleLocationAttention(Attention):
    """Scores are products of state and frame, plus relu of a convolution of the weights before.

    kernel  frames that the convolution sees

    Raises ModuleError for a kernel below 1.
    """

    stepwise = True

    def __init__(
        self,
        kernel: int,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        at_least_one("SimpleLocationAttention", kernel=kernel)
        self.conv = _convolution(1, kernel, generator, dtype)

    def memory(self, encoded: ft.Array) -> Memory:
        return _memory(type(self).__name__, encoded, None)

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        same_size(type(self).__name__, state, keys)
        scores = products(state, keys)
        if previous is None:
            return scores
        return scores + ft.expand_dims(ft.relu(self.conv(previous)), 1)


class LocationAttention(Attention):
    """Scores are products of a state with the sum of a frame and relu of a convolution, to `size`
    channels, of the weights before.

    size    features of states and frames
    kernel  frames that the convolution sees

    Raises ModuleError for a number below 1.
    """

    stepwise = True

    def __init__(
        self,
        size: int,
        kernel: int,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        at_least_one("LocationAttention", size=size, kernel=kernel)
        self.size = size
        self.conv = _convolution(size, kernel, generator, dtype)

    def memory(self, encoded: ft.Array) -> Memory:
        return _memory("LocationAttention", encoded, self.size)

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        same_size("LocationAttention", state, keys)
        scores = products(state, keys)
        if previous is None:
            return scores
        added = ft.matmul(state, ft.relu(self.conv(previous)))  # (B, 1, H) times (B, H, T)
        return scores + ft.expand_dims(added, 1)


class NeuralLocationAttention(Attention):
    """Scores are `w tanh(V h + W s + U f)` of frame h, state s and f, a convolution of the weights
    before: the location-aware attention of Chorowski et al., 2015.

    size      features of states and frames
    hidden    features of the sum
    channels  of the convolution
    kernel    frames that the convolution sees

    Raises ModuleError for a number below 1.
    """

    stepwise = True

    def __init__(
        self,
        size: int,
        hidden: int,
        channels: int,
        kernel: int,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        at_least_one(
            "NeuralLocationAttention", size=size, hidden=hidden, channels=channels, kernel=kernel
        )
        self.size = size
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.of_frame = nn.Linear(size, hidden, **options)
        self.of_state = nn.Linear(size, hidden, bias=False, **options)
        self.conv = _convolution(channels, kernel, generator, dtype)
        self.of_place = nn.Linear(channels, hidden, bias=False, **options)
        self.out = nn.Linear(hidden, 1, bias=False, **options)

    def memory(self, encoded: ft.Array) -> Memory:
        values = _memory("NeuralLocationAttention", encoded, self.size).values
        return Memory(self.of_frame(values), values)

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        if state.shape[-1] != self.size:
            raise ft.ShapeError(
                f"[NeuralLocationAttention] state {state.shape}: expected {self.size} features"
            )
        hidden = keys + ft.expand_dims(self.of_state(state), 1)  # (B, 1, T, hidden)
        if previous is not None:
            places = self.of_place(ft.swapaxes(self.conv(previous), 1, 2))
            hidden = hidden + ft.expand_dims(places, 1)
        return ft.swapaxes(self.out(ft.tanh(hidden)), -1, -2)


def _convolution(
    channels: int, kernel: int, generator: ft.Generator | None, dtype: ft.DType | None
) -> nn.Conv1D:
    return nn.Conv1D(1, channels, kernel, padding="same", generator=generator, dtype=dtype)


def _memory(name: str, encoded: ft.Array, size: int | None) -> Memory:
    keys, values = key_value_halves(name, encoded, size, False)
    return Memory(ft.expand_dims(keys, 1), ft.expand_dims(values, 1))
