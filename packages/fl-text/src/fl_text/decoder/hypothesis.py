"""Hypotheses: scores, words, tokens, and when each word was said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np


class Span(NamedTuple):
    """A word (or, without a lexicon, a token) in time: frames ``start`` to ``end - 1``.

    ``confidence`` is the probability, within the n-best list, of the hypotheses that have the same
    word in at least one of these frames.
    """

    label: int
    text: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One transcript of an utterance.

    ``score`` is ``emitting_score + lm_weight * lm_score`` with the scores of words and silences.
    With ``log_add`` it also has the probability of the hypotheses that were merged with this one.
    """

    score: float
    #: Emissions and, for ASG, transitions.
    emitting_score: float
    #: The language model's log10 probability, without weight.
    lm_score: float
    #: Numbers of the words, in order; none without a lexicon.
    words: Sequence[int]
    #: A token for each frame, or each output of a sequence-to-sequence model.
    tokens: Sequence[int]
    #: Softmax of the scores over the whole n-best list.
    confidence: float = math.nan
    _paths: Paths | None = field(default=None, repr=False)
    _rank: int = field(default=0, repr=False)

    @property
    def text(self) -> str:
        """The words with blanks between them; without a lexicon, the tokens of ``spans``."""
        return "" if self._paths is None else self._paths.text(self._rank)

    @property
    def spans(self) -> tuple[Span, ...]:
        """When each word was said, and how certain it is; empty where that is not known."""
        return () if self._paths is None else self._paths.spans(self._rank)


#: Label, first frame, frame behind the last.
Run = tuple[int, int, int]


class Labelling(Protocol):
    """How the frames of a path become labels: words of a lexicon, or tokens."""

    def runs(self, tokens: np.ndarray, words: np.ndarray, before: int) -> list[Run]:
        """The labels of a path in time; ``before`` is the token of the frame before it."""
        ...

    def settled(self, tokens: np.ndarray, words: np.ndarray) -> int:
        """How many frames of a path no label in progress needs."""
        ...

    def name(self, label: int) -> str: ...

    def join(self, names: Sequence[str]) -> str: ...


@dataclass(frozen=True, eq=False)
class Paths:
    """An n-best list by frame: int32 (hypotheses, frames) tokens, and words where they end."""

    tokens: np.ndarray
    words: np.ndarray
    confidence: np.ndarray
    start: int
    before: int
    labelling: Labelling

    def text(self, rank: int) -> str:
        runs = self._runs_of(rank)
        return self.labelling.join([self.labelling.name(label) for label, _, _ in runs])

    def spans(self, rank: int) -> tuple[Span, ...]:
        return tuple(
            Span(
                label,
                self.labelling.name(label),
                self.start + one,
                self.start + end,
                self._agreeing(label, one, end),
            )
            for label, one, end in self._runs[rank]
        )

    @cached_property
    def _runs(self) -> list[list[Run]]:
        return [self._runs_of(rank) for rank in range(len(self.tokens))]

    def _runs_of(self, rank: int) -> list[Run]:
        return self.labelling.runs(self.tokens[rank], self.words[rank], self.before)

    def _agreeing(self, label: int, one: int, end: int) -> float:
        agree = [
            any(other == label and a < end and one < b for other, a, b in runs)
            for runs in self._runs
        ]
        return float(min(1.0, self.confidence[agree].sum()))
