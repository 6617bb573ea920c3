"""The choice of hidden tokens and of what replaces them, for whole batches."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from typing import NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array


class Masking(NamedTuple):
    """Settings of a `TokenMasking`. `special` has 1 at the numbers of special tokens."""

    special: Array[ft.uint8]
    ordinary: Array[ft.int64]
    mask: int
    mask_prob: float
    random_prob: float
    same_prob: float
    least: int


@ft.kernel
def draw(state: Array[ft.int64]) -> float:
    """The next number in [0, 1) of a stream (SplitMix64: Steele et al., 2014)."""
    state[0] += 0x9E3779B97F4A7C15
    z = state[0]
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * 0xBF58476D1CE4E5B9
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * 0x94D049BB133111EB
    z = z ^ ((z >> 31) & 0x1FFFFFFFF)
    return ((z >> 11) & 0x1FFFFFFFFFFFFF) / 9007199254740992.0


@ft.kernel
def is_special(settings: Masking, token: int) -> bool:
    return 0 <= token < len(settings.special) and settings.special[token] != 0


@ft.kernel
def hide(
    settings: Masking,
    tokens: Array[ft.int64],
    targets: Array[ft.int64],
    place: int,
    state: Array[ft.int64],
) -> None:
    """Make a token a target, and replace it, or not."""
    targets[place] = tokens[place]
    kind = draw(state)
    other = draw(state)
    if kind < settings.random_prob:
        tokens[place] = settings.ordinary[int(other * len(settings.ordinary))]
    elif kind >= settings.random_prob + settings.same_prob:
        tokens[place] = settings.mask


@ft.kernel
def hide_in_run(
    settings: Masking,
    tokens: Array[ft.int64],
    targets: Array[ft.int64],
    start: int,
    size: int,
    chosen: Array[ft.uint8],
    state: Array[ft.int64],
) -> None:
    """Hide spans that do not overlap in a run of `size` tokens.

    Of `n` tokens, `k` spans of `m` are as `k` of `n - k (m - 1)` places, each then widened to `m`:
    every choice is as likely. The places are drawn as R. Floyd does (Bentley, Programming pearls: a
    sample of brilliance, 1987). `chosen` is 0 in the beginning and the end.
    """
    least = settings.least
    count = min(int(settings.mask_prob * size / least + draw(state)), size // least)
    slots = size - count * (least - 1)
    for last in range(slots - count, slots):
        number = int(draw(state) * (last + 1))
        if chosen[number]:
            number = last
        chosen[number] = 1
    first = start
    for slot in range(slots):
        if chosen[slot]:
            chosen[slot] = 0
            for place in range(first, first + least):
                hide(settings, tokens, targets, place, state)
            first += least
        else:
            first += 1


@ft.kernel
def mask_rows(
    settings: Masking,
    tokens: Array[ft.int64],
    targets: Array[ft.int64],
    seeds: Array[ft.int64],
    chosen: Array[ft.uint8],
    state: Array[ft.int64],
) -> None:
    """Hide tokens of (rows, width) `tokens` in place. `targets` gets those that were hidden, and
    stays as it is elsewhere. Each row has a seed; `chosen` has `width` zeros, `state` one number.
    """
    width = len(tokens) // len(seeds)
    for row in range(len(seeds)):
        state[0] = seeds[row]
        start = row * width
        for place in range(row * width, (row + 1) * width):
            if is_special(settings, tokens[place]):
                if place > start:
                    size = place - start
                    hide_in_run(settings, tokens, targets, start, size, chosen, state)
                start = place + 1
        size = (row + 1) * width - start
        if size > 0:
            hide_in_run(settings, tokens, targets, start, size, chosen, state)
