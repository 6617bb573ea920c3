"""Changes of scores before a token is chosen.

A processor is a callable of scores (rows, vocabulary) and the tokens so far. These are a list for
each row, with its prompt. It gives scores of the same shape. A score of -inf forbids a token.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import fl_tensor as ft
from fl_text.errors import TextError

LogitsProcessor: TypeAlias = Callable[[ft.Array, list[list[int]]], ft.Array]


@dataclass(frozen=True)
class RepetitionPenalty:
    """Positive scores of tokens that occurred are divided by `penalty`, negative ones multiplied.
    Keskar et al., CTRL, 2019. Above 1 repetition is less likely."""

    penalty: float

    def __post_init__(self) -> None:
        _check("repetition_penalty", self.penalty, above=0.0)

    def __call__(self, scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
        size = scores.shape[1]
        seen = [row * size + token for row, ids in enumerate(tokens) for token in sorted(set(ids))]
        places = ft.asarray(seen, ft.int64, scores.device, scores.backend)
        flat = scores.reshape(-1)
        known = ft.gather(flat, places, 0)
        known = ft.where(known < 0, known * self.penalty, known / self.penalty)
        return ft.scatter(flat, places, known, 0).reshape(scores.shape)


@dataclass(frozen=True)
class Temperature:
    """Scores over `temperature`: below 1 likely tokens become likelier."""

    temperature: float

    def __post_init__(self) -> None:
        _check("temperature", self.temperature, above=0.0)

    def __call__(self, scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
        return scores / self.temperature


@dataclass(frozen=True)
class TopK:
    """The `k` most likely tokens, and those as likely as the last of them. Fan et al., 2018."""

    k: int

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise TextError(f"[generate] top_k={self.k!r}: an integer of at least 1, 0 for all")

    def __call__(self, scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
        least = ft.topk(scores, min(self.k, scores.shape[1]), -1)[0][:, -1:]
        return ft.where(scores < least, -math.inf, scores)


@dataclass(frozen=True)
class TopP:
    """The nucleus: the smallest set of tokens with a probability of at least `p` together. Tokens
    as likely as its last one stay too. Holtzman et al., 2020."""

    p: float

    def __post_init__(self) -> None:
        _check("top_p", self.p, above=0.0, most=1.0)

    def __call__(self, scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
        ascending = ft.sort(scores, -1)
        below = ft.cumulative_sum(ft.softmax(ascending, -1), -1) <= 1.0 - self.p
        # All are below where p is tiny, and the sum less than 1 by rounding.
        least = ft.min(ft.where(below, math.inf, ascending), -1, keepdims=True)
        least = ft.minimum(least, ascending[:, -1:])
        return ft.where(scores < least, -math.inf, scores)


@dataclass(frozen=True)
class MinP:
    """Tokens with at least `p` times the probability of the likeliest. Nguyen et al., 2024."""

    p: float

    def __post_init__(self) -> None:
        _check("min_p", self.p, above=0.0, most=1.0)

    def __call__(self, scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
        least = ft.max(scores, -1, keepdims=True) + math.log(self.p)
        return ft.where(scores < least, -math.inf, scores)


def built_in(
    temperature: float, top_k: int, top_p: float, min_p: float, repetition_penalty: float
) -> list[LogitsProcessor]:
    """The processors of these settings, in the order in which transformers has them."""
    _check("temperature", temperature, least=0.0)
    _check("top_p", top_p, above=0.0, most=1.0)
    _check("min_p", min_p, least=0.0, most=1.0)
    found: list[LogitsProcessor] = []
    if repetition_penalty != 1.0:
        found.append(RepetitionPenalty(repetition_penalty))
    if temperature not in (0.0, 1.0):
        found.append(Temperature(temperature))
    if top_k != 0:
        found.append(TopK(top_k))
    if top_p != 1.0:
        found.append(TopP(top_p))
    if min_p != 0.0:
        found.append(MinP(min_p))
    return found


def apply(processors: list[LogitsProcessor], scores: ft.Array, tokens: list[list[int]]) -> ft.Array:
    """Scores after all processors; raises `TextError` where one changes the shape."""
    for processor in processors:
        found = processor(scores, tokens)
        if not isinstance(found, ft.Array) or found.shape != scores.shape:
            what = f"an array {found.shape}" if isinstance(found, ft.Array) else repr(type(found))
            raise TextError(
                f"[generate] the processor {processor!r} gave {what} for scores {scores.shape}: "
                "return an array of the shape of the scores"
            )
        scores = found
    return scores


def _check(
    name: str,
    value: float,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and above < value <= most and value >= least:
        return
    bounds = [f"above {above}"] if above > -math.inf else []
    bounds += [f"at least {least}"] if least > -math.inf else []
    bounds += [f"at most {most}"] if most < math.inf else []
    raise TextError(f"[generate] {name}={value!r}: expected a number {' and '.join(bounds)}")
