"""Decoders of criteria behind the beam search of fl-text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria.batch import Whole, check_emissions, frame_counts
from fl_speech.criteria.criterion import Criterion
from fl_speech.criteria.decoder_state import DecoderState
from fl_tensor.annotations import Checked
from fl_text import Dictionary
from fl_text.decoder import DecoderOptions, Hypothesis, LexiconFreeSeq2SeqDecoder


class EmittingModel(Checked):
    """The update function of `LexiconSeq2SeqDecoder` and `LexiconFreeSeq2SeqDecoder` for a
    criterion with a decoder: one batched step for all hypotheses of the beam.

        model = criterion.emitting_model()
        decoder = LexiconFreeSeq2SeqDecoder(dictionary, model, lm, options, eos=criterion.eos)
        hypotheses = decoder.decode(model.start(encoded))

    temperature          divides the scores before softmax
    attention_threshold  hypotheses whose attention moves by more frames in one step are dropped
                         (the largest weight counts, that of heads of their mean; in the first
                         step its distance from frame 0)

    Raises nn.ModuleError for a criterion without a decoder, a temperature that is not above 0,
    a threshold below 0.
    """

    def __init__(
        self,
        criterion: Criterion,
        temperature: float = 1.0,
        attention_threshold: float | None = None,
    ) -> None:
        if criterion.decoding != "seq2seq":
            raise nn.ModuleError(
                f"[EmittingModel] {type(criterion).__name__} decodes frames: give a criterion with "
                "a decoder, Seq2Seq or TransformerCriterion"
            )
        if not 0 < temperature < math.inf:
            raise nn.ModuleError(f"[EmittingModel] temperature={temperature}: a number above 0")
        if attention_threshold is not None and not attention_threshold >= 0:
            raise nn.ModuleError(
                f"[EmittingModel] attention_threshold={attention_threshold}: frames, at least 0"
            )
        self.criterion: Any = criterion  # a DecoderCriterion, whose module imports this one
        self.temperature = temperature
        self.attention_threshold = attention_threshold

    def start(self, encoded: ft.Array, length: int | None = None) -> DecoderState:
        """The states that `decode` begins with: of one recording, (T, width) or (1, T, width),
        whose first `length` frames count."""
        if isinstance(encoded, ft.Array) and encoded.ndim == 2:
            encoded = ft.expand_dims(encoded, 0)
        check_emissions("EmittingModel", encoded)
        if encoded.shape[0] != 1:
            raise ft.ShapeError(
                f"[EmittingModel] encoded {encoded.shape}: give one recording, (frames, features)"
            )
        with nn.evaluating(self.criterion):
            return self.criterion.start(encoded, None if length is None else [length])

    def __call__(self, tokens: np.ndarray, states: DecoderState) -> tuple[np.ndarray, DecoderState]:
        """Logarithms of probabilities (k, classes) after each hypothesis, and the new states."""
        with nn.evaluating(self.criterion):
            scores, new = self.criterion.decode_step(tokens, states)
            found = ft.log_softmax(scores / self.temperature, -1).numpy()
        if self.attention_threshold is not None:
            moved = np.abs(_peaks(new, len(found)) - _peaks(states, len(found)))
            found = np.where((moved > self.attention_threshold)[:, None], -np.inf, found)
        return found, new


def beam_search(
    criterion: Any,
    encoded: ft.Array,
    lengths: Whole | None,
    beam_size: int,
    max_length: int | None,
    n_best: int | None,
) -> list[list[Hypothesis]]:
    """`DecoderCriterion.beam_search`."""
    check_emissions(type(criterion).__name__, encoded)
    counts = frame_counts(type(criterion).__name__, encoded, lengths)
    model = criterion.emitting_model()
    decoder = LexiconFreeSeq2SeqDecoder(
        Dictionary([str(number) for number in range(criterion.classes)]),
        model,
        None,
        # Only the size of the beam limits it, as in the original.
        DecoderOptions(beam_size=beam_size, beam_threshold=1e300),
        eos=criterion.eos,
        max_output_length=criterion.max_length if max_length is None else max_length,
    )
    return [
        decoder.decode(model.start(one, int(count)), n_best)
        for one, count in zip(encoded, counts, strict=True)
    ]


def before_end(tokens: np.ndarray, eos: int) -> np.ndarray:
    """The tokens before the first end token."""
    ends = np.flatnonzero(tokens == eos)
    return tokens[: ends[0]] if len(ends) else tokens


def _peaks(state: DecoderState, rows: int) -> np.ndarray:
    """The frame that each hypothesis looks at; 0 in the beginning."""
    if state.weights is None:
        return np.zeros(rows, np.int64)
    found: np.ndarray = ft.argmax(ft.mean(state.weights, 1), -1).numpy()
    return found
