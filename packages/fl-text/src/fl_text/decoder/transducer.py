"""Time-synchronous beam search with a transducer (RNN-T): batched calls of its networks.

For a frame and the labels so far, a transducer gives a distribution over labels and a blank, which
leads to the next frame (Graves, Sequence transduction with recurrent neural networks, 2012). In
each frame every hypothesis takes a blank, or up to `max_symbols` labels and then a blank. This is
algorithm 1 of Saon, Tueske & Audhkhasi, Alignment-length synchronous decoding for RNN transducer,
2020. Hypotheses with equal labels are merged, and their probabilities added.

Two functions of the caller are the networks. `predict(previous_tokens, states) -> (outputs,
new_states)` has rows for hypotheses, as in `fl_text.decoder.seq2seq_search`; its first call has one
row, the previous token -1 and the states None. `joint(frame, outputs) -> scores` gives the natural
logarithms (k, tokens) for one frame of the encoder and k rows of outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import Checked
from fl_text.decoder.closable import Closable
from fl_text.decoder.histories import Histories
from fl_text.decoder.hypothesis import Hypothesis
from fl_text.decoder.models import AnyModel
from fl_text.decoder.options import DecoderOptions
from fl_text.decoder.outputs import FrameLabels, n_best_list
from fl_text.decoder.rows import check_rows, join_rows, pair_of, pick_rows, scores_of
from fl_text.decoder.seq2seq_search import LOWEST, Update, highest, token_number, weighted
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.language_model import as_language_model

#: Scores of a frame of the encoder and of outputs of the prediction network.
Joint: TypeAlias = Callable[[Any, Any], Any]


class Beam(NamedTuple):
    """Hypotheses: sequences of labels by number, and when the labels were said.

    A time is None, or a pair of the time before the last label and its frame.
    """

    score: np.ndarray
    emitting: np.ndarray
    lm: np.ndarray
    history: np.ndarray
    time: np.ndarray

    def take(self, places: np.ndarray) -> Beam:
        return Beam(*(field[places] for field in self))


def join_beams(parts: list[Beam]) -> Beam:
    return Beam(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


class TransducerDecoder(Checked):
    """Finds the most likely label sequences of a transducer.

    Parameters
    ----------
    tokens
        The labels and the blank, in the order of the scores.
    predict, joint
        The networks: see `fl_text.decoder.transducer`.
    lm
        An `NGramModel` whose words are tokens, another `LanguageModel` with the numbers of the
        tokens, or None. It scores labels, not blanks (shallow fusion).
    options
        See `DecoderOptions`: the sizes, the threshold and ``lm_weight`` are used. Probabilities
        are always added.
    blank
        The token that leads to the next frame.
    max_symbols
        No hypothesis has more labels in one frame.

    Raises
    ------
    TextError
        What does not fit the dictionary, or another vocabulary of the language model.
    """

    def __init__(
        self,
        tokens: Dictionary,
        predict: Update,
        joint: Joint,
        lm: AnyModel | None = None,
        options: DecoderOptions | None = None,
        *,
        blank: str | int = "#",
        max_symbols: int = 5,
    ) -> None:
        for name, function in (("predict", predict), ("joint", joint)):
            if not callable(function):
                raise TextError(f"[TransducerDecoder] {name} is {function!r}: give a function")
        if isinstance(max_symbols, bool) or not isinstance(max_symbols, int) or max_symbols < 1:
            raise TextError(
                f"[TransducerDecoder] max_symbols is {max_symbols!r}: give an int, at least 1"
            )
        self.options = options or DecoderOptions()
        self.tokens = tokens.index_size()
        if not tokens.is_contiguous() or self.tokens < 2:
            raise TextError(
                f"[TransducerDecoder] a dictionary of {self.tokens} tokens: it needs the numbers "
                "0, 1, ... without gaps, for a blank and at least one label"
            )
        self.blank = token_number(tokens, blank, "[TransducerDecoder] blank")
        self.predict, self.joint, self.max_symbols = predict, joint, max_symbols
        names = [tokens.get_entry(k) for k in range(self.tokens)]
        self._model = as_language_model(lm, names)
        self._labels = FrameLabels(names)

    def decode(self, encoded: Any, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses of an utterance, the best first; `n_best` of them at most.

        ``encoded`` has a row for each frame: what the encoder gives, (frames, ...). The tokens of
        a hypothesis are labels, without blanks; ``spans`` says in which frame each came.

        Raises `TextError` for an utterance without frames, for scores and states that do not fit,
        NaN, and another vocabulary of the language model.
        """
        _check_frames(encoded, least=1)
        with self.begin() as stream:
            stream.step(encoded)
            return stream.end(n_best)

    def greedy(self, encoded: Any) -> Hypothesis:
        """The path of the likeliest token again and again; the language model is not asked.

        ``encoded`` and errors as in `decode`. The scores are those of the path, blanks included.
        """
        _check_frames(encoded, least=1)
        outputs, states = self._predict(np.array([-1]), None)
        total, labels, frames = 0.0, [], []
        for frame in range(encoded.shape[0]):
            for said in range(self.max_symbols + 1):
                scores = self._joint(encoded[frame], outputs, 1)[0]
                token = self.blank if said == self.max_symbols else int(scores.argmax())
                total += float(scores[token])
                if token == self.blank:
                    break
                labels.append(token)
                frames.append(frame)
                outputs, states = self._predict(np.array([token]), states)
        score = np.array([total])
        return n_best_list(score, score, np.zeros(1), [labels], [frames], self._labels)[0]

    def begin(self) -> TransducerStream:
        """An utterance whose frames come in pieces."""
        return TransducerStream(self)

    def _predict(self, tokens: np.ndarray, states: Any) -> tuple[Any, Any]:
        name = "TransducerDecoder.predict"
        answer = self.predict(tokens.astype(np.int64), states)
        outputs, new = pair_of(answer, name, "outputs and new states")
        if outputs is None:
            raise TextError(f"[{name}] the outputs are None: give a row for each hypothesis")
        for tree in (outputs, new):
            check_rows(tree, len(tokens), name)
        return outputs, new

    def _joint(self, frame: Any, outputs: Any, rows: int) -> np.ndarray:
        return scores_of(self.joint(frame, outputs), rows, self.tokens, "TransducerDecoder.joint")


class TransducerStream(Closable):
    """An utterance in progress; `begin` of a decoder makes it."""

    def __init__(self, decoder: TransducerDecoder) -> None:
        self._decoder = decoder
        self._histories = Histories(decoder._model)
        zero = np.zeros(1)
        self._beam = Beam(zero, zero, zero, np.zeros(1, np.int64), np.array([None]))
        # Outputs and states of the prediction network, by the place of each sequence.
        self._place = {0: 0}
        self._rows = decoder._predict(np.array([-1]), None)
        self._frames = 0

    def step(self, encoded: Any) -> None:
        """Decodes the next frames: (frames, ...), as in `decode`; there may be none."""
        self._check()
        _check_frames(encoded, least=0)
        for k in range(encoded.shape[0]):
            self._frame(encoded[k])
            self._frames += 1

    def _frame(self, frame: Any) -> None:
        decoder, options = self._decoder, self._decoder.options
        going, ended = self._beam, []
        if not len(going.score):  # nothing is possible any more
            return
        for said in range(decoder.max_symbols + 1):
            places = np.array([self._place[n] for n in going.history.tolist()], np.int64)
            outputs = pick_rows(self._rows[0], places, "TransducerDecoder.predict")
            scores = decoder._joint(frame, outputs, len(places))
            blank = scores[:, decoder.blank]
            ended.append(going._replace(score=going.score + blank, emitting=going.emitting + blank))
            if said == decoder.max_symbols:
                break
            best = max(float(part.score.max()) for part in ended)
            going = self._labelled(going, scores, best)
            if not len(going.score):
                break
        merged = _merge(join_beams(ended))
        limit = max(merged.score.max(initial=LOWEST) - options.beam_threshold, LOWEST)
        merged = merged.take(np.flatnonzero(merged.score >= limit))
        self._beam = merged.take(highest(merged.score, options.beam_size))
        self._keep()

    def _labelled(self, beam: Beam, scores: np.ndarray, best: float) -> Beam:
        """The best hypotheses with one more label in this frame, and rows of the network."""
        decoder, options = self._decoder, self._decoder.options
        lm = self._histories.rows(beam.history)
        total = beam.score[:, None] + scores + weighted(options.lm_weight, lm)
        scores = scores.copy()
        scores[:, decoder.blank] = -np.inf
        total[scores == -np.inf] = -np.inf
        if options.beam_size_token < decoder.tokens - 1:
            worse = np.argpartition(-scores, options.beam_size_token - 1, axis=1)
            np.put_along_axis(total, worse[:, options.beam_size_token :], -np.inf, axis=1)
        limit = max(best, float(total.max())) - options.beam_threshold
        row, token = np.nonzero(total >= max(limit, LOWEST))
        chosen = highest(total[row, token], options.beam_size)
        row, token = row[chosen], token[chosen]
        time = np.empty(len(row), object)
        time[:] = [(before, self._frames) for before in beam.time[row]]
        history = self._histories.extend(beam.history[row], token)
        self._predict(history, beam.history[row], token)
        return Beam(
            total[row, token],
            beam.emitting[row] + scores[row, token],
            beam.lm[row] + lm[row, token],
            history,
            time,
        )

    def _predict(self, history: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Rows of the sequences that have none yet, in one call."""
        new = [k for k, number in enumerate(history.tolist()) if number not in self._place]
        if not new:
            return
        places = np.array([self._place[n] for n in parents[new].tolist()], np.int64)
        name = "TransducerDecoder.predict"
        states = pick_rows(self._rows[1], places, name)
        rows = self._decoder._predict(tokens[new], states)
        count = len(self._place)
        self._place.update({int(history[k]): count + i for i, k in enumerate(new)})
        self._rows = join_rows([self._rows, rows], name)

    def _keep(self) -> None:
        """Forgets sequences that left the beam."""
        kept = self._beam.history
        self._histories.keep(kept)
        places = np.array([self._place[number] for number in kept.tolist()], np.int64)
        self._rows = pick_rows(self._rows, places, "TransducerDecoder.predict")
        self._place = {number: place for place, number in enumerate(kept.tolist())}

    def best(self) -> Hypothesis | None:
        """The best hypothesis so far; None if none is possible."""
        self._check()
        return next(iter(self._hypotheses(self._beam, 1)), None)

    def end(self, n_best: int | None = None) -> list[Hypothesis]:
        """The hypotheses at the end of the utterance, the best first; the stream is over."""
        self._check()
        try:
            lm = self._histories.ends(self._beam.history)
            total = self._beam.score + weighted(self._decoder.options.lm_weight, lm)
            beam = self._beam._replace(score=total, lm=self._beam.lm + lm)
            beam = beam.take(np.flatnonzero(total > -np.inf))
            return self._hypotheses(beam.take(highest(beam.score, len(beam.score))), None)[:n_best]
        finally:
            self.close()

    def _release(self) -> None:
        self._histories.close()

    def _hypotheses(self, beam: Beam, count: int | None) -> list[Hypothesis]:
        score, emitting, lm, history, time = (field[:count] for field in beam)
        tokens = [self._histories.sequence(number) for number in history.tolist()]
        frames = [_unroll(link) for link in time]
        return n_best_list(score, emitting, lm, tokens, frames, self._decoder._labels)


def _merge(beam: Beam) -> Beam:
    """Equal sequences become one: probabilities are added, times are those of the likeliest."""
    order = np.lexsort((-beam.score, beam.history))
    beam = beam.take(order)
    first = np.flatnonzero(np.diff(beam.history, prepend=-1))
    return beam.take(first)._replace(
        score=np.logaddexp.reduceat(beam.score, first),
        emitting=np.logaddexp.reduceat(beam.emitting, first),
    )


def _unroll(link: Any) -> list[int]:
    frames = []
    while link is not None:
        link, frame = link
        frames.append(frame)
    return frames[::-1]


def _check_frames(encoded: Any, least: int) -> None:
    if not isinstance(encoded, np.ndarray) and not isinstance(encoded, ft.Array):
        raise TextError(
            f"[TransducerDecoder] encoded is a {type(encoded).__name__}: give the array that the "
            "encoder made, (frames, ...)"
        )
    if encoded.ndim < 1 or encoded.shape[0] < least:
        raise TextError(
            f"[TransducerDecoder] encoded has shape {tuple(encoded.shape)}: give (frames, ...) "
            "with at least one frame; an utterance shorter than the encoder's stride has none"
        )
