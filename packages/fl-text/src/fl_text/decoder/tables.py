"""The tables of one search: made, emptied, and made longer where a kernel found one full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_text.decoder.models import Source
from fl_text.decoder.numbering import index_histories
from fl_text.decoder.records import EPOCH, SIZE, Beam, Candidates, History, Settings, Trace

_FIRST_SIZE = 1 << 10


class Tables:
    """What kernels work in. One search at a time uses them, and leaves them large enough."""

    def __init__(self, source: Source, tokens: int) -> None:
        self.source = source
        self.tokens = tokens
        self.chosen = np.empty(tokens, np.int32)
        self.allowed = np.empty(tokens, np.int32)
        self.candidates = _candidates(_FIRST_SIZE, tokens)
        self.beam = _beam(_FIRST_SIZE)
        self.history = History._make([*_numbers(3), _slots(_FIRST_SIZE), _counts(2)])
        self.trace = Trace._make([np.zeros(_FIRST_SIZE, np.int64), _counts(1), *_numbers(3)])

    def begin(self, settings: Settings) -> None:
        """One hypothesis: the empty history, at the root, after silence."""
        beam, trace = self.beam, self.trace
        beam.score[0] = beam.emitting[0] = beam.lm[0] = 0
        beam.pair[0], beam.place[0], beam.history[0] = -1, 2 * settings.silence, 0
        beam.counts[:] = (1, 0, 0, 0)
        self.candidates.counts[:] = 0
        self.candidates.slot[:] = 0
        self.history.counts[SIZE] = 1
        self.history.counts[EPOCH] += 1  # nobody looks the first history up
        self.history.parent[0] = self.history.word[0] = -1
        trace.counts[0] = 0
        trace.first[:2] = (0, 1)
        trace.parent[0], trace.token[0], trace.word[0] = -1, settings.silence, -1
        self.source.begin(self.history)

    def grow(self, settings: Settings) -> None:
        """Makes every table that may be full twice as long."""
        most = min(settings.beam_size, len(self.candidates.score))
        row = int(self.trace.counts[0]) + 1
        enough = True
        if row + 1 >= len(self.trace.first):
            self.trace = _longer(self.trace, ("first",))
            enough = False
        if self.trace.first[row] + most > len(self.trace.parent):
            self.trace = _longer(self.trace, ("parent", "token", "word"), most)
            enough = False
        if self.history.counts[SIZE] + most > len(self.history.state):
            longer = _longer(self.history, ("parent", "word", "state"), most)
            self.history = longer._replace(slot=_slots(len(longer.state)))
            index_histories(self.history)
            enough = False
        if enough:
            size = 4 * len(self.candidates.score)
            self.candidates = _candidates(size, self.tokens)
            if len(self.beam.score) < min(settings.beam_size, size):
                self.beam = _wider(self.beam, size)


def _counts(n: int) -> np.ndarray:
    return np.zeros(n, np.int64)


def _numbers(tables: int) -> Any:
    return [np.zeros(_FIRST_SIZE, np.int32) for _ in range(tables)]


def _slots(n: int) -> np.ndarray:
    """A hash table for n entries: a power of two, at most half full."""
    return np.zeros(1 << (2 * n - 1).bit_length(), np.int64)


def _keyed(n: int) -> Any:
    """The first fields of candidates and of a beam: three scores, pair, place, history."""
    kinds = (np.float64, np.float64, np.float64, np.int64, np.int64, np.int32)
    return [np.zeros(n, kind) for kind in kinds]


def _candidates(n: int, tokens: int) -> Candidates:
    parent, word = np.zeros(n, np.int32), np.zeros(n, np.int32)
    work = np.zeros(max(n, tokens))
    own = (parent, word, _slots(n), np.zeros(n), _counts(5), work)
    return Candidates._make([*_keyed(n), *own])


def _beam(n: int) -> Beam:
    return Beam._make([*_keyed(n), _counts(4)])


def _wider(beam: Beam, n: int) -> Beam:
    """The same hypotheses with room for n."""
    live = int(beam.counts[SIZE])
    wide = _beam(n)
    for old, new in zip(beam[:6], wide[:6], strict=True):
        new[:live] = old[:live]
    wide.counts[:] = beam.counts
    return wide


def _longer(record: Any, names: Sequence[str], more: int = 0) -> Any:
    """The record with the named arrays at least twice as long."""
    changed = {}
    for name in names:
        old = getattr(record, name)
        changed[name] = np.concatenate([old, np.zeros(max(len(old), more), old.dtype)])
    return record._replace(**changed)
