"""Where a search gets scores of words from: nowhere, n-gram tables, or any `LanguageModel`.

Kernels read n-gram tables. Any other model is asked after each frame, in one call for all histories
that are new in the beam; its scores become rows that kernels read.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol, TypeAlias

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_text.decoder.records import NGRAM, NO_MODEL, ROWS, SIZE, Beam, History, Scores
from fl_text.errors import TextError
from fl_text.language_model import CheckedLM, LanguageModel, as_language_model
from fl_text.ngram import NGramModel, NGramTables
from fl_text.ngram.kernels import log_prob

#: What a decoder takes as language model.
AnyModel: TypeAlias = NGramModel | LanguageModel

_LOG10 = np.float32(1 / np.log(10))
#: No n-gram has more words.
_LONGEST = 16
#: Scores of n-grams that a search remembers.
_CACHE = 1 << 16

_NO_NGRAM = NGramTables(
    np.full(1, -1, np.int64),
    np.zeros(1, np.float32),
    np.zeros(1, np.int32),
    np.zeros(1, np.float32),
    np.zeros(1, np.int32),
    np.zeros(1, np.float32),
    np.zeros(1, np.int32),
    1,
)


class Source(Protocol):
    """The language model of one search."""

    scores: Scores
    ngram: NGramTables

    def begin(self, history: History) -> None:
        """Gives the empty history, number 0, its state."""
        ...

    def after_frame(self, history: History, beam: Beam) -> None:
        """Fills in what kernels need for the histories that are new in the beam."""
        ...

    def finish(self, history: History, numbers: np.ndarray) -> np.ndarray:
        """log10 of the probability that each history ends here: float64."""
        ...

    def renumber(self, kept: np.ndarray) -> None:
        """History ``kept[k]`` becomes ``k``; the others are gone."""
        ...

    def end(self) -> None:
        """The search is over."""
        ...


@dataclass(frozen=True)
class Model:
    """A language model for the words (or tokens) of a decoder, which any number of searches ask."""

    source: Callable[[], Source]
    ceiling: float = 0.0  # no score is above it
    stops_each_frame: bool = False


def model_of(lm: AnyModel | None, names: Sequence[str]) -> Model:
    """The model for words of these names; raises TextError if it knows none of them."""
    if lm is None:
        return Model(NoSource)
    if isinstance(lm, NGramModel):
        return _ngram(lm, names)
    model, turn = as_language_model(lm, names), Lock()
    return Model(lambda: RowSource(model, turn), math.inf, stops_each_frame=True)


class NoSource:
    """No language model: every score is 0."""

    ngram = _NO_NGRAM

    def __init__(self) -> None:
        self.scores = _scores(NO_MODEL)

    def begin(self, history: History) -> None:
        history.state[0] = 0

    def after_frame(self, history: History, beam: Beam) -> None:
        pass

    def finish(self, history: History, numbers: np.ndarray) -> np.ndarray:
        return np.zeros(len(numbers))

    def renumber(self, kept: np.ndarray) -> None:
        pass

    def end(self) -> None:
        pass


@ft.kernel
def _finish(g: NGramTables, states: Array[ft.int32], end: int, scores: Array[ft.float64]) -> None:
    for k in range(len(states)):
        scores[k] = log_prob(g, states[k], end)


class NGramSource(NoSource):
    """An n-gram model: kernels read its tables.

    ``words`` has the model's own word for each word of the decoder.
    """

    def __init__(self, tables: NGramTables, words: np.ndarray, start: int, end: int) -> None:
        self.ngram = tables
        self.start_state, self.end_word = start, end
        self.scores = _scores(
            NGRAM,
            word=words,
            cache_key=np.full(_CACHE, -1, np.int64),
            cache=np.zeros(_CACHE, np.float32),
        )

    def begin(self, history: History) -> None:
        history.state[0] = self.start_state

    def finish(self, history: History, numbers: np.ndarray) -> np.ndarray:
        scores = np.zeros(len(numbers))
        _finish(self.ngram, history.state[numbers], self.end_word, scores)
        return scores


class RowSource:
    """Any language model: a row of scores for each history of the beam.

    A history's state in the tables is the number of its row; the model's own handle of it is here.
    Searches in several threads ask the model in ``turn``.
    """

    ngram = _NO_NGRAM

    def __init__(self, model: CheckedLM, turn: Lock) -> None:
        self.model, self.turn, self.width = model, turn, model.vocabulary
        self.scores = _scores(ROWS, width=self.width)

    def begin(self, history: History) -> None:
        self.row_of: dict[int, int] = {}
        self.free: list[int] = []
        self.matrix = np.zeros((0, self.width), np.float32)
        with self.turn:
            self.handles = {0: self.model.start()}
            self._fill(history, [0])

    def after_frame(self, history: History, beam: Beam) -> None:
        alive = np.unique(beam.history[: beam.counts[SIZE]])
        new = [number for number in alive.tolist() if number not in self.handles]
        with self.turn:
            if new:
                parents = [self.handles[parent] for parent in history.parent[new].tolist()]
                words = history.word[new].astype(np.int64)
                handles = self.model.extend(np.array(parents, np.int64), words)
                self.handles.update(zip(new, handles.tolist(), strict=True))
            self._release(set(self.handles).difference(alive.tolist()))
            if new:
                self._fill(history, new)

    def finish(self, history: History, numbers: np.ndarray) -> np.ndarray:
        handles = np.array([self.handles[n] for n in numbers.tolist()], np.int64)
        with self.turn:
            return self.model.finish(handles).astype(np.float64) * _LOG10

    def renumber(self, kept: np.ndarray) -> None:
        with self.turn:
            self._release(set(self.handles).difference(kept.tolist()))
        place = {old: new for new, old in enumerate(kept.tolist())}
        self.handles = {place[old]: handle for old, handle in self.handles.items()}
        self.row_of = {place[old]: row for old, row in self.row_of.items()}

    def end(self) -> None:
        with self.turn:
            self._release(set(self.handles))

    def _release(self, numbers: set[int]) -> None:
        if numbers:
            handles = [self.handles.pop(number) for number in numbers]
            self.free += [self.row_of.pop(number) for number in numbers if number in self.row_of]
            self.model.release(np.array(handles, np.int64))

    def _fill(self, history: History, new: list[int]) -> None:
        """Rows of new histories, in rows of those that left the beam."""
        missing = len(new) - len(self.free)
        if missing > 0:
            old = len(self.matrix)
            more = max(old, missing, 16)
            self.matrix = np.concatenate([self.matrix, np.zeros((more, self.width), np.float32)])
            self.free += range(old + more - 1, old - 1, -1)
            self.scores = self.scores._replace(rows=self.matrix.reshape(-1))
        handles = np.array([self.handles[number] for number in new], np.int64)
        rows = self.model.scores(handles)
        places = [self.free.pop() for _ in new]
        self.matrix[places] = rows * _LOG10
        self.row_of.update(zip(new, places, strict=True))
        history.state[new] = places


def _scores(
    source: int,
    word: np.ndarray | None = None,
    cache_key: np.ndarray | None = None,
    cache: np.ndarray | None = None,
    width: int = 0,
) -> Scores:
    return Scores(
        source,
        np.zeros(1, np.int32) if word is None else word,
        np.full(1, -1, np.int64) if cache_key is None else cache_key,
        np.zeros(1, np.float32) if cache is None else cache,
        width,
        np.zeros(1, np.float32),
    )


def _ngram(lm: NGramModel, names: Sequence[str]) -> Model:
    words = lm.indices(names)
    if (words == lm.unk).all():
        raise TextError(
            f"[text] the language model knows none of the {len(names)} words, such as {names[0]!r}:"
            " give one that was estimated on them"
        )
    tables = lm.tables
    return Model(lambda: NGramSource(tables, words, lm.start, lm.eos), _ceiling(tables))


def _ceiling(tables: NGramTables) -> float:
    """No log probability is larger: usually 0, unless backoffs are positive."""
    gain = max(0.0, float(tables.backoff.max()))
    largest = max(float(tables.log_prob.max()), float(tables.log_prob_1.max()))
    return largest + _LONGEST * gain
