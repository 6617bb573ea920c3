"""One utterance in progress: frames come in pieces, and what is settled can be let go."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.kernels import Array
from fl_text.decoder.closable import Closable
from fl_text.decoder.emissions import frames_of
from fl_text.decoder.hypothesis import Hypothesis, Paths
from fl_text.decoder.numbering import index_histories
from fl_text.decoder.records import LOWEST, SIZE, TOP, Trace
from fl_text.errors import TextError

if TYPE_CHECKING:
    from fl_text.decoder.search import BeamSearch


@ft.kernel
def trace_back(
    trace: Trace, at: Array[ft.int64], tokens: Array[ft.int32], words: Array[ft.int32]
) -> None:
    """Tokens and words by frame of hypotheses; ``at``, their places in the last row of the trace,
    becomes those in the first."""
    frames = trace.counts[0]
    for k in range(len(at)):
        place = at[k]
        row = frames
        while row > 0:
            entry = trace.first[row] + place
            tokens[k * frames + row - 1] = trace.token[entry]
            words[k * frames + row - 1] = trace.word[entry]
            place = trace.parent[entry]
            row -= 1
        at[k] = place


class Stream(Closable):
    """An utterance that a decoder is decoding; `begin` of a decoder makes it.

    Streams of one decoder are independent: each may be used by a thread of its own.
    """

    def __init__(self, search: BeamSearch) -> None:
        self._search = search
        self._tables = search._borrow()
        self._tables.begin(search._settings)
        self._start = 0  # the first frame that is not settled
        self._before = search._settings.silence  # the token of the frame before it
        self._tokens = np.zeros(0, np.int32)  # what all hypotheses share, and is not settled
        self._words = np.zeros(0, np.int32)

    def step(self, emissions: object) -> None:
        """Decodes the next frames: (frames, tokens), as in `decode`."""
        self._check()
        search, tables = self._search, self._tables
        scores = frames_of(emissions, search.tokens)
        frame, frames = 0, len(scores)
        while frame < frames:
            reached = search._run(tables, scores.reshape(-1), frame, frames)
            if reached == frame or (reached < frames and not search._stops_each_frame):
                tables.grow(search._settings)
            if search._stops_each_frame and reached > frame:
                tables.source.after_frame(tables.history, tables.beam)
            frame = reached

    def best(self) -> Hypothesis | None:
        """The best hypothesis so far, from the first frame that is not settled.

        A word in progress is not in it, nor is the language model's score of an end. None if no
        hypothesis is possible.
        """
        self._check()
        beam = self._tables.beam
        if beam.counts[SIZE] == 0:
            return None
        where = beam.counts[TOP : TOP + 1]
        return self._hypotheses(where, beam.score[where], np.zeros(1), np.ones(1))[0]

    @explained
    def prune(self, look_back: int | None = None) -> Hypothesis | None:
        """Takes out what is settled: the words that all hypotheses share. None if there are none.

        The rest of the search does not change. With ``look_back``, all that the best hypothesis
        says up to so many frames ago becomes settled, and hypotheses that say something else are
        dropped: memory stays bounded.
        """
        self._check()
        tables = self._tables
        beam = tables.beam
        if beam.counts[SIZE] == 0:
            return None
        rows = int(tables.trace.counts[0])
        if look_back is not None:
            if look_back < 0:
                raise TextError(f"[text] prune: look_back is {look_back}: give a number of frames")
            self._drop_others(max(0, rows - look_back))
        row, place = self._shared()
        self._forget(row, place)
        tables.source.renumber(self._renumber())
        settled = self._search._labelling.settled(self._tokens, self._words)
        return self._settle(settled) if settled else None

    @explained
    def end(self, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses at the end of the utterance, the best first; the stream is over.

        With a lexicon they are those whose last word is complete, if there is one. Empty if no
        hypothesis is possible.
        """
        self._check()
        try:
            if n_best is not None and n_best < 1:
                raise TextError(f"[text] n_best is {n_best}: give at least 1")
            return self._final(n_best)
        finally:
            self.close()

    def _release(self) -> None:
        self._tables.source.end()
        self._search._give_back(self._tables)

    def _final(self, n_best: int | None) -> list[Hypothesis]:
        beam = self._tables.beam
        live = int(beam.counts[SIZE])
        node = beam.place[:live] >> 32
        where = np.flatnonzero(node == 0)
        if not len(where):
            where = np.arange(live)
        numbers, which = np.unique(beam.history[where], return_inverse=True)
        last = self._tables.source.finish(self._tables.history, numbers)[which]
        score = beam.score[where] + self._search.options.lm_weight * last
        order = np.argsort(-score, kind="stable")
        best = score[order[0]] if len(order) else 0.0
        limit = max(best - self._search.options.beam_threshold, LOWEST)
        order = order[score[order] >= limit]
        # Merged as in every frame: equal histories at one node.
        place = (beam.history[where].astype(np.int64) << 32) | node[where]
        _, first, which = np.unique(place[order], return_index=True, return_inverse=True)
        total = score[order[first]]
        if self._search.options.log_add:
            total = np.full(len(first), -np.inf)
            np.logaddexp.at(total, which, score[order])
        kept = order[first]
        ranks = np.argsort(-total, kind="stable")
        kept, total = kept[ranks], total[ranks]
        confidence = np.exp(total - total[0]) if len(total) else total
        confidence = confidence / confidence.sum()
        kept, total, confidence = kept[:n_best], total[:n_best], confidence[:n_best]
        return self._hypotheses(where[kept], total, last[kept], confidence)

    def _hypotheses(
        self, where: np.ndarray, score: np.ndarray, last: np.ndarray, confidence: np.ndarray
    ) -> list[Hypothesis]:
        beam = self._tables.beam
        tokens, words, _ = self._way_back(where)
        tokens = np.hstack([np.broadcast_to(self._tokens, (len(where), len(self._tokens))), tokens])
        words = np.hstack([np.broadcast_to(self._words, (len(where), len(self._words))), words])
        paths = Paths(tokens, words, confidence, self._start, self._before, self._search._labelling)
        emitting, lm = beam.emitting[where], beam.lm[where] + last
        return [
            Hypothesis(
                float(score[k]),
                float(emitting[k]),
                float(lm[k]),
                tuple(words[k][words[k] >= 0].tolist()),
                tuple(tokens[k].tolist()),
                float(confidence[k]),
                _paths=paths,
                _rank=k,
            )
            for k in range(len(where))
        ]

    def _way_back(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens and words by frame of hypotheses of the beam, and where they began."""
        trace = self._tables.trace
        shape = (len(where), int(trace.counts[0]))
        at = np.array(where, np.int64)
        tokens, words = np.empty(shape, np.int32), np.empty(shape, np.int32)
        if tokens.size:
            trace_back(trace, at, tokens.reshape(-1), words.reshape(-1))
        return tokens, words, at

    def _shared(self) -> tuple[int, int]:
        """The last row of the trace in which all hypotheses come from one, and which that is."""
        trace = self._tables.trace
        row = int(trace.counts[0])
        alive = np.arange(int(self._tables.beam.counts[SIZE]))
        while row > 0 and len(alive) > 1:
            alive = np.unique(trace.parent[trace.first[row] + alive])
            row -= 1
        return row, int(alive[0])

    def _forget(self, row: int, place: int) -> None:
        """Row ``row`` becomes the first one; the way to it is what all hypotheses share."""
        trace = self._tables.trace
        tokens, words = [], []
        for r in range(row, 0, -1):
            entry = int(trace.first[r]) + place
            tokens.append(trace.token[entry])
            words.append(trace.word[entry])
            place = int(trace.parent[entry])
        self._tokens = np.append(self._tokens, np.array(tokens[::-1], np.int32))
        self._words = np.append(self._words, np.array(words[::-1], np.int32))
        count = int(trace.counts[0])
        one, end = int(trace.first[row]), int(trace.first[count + 1])
        for array in (trace.parent, trace.token, trace.word):
            array[: end - one] = array[one:end].copy()
        trace.first[: count - row + 2] = trace.first[row : count + 2] - one
        trace.counts[0] = count - row

    def _drop_others(self, row: int) -> None:
        """Leaves the hypotheses that come from the same one of row ``row`` as the best."""
        trace, beam = self._tables.trace, self._tables.beam
        live, count = int(beam.counts[SIZE]), int(trace.counts[0])
        at = np.arange(live)
        for r in range(count, row, -1):
            at = trace.parent[trace.first[r] + at].astype(np.int64)
        kept = np.flatnonzero(at == at[beam.counts[TOP]])
        one = int(trace.first[count])
        for array in beam[:6]:
            array[: len(kept)] = array[kept]
        for array in (trace.parent, trace.token, trace.word):
            array[one : one + len(kept)] = array[one + kept]
        beam.counts[TOP] = np.searchsorted(kept, beam.counts[TOP])
        beam.counts[SIZE] = len(kept)
        trace.first[count + 1] = one + len(kept)

    def _renumber(self) -> np.ndarray:
        """Gives the histories that matter numbers from 0: of the beam, and what leads to them from
        the last one that they share."""
        beam, history = self._tables.beam, self._tables.history
        live = int(beam.counts[SIZE])
        own = front = kept = np.unique(beam.history[:live])
        while len(front):
            parents = history.parent[front]
            front = np.setdiff1d(parents[parents >= 0], kept)
            kept = np.union1d(kept, front)
        # Numbers fall towards the root. Above the last shared history each has one child.
        children = np.bincount(np.searchsorted(kept, history.parent[kept[1:]]), minlength=len(kept))
        shared = 0
        while children[shared] == 1 and kept[shared] not in own:
            shared += 1
        kept = kept[shared:]
        parents = history.parent[kept]
        parents[0] = -1
        parents[1:] = np.searchsorted(kept, parents[1:])
        count = len(kept)
        history.parent[:count], history.word[:count] = parents, history.word[kept]
        history.state[:count] = history.state[kept]
        history.counts[SIZE] = count
        index_histories(history)
        numbers = np.searchsorted(kept, beam.history[:live])
        beam.history[:live] = numbers
        words = history.word[numbers].astype(np.int64) & 0xFFFFFFFF
        beam.pair[:live] = (parents[numbers].astype(np.int64) << 32) | words
        return kept

    def _settle(self, frames: int) -> Hypothesis:
        """The first frames of what all hypotheses share leave the stream."""
        tokens, words = self._tokens[:frames], self._words[:frames]
        self._tokens, self._words = self._tokens[frames:], self._words[frames:]
        labelling = self._search._labelling
        paths = Paths(tokens[None], words[None], np.ones(1), self._start, self._before, labelling)
        self._start += frames
        self._before = int(tokens[-1])
        nan = float("nan")
        said = tuple(words[words >= 0].tolist())
        return Hypothesis(nan, nan, nan, said, tuple(tokens.tolist()), 1.0, _paths=paths)
