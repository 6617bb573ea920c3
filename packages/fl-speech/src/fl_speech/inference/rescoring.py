"""Rescoring: another order of n-best lists, by another language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Scored(NamedTuple):
    """A hypothesis of an n-best list: its words, the score of the search and its parts, and what
    rescoring made of it."""

    words: list[str]
    score: float
    emitting_score: float
    lm_score: float
    rescored: float = math.nan

    @property
    def best(self) -> float:
        """The score that the list is in the order of."""
        return self.score if math.isnan(self.rescored) else self.rescored


def sentence_scores(lm: Any) -> Callable[[list[str]], Sequence[float]]:
    """The function of a language model that gives log10 p of sentences: `score_sentences`, as an
    `NGramModel` has it, or the model itself, if it is such a function."""
    found: Callable[[list[str]], Sequence[float]] = getattr(lm, "score_sentences", lm)
    return found


def rescore(
    hypotheses: Sequence[Scored], lm: Any, weight: float, word_score: float = 0.0
) -> list[Scored]:
    """The hypotheses by `score + weight * log10 p(words) + word_score * words`, best first; equal
    ones stay in their order, so that a weight of 0 changes none.

    lm   has `score_sentences(sentences) -> log10 p`, or is such a function: any model
    """
    if not hypotheses:
        return []
    known = sentence_scores(lm)([" ".join(each.words) for each in hypotheses])
    rated = [
        each._replace(
            rescored=each.score
            + (weight * float(score) if weight else 0.0)
            + word_score * len(each.words)
        )
        for each, score in zip(hypotheses, known, strict=True)
    ]
    return sorted(rated, key=lambda each: -each.rescored)
