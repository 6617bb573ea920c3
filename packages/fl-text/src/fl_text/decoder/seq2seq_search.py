"""Beam search with a sequence-to-sequence model: one batched call of it for each output step.

The model is a function of the caller, `update(previous_tokens, states) -> (scores, new_states)`.
Rows belong to the hypotheses of the beam that are not complete: `previous_tokens` is int64 (k,),
`scores` (k, tokens) are natural logarithms, states have k rows (see `fl_text.decoder.rows`). The
first call has one row, the previous token -1, and the states that the search was begun with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_tensor.annotations import Checked
from fl_text.decoder.closable import Closable
from fl_text.decoder.histories import Histories
from fl_text.decoder.hypothesis import Hypothesis
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.outputs import OutputLabels, n_best_list
from fl_text.decoder.rows import check_rows, pair_of, pick_rows, scores_of
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError

#: A lower score is that of something impossible.
LOWEST = float(np.finfo(np.float64).min)
#: Scores and new states of previous tokens and states.
Update: TypeAlias = Callable[[np.ndarray, Any], tuple[Any, Any]]


@dataclass
class Beam:
    """Hypotheses, or candidates: arrays of one length.

    row      of the model's answer that a candidate comes from; -1 for complete ones
    parent   the place of the hypothesis before the last output
    history  the number of the sequence that the language model has seen
    word     the word (or token) that the candidate adds to it; -1 for none
    label    the word that the last output completes; -1 for none
    node     of the trie
    """

    score: np.ndarray
    emitting: np.ndarray
    lm: np.ndarray
    token: np.ndarray
    row: np.ndarray
    parent: np.ndarray
    history: np.ndarray
    word: np.ndarray
    label: np.ndarray
    node: np.ndarray

    def __len__(self) -> int:
        return len(self.score)

    def take(self, places: np.ndarray) -> Beam:
        return Beam(*(getattr(self, field.name)[places] for field in fields(self)))


def _first() -> Beam:
    zero, none = np.zeros(1), np.full(1, -1)
    start = np.zeros(1, np.int64)
    return Beam(zero, zero, zero, none, start, none, start, none, none, start)


def join_beams(parts: list[Beam]) -> Beam:
    return Beam(*(np.concatenate([getattr(b, f.name) for b in parts]) for f in fields(Beam)))


class Step(NamedTuple):
    """What the outputs of one step were: tokens, words, and the places they came from."""

    token: np.ndarray
    label: np.ndarray
    parent: np.ndarray


class Seq2SeqDecoder(Checked):
    """What both decoders have in common; a subclass says which outputs follow."""

    _labels: OutputLabels

    def __init__(
        self,
        tokens: Dictionary,
        update: Update,
        options: DecoderOptions | None,
        eos: str | int,
        max_output_length: int,
    ) -> None:
        name = type(self).__name__
        if not callable(update):
            raise TextError(f"[{name}] update is {update!r}: give a function of tokens and states")
        if isinstance(max_output_length, bool) or not isinstance(max_output_length, int):
            raise TextError(f"[{name}] max_output_length is {max_output_length!r}: give an int")
        if max_output_length < 1:
            raise TextError(f"[{name}] max_output_length is {max_output_length}: at least 1")
        self.options = options or DecoderOptions()
        self.tokens = tokens.index_size()
        if not tokens.is_contiguous() or not self.tokens:
            raise TextError(
                f"[{name}] a dictionary of {self.tokens} tokens whose numbers have gaps: a decoder "
                "needs tokens 0, 1, ... without gaps, at least one"
            )
        self._names = [tokens.get_entry(k) for k in range(self.tokens)]
        self.eos = token_number(tokens, eos, f"[{name}] eos")
        self.update = update
        self.max_output_length = max_output_length

    def decode(self, states: Any = None, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses for an utterance, the best first; `n_best` of them at most.

        ``states`` are those of the first call of ``update``, with one row: usually what an encoder
        made of the utterance. A hypothesis ends with the end token, or has ``max_output_length``
        tokens. There is none where the model gives ``-inf`` only.

        Raises `TextError` for scores and states that do not fit, NaN, and another vocabulary of
        the language model.
        """
        with self.begin(states) as search:
            while search.step():
                pass
            return search.end(n_best)

    def begin(self, states: Any = None) -> Seq2SeqSearch:
        """A search that goes on by one output at a time."""
        check_rows(states, 1, type(self).__name__)
        return Seq2SeqSearch(self, states)

    def _histories(self) -> Histories:
        raise NotImplementedError

    def _candidates(self, beam: Beam, scores: np.ndarray, histories: Histories) -> list[Beam]:
        """What may follow hypotheses, none of which is complete; ``scores`` has a row for each."""
        raise NotImplementedError

    def _merge(self, candidates: Beam, histories: Histories) -> Beam:
        """Candidates that go on alike become one."""
        return candidates

    def _tried(self, scores: np.ndarray) -> np.ndarray:
        """Which tokens are tried, (rows, tokens): the best ones of each row that are possible."""
        possible: np.ndarray = scores > -np.inf
        count = self.options.beam_size_token
        if count < self.tokens:
            best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
            chosen = np.zeros_like(possible)
            np.put_along_axis(chosen, best, True, axis=1)
            possible &= chosen
        return possible


class Seq2SeqSearch(Closable):
    """An utterance in progress; `begin` of a decoder makes it."""

    def __init__(self, decoder: Seq2SeqDecoder, states: Any) -> None:
        self._decoder, self._states = decoder, states
        self._histories = decoder._histories()
        self._beam = _first()
        self._steps: list[Step] = []
        self._over = False

    def step(self) -> bool:
        """Adds an output to each hypothesis. False where all are complete, or at the limit."""
        self._check()
        decoder = self._decoder
        live = np.flatnonzero(self._beam.token != decoder.eos)
        self._over |= not len(live) or len(self._steps) == decoder.max_output_length
        if self._over:
            return False
        name = f"{type(decoder).__name__}.update"
        answer = decoder.update(self._beam.token[live].astype(np.int64), self._states)
        found, states = pair_of(answer, name, "scores and new states")
        scores = scores_of(found, len(live), decoder.tokens, name)
        check_rows(states, len(live), name)
        beam = self._next(live, scores)
        if not len(beam):  # nothing can follow: the hypotheses stay as they are
            self._over = True
            return False
        rows = beam.row[beam.token != decoder.eos]
        if len(rows):
            self._states = pick_rows(states, rows, name)
        self._steps.append(Step(beam.token, beam.label, beam.parent))
        self._beam = beam
        self._histories.keep(beam.history)
        return True

    def _next(self, live: np.ndarray, scores: np.ndarray) -> Beam:
        decoder, options = self._decoder, self._decoder.options
        going = self._beam.take(live)
        going.parent, going.row = live, np.arange(len(live))
        going.word = going.label = np.full(len(live), -1)
        done = np.flatnonzero(self._beam.token == decoder.eos)
        complete = self._beam.take(done)
        complete.parent, complete.row = done, np.full(len(done), -1)
        complete.word = complete.label = complete.row
        parts = [complete, *decoder._candidates(going, scores, self._histories)]
        found = join_beams(parts)
        limit = max(found.score.max(initial=LOWEST) - options.beam_threshold, LOWEST)
        found = found.take(np.flatnonzero(found.score >= limit))
        merged = self._merged(found)
        beam = merged.take(highest(merged.score, options.beam_size))
        added = np.flatnonzero(beam.word >= 0)
        beam.history[added] = self._histories.extend(beam.history[added], beam.word[added])
        return beam

    def _merged(self, found: Beam) -> Beam:
        """At least the best `beam_size` candidates, merged, or all of them."""
        decoder, options = self._decoder, self._decoder.options
        if not options.log_add and len(found) > 2 * options.beam_size:
            # Where the larger one stays, the best candidates have the best of what is merged.
            best = found.take(highest(found.score, 2 * options.beam_size))
            merged = decoder._merge(best, self._histories)
            if len(merged) >= options.beam_size:
                return merged
        return decoder._merge(found, self._histories)

    def best(self) -> Hypothesis:
        """The best hypothesis so far, complete or not."""
        self._check()
        return self._hypotheses(1)[0]

    def end(self, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses as they are, the best first; the search is over."""
        self._check()
        try:
            return self._hypotheses(None)[:n_best] if self._steps else []
        finally:
            self.close()

    def _release(self) -> None:
        self._histories.close()

    def _hypotheses(self, count: int | None) -> list[Hypothesis]:
        beam = self._beam
        scores = beam.score[:count]
        shape = (len(scores), len(self._steps))
        outputs, labels = np.empty(shape, np.int64), np.empty(shape, np.int64)
        places = np.arange(len(scores))
        for k in range(shape[1] - 1, -1, -1):
            step = self._steps[k]
            outputs[:, k], labels[:, k] = step.token[places], step.label[places]
            places = step.parent[places]
        # The end token comes once, however long ago it was.
        lengths = np.minimum(1 + (outputs != self._decoder.eos).sum(1), shape[1]).tolist()
        tokens = [row[:length] for row, length in zip(outputs.tolist(), lengths, strict=True)]
        words = [row[:length] for row, length in zip(labels.tolist(), lengths, strict=True)]
        return n_best_list(
            scores, beam.emitting[:count], beam.lm[:count], tokens, words, self._decoder._labels
        )


def highest(scores: np.ndarray, count: int) -> np.ndarray:
    """The places of the highest scores, the highest first; equal ones in their order."""
    places = np.arange(len(scores))
    if count < len(scores):
        places = np.sort(np.argpartition(-scores, count - 1)[:count])
    found: np.ndarray = places[np.argsort(-scores[places], kind="stable")]
    return found


def weighted(weight: float, lm: np.ndarray) -> np.ndarray:
    """What a language model adds to a score: nothing without weight, ``-inf`` stays what it is."""
    if weight == 0:
        return np.zeros_like(lm)
    return np.where(lm == -np.inf, -np.inf, weight * lm)


def token_number(tokens: Dictionary, token: str | int, what: str) -> int:
    """The number of a token that is given by name or number."""
    if isinstance(token, str):
        if token not in tokens:
            raise TextError(f"{what} {token!r} is not in the dictionary: add it, or name another")
        return tokens.get_index(token)
    whole = isinstance(token, int) and not isinstance(token, bool)
    if not whole or not 0 <= token < tokens.index_size():
        raise TextError(f"{what} is {token!r}: tokens are 0 to {tokens.index_size() - 1}")
    return int(token)
