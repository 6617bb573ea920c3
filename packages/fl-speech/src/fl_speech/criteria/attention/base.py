"""Attention: the base class, with masks of padding and windows."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import arange_like
from fl_speech.criteria.batch import Whole, check_emissions, frame_counts


class Memory(NamedTuple):
    """What an attention makes of an encoder's output once, for all steps of a decoder."""

    keys: ft.Array
    """(B, heads, T, any)"""
    values: ft.Array
    """(B, heads, T, any)"""


class Attention(nn.Module):
    """Base class: for each state of a decoder, weights over the frames of an encoder's output, and
    the mean of its frames with these weights.

    A subclass defines `memory` and `scores`.
    """

    #: Whether it looks at the weights of the step before, so that a call has a single step.
    stepwise: ClassVar[bool] = False
    heads: int = 1

    def forward(
        self,
        state: ft.Array,
        encoded: ft.Array,
        previous: ft.Array | None = None,
        log_weights: ft.Array | None = None,
        lengths: Whole | None = None,
    ) -> tuple[ft.Array, ft.Array]:
        """Weights (B, heads * U, T), those of a head one below the other, and summaries (B, U, H).

        state        (B, U, H): the decoder's states
        encoded      (B, T, width), or (1, T, width) for one that all states look at
        previous     (B, heads, T): the weights of the step before; None in the first step
        log_weights  (B, U, T), added to the scores: see `fl_speech.criteria.Window`
        lengths      (B,), 1 to T: the weights of later frames are zero

        Raises ShapeError, DTypeError, IndexingError.
        """
        check_emissions(type(self).__name__, encoded)
        mask = frame_mask(type(self).__name__, encoded, lengths)
        return self.attend(state, self.memory(encoded), previous, log_weights, mask)

    def memory(self, encoded: ft.Array) -> Memory:
        """Keys and values of an encoder's output (B, T, width)."""
        raise nn.ModuleError(f"{type(self).__name__} defines no memory(); write it")

    def scores(self, state: ft.Array, keys: ft.Array, previous: ft.Array | None) -> ft.Array:
        """How well states (B, U, H) fit keys (B, heads, T, any): (B, heads, U, T)."""
        raise nn.ModuleError(f"{type(self).__name__} defines no scores(); write it")

    def project(self, mixed: ft.Array) -> ft.Array:
        """Summaries of means of values (B, U, heads * any): as they are, unless redefined."""
        return mixed

    def attend(
        self,
        state: ft.Array,
        memory: Memory,
        previous: ft.Array | None = None,
        log_weights: ft.Array | None = None,
        mask: ft.Array | None = None,
    ) -> tuple[ft.Array, ft.Array]:
        """`forward`, of a `memory` and a bool mask (B, T) that is True for frames that count."""
        self._check(state, memory, previous, log_weights)
        scores = self.scores(state, memory.keys, previous)
        if log_weights is not None:
            scores = scores + ft.expand_dims(log_weights, 1).astype(scores.dtype)
        if mask is not None:
            scores = ft.where(ft.expand_dims(mask, (1, 2)), scores, -math.inf)
        weights = ft.softmax(scores, -1)
        mixed = ft.swapaxes(ft.matmul(weights, memory.values), 1, 2)
        batch, heads, steps, frames = weights.shape
        summaries = self.project(mixed.reshape(batch, steps, -1))
        return weights.reshape(batch, heads * steps, frames), summaries

    def _check(
        self,
        state: ft.Array,
        memory: Memory,
        previous: ft.Array | None,
        log_weights: ft.Array | None,
    ) -> None:
        name = type(self).__name__
        shared, _, frames, _ = memory.values.shape
        if state.ndim != 3 or shared not in (1, state.shape[0]):
            raise ft.ShapeError(
                f"[{name}] state {state.shape} for an encoder's output of {shared} samples: give "
                "(batch, steps, size), a row for each sample"
            )
        batch, steps, _ = state.shape
        if self.stepwise and steps != 1:
            raise ft.ShapeError(
                f"[{name}] state {state.shape}: it looks at the weights of the step before, so "
                "give one step in a call, (batch, 1, size)"
            )
        if previous is not None and previous.shape != (batch, self.heads, frames):
            raise ft.ShapeError(
                f"[{name}] previous {previous.shape}: expected the weights of one step, "
                f"({batch}, {self.heads}, {frames})"
            )
        if log_weights is not None and log_weights.shape != (batch, steps, frames):
            raise ft.ShapeError(
                f"[{name}] log_weights {log_weights.shape}: expected ({batch}, {steps}, {frames})"
            )


def frame_mask(where: str, encoded: ft.Array, lengths: Whole | None) -> ft.Array | None:
    """True for the frames of each sample, (B, T); None where all count. Raises ShapeError for a
    sample without frames, which nothing can look at, and as `frame_counts`."""
    counts = frame_counts(where, encoded, lengths)
    empty = counts < 1
    if empty.any():
        raise ft.ShapeError(
            f"[{where}] sample {int(empty.argmax())} has no frames: leave it out of the batch"
        )
    frames = encoded.shape[1]
    if (counts == frames).all():
        return None
    ends = ft.asarray(counts, ft.int64, encoded.device, encoded.backend)
    return arange_like(encoded, 0, frames, ft.int64) < ft.expand_dims(ends, 1)


def key_value_halves(name: str, encoded: ft.Array, size: int | None, key_value: bool) -> Memory:
    """Keys and values (B, T, size): halves of the encoder's output, or both all of it."""
    width = encoded.shape[-1]
    expected = None if size is None else size * (1 + key_value)
    if (expected is not None and width != expected) or (key_value and width % 2):
        wanted = "an even number of" if expected is None else expected
        raise ft.ShapeError(
            f"[{name}] an encoder's output {encoded.shape}: expected {wanted} features, "
            + ("keys and values side by side" if key_value else "those of a state")
        )
    if not key_value:
        return Memory(encoded, encoded)
    return Memory(encoded[..., : width // 2], encoded[..., width // 2 :])
