"""Distributions from which negative tokens are drawn."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_tensor.annotations import Checked, checked, explained
from fl_text.errors import TextError


class Proposal(Checked):
    """A distribution over tokens, to draw samples from: `weights` (tokens,), >= 0.

    At least one weight is above 0. Raises `TextError` for others.
    """

    def __init__(self, weights: Any) -> None:
        weights = ft.asarray(weights, ft.float64)
        if weights.ndim != 1 or not weights.shape[0]:
            raise TextError(f"[Proposal] weights {weights.shape}: expected one axis, of all tokens")
        good = ft.all(ft.logical_and(weights >= 0.0, ft.isfinite(weights)))
        if not good.item() or ft.sum(weights).item() <= 0.0:
            raise TextError("[Proposal] weights: give finite numbers from 0 on, some above 0")
        self.tokens = weights.shape[0]
        self.probs = weights / ft.sum(weights)
        self.log_probs = ft.log(ft.maximum(self.probs, 1e-300)).astype(ft.float32)
        self.possible = int(ft.sum(self.probs > 0.0).item())
        self._cumulative = ft.cumsum(self.probs)

    def draw(self, count: int, generator: ft.Generator) -> ft.Tensor:
        """`count` tokens, int64, with replacement."""
        u = generator.uniform((count,), dtype=ft.float64)
        found = ft.searchsorted(self._cumulative, u * self._cumulative[-1], side="right")
        return ft.minimum(found, self.tokens - 1)

    def draw_distinct(self, count: int, generator: ft.Generator) -> tuple[ft.Tensor, ft.Tensor]:
        """`count` different tokens, int64, and the log of each one's probability to be among them.

        Bottom-k sampling: each token has an arrival time, exponential with the rate of its
        probability, and the first `count` are taken. The probability is given the time of the next
        arrival after these, so that sums over tokens, each divided by its own, have the right
        expectation (Cohen & Kaplan, Bottom-k sketches, 2007). All tokens have log-probability 0.
        """
        if count == self.tokens:
            every = ft.arange(self.tokens, dtype=ft.int64)
            return every, ft.zeros((count,), ft.float32)
        arrivals = generator.exponential(1.0, (self.tokens,), dtype=ft.float64) / ft.maximum(
            self.probs, 1e-300
        )
        times, order = ft.topk(arrivals, count + 1, largest=False)
        chosen = order[:count]
        rates = ft.gather(self.probs, chosen)
        return chosen, ft.log(-ft.expm1(-rates * times[count])).astype(ft.float32)

    def __repr__(self) -> str:
        return f"Proposal({self.tokens} tokens)"


@checked
def log_uniform(tokens: int) -> Proposal:
    """p(k) = log((k + 2) / (k + 1)) / log(tokens + 1), for tokens by falling frequency (Zipf)."""
    if tokens < 1:
        raise TextError(f"[log_uniform] tokens {tokens}: give at least 1")
    places = ft.arange(0, tokens, dtype=ft.float64)
    return Proposal(ft.log1p(1.0 / (places + 1.0)))


@explained
def unigram(counts: Any, power: float = 1.0) -> Proposal:
    """Frequencies from `counts` (tokens,), each to this `power`; 0.75 is usual for word vectors."""
    if not 0.0 <= power < math.inf:
        raise TextError(f"[unigram] power={power}: give a number from 0 on")
    counts = ft.asarray(counts, ft.float64)
    # 0 to the power 0 would be 1: a token that never came is not drawn.
    return Proposal(ft.where(counts > 0.0, counts**power, counts))
