"""Seq2Seq: a recurrent decoder with attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn import init
from fl_speech.criteria.attention import Attention, ContentAttention
from fl_speech.criteria.decoder_criterion import DecoderCriterion
from fl_speech.criteria.decoder_state import DecoderState
from fl_speech.criteria.windows import Window


class Seq2Seq(DecoderCriterion):
    """A decoder of GRUs that attends to an encoder's output, and the cross entropy of targets.
    Bahdanau et al., 2015; Chan et al., 2016; Flashlight's Seq2SeqCriterion.

    In each step the embedding of the token before goes through as many rounds as there are
    attentions: a GRU, then an attention whose summary is added. A Linear layer makes scores.

    classes             tokens, with the end token
    hidden              features of embeddings, GRUs and summaries: those of the encoder's output,
                        or half of them for keys and values
    eos                 the token that ends a sequence
    pad                 a token that pads targets, besides -1
    max_length          no path has more tokens
    attentions          one for each round; None: one ContentAttention
    window              of the attention in evaluation, with `train_with_window` also in training
    pretrain_window     of the attention in training while `pretraining` is True
    teacher_forcing     percentage of tokens of targets that the decoder sees in training
    sampling            what it sees otherwise: "rand" any token, "model" its own best one,
                        "gumbel" always the mean by Gumbel softmax: see `sequential_decoder`
    label_smoothing     share of the target, in training, that goes to all classes alike
    input_feeding       adds the summary of the step before to the embedding
    layers, dropout     of each GRU; dropout is between its layers
    scale_mode, reduction   as in `Criterion`; L counts the end token

    Parameters: embedding.weight, start_embedding (the embedding before the first token), rnn.i,
    attentions.i, out. Raises ModuleError, ArgumentError.
    """

    def __init__(
        self,
        classes: int,
        hidden: int,
        eos: int,
        pad: int | None = None,
        max_length: int = 200,
        attentions: Sequence[Attention] | None = None,
        window: Window | None = None,
        train_with_window: bool = False,
        pretrain_window: Window | None = None,
        teacher_forcing: float = 100.0,
        sampling: str = "rand",
        gumbel_temperature: float = 1.0,
        label_smoothing: float = 0.0,
        input_feeding: bool = False,
        layers: int = 1,
        dropout: float = 0.0,
        scale_mode: str = "none",
        reduction: str = "mean",
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if attentions is None:
            attentions = [ContentAttention()]
        super().__init__(
            classes, hidden, eos, pad, max_length, attentions, window, train_with_window,
            pretrain_window, teacher_forcing, label_smoothing, sampling, gumbel_temperature,
            scale_mode, reduction,
        )  # fmt: skip
        self.input_feeding = input_feeding
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.embedding = nn.Embedding(classes, hidden, **options)
        self.start_embedding = nn.Parameter(init.uniform((hidden,), -0.1, 0.1, **options))
        self.rnn = [
            nn.GRU(hidden, hidden, layers, batch_first=True, dropout=dropout, **options)
            for _ in attentions
        ]
        self.out = nn.Linear(hidden, classes, **options)

    def is_sequential(self) -> bool:
        return self.input_feeding or super().is_sequential()

    def embed(self, tokens: ft.Array) -> ft.Array:
        if tokens.dtype.is_floating:
            return ft.matmul(tokens, self.embedding.weight)
        return self.embedding(tokens)

    def step(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array | None
    ) -> tuple[ft.Array, DecoderState]:
        window = self.log_weights(state, 1, target_lengths)
        y, hidden = embedded, []
        for i, rnn in enumerate(self.rnn):
            before = ft.swapaxes(state.hidden[i], 0, 1) if state.hidden else None
            y, after = rnn(y, before)
            hidden.append(ft.swapaxes(after, 0, 1))
            weights, summary = self.look(i, y, state, window)
            y = y + summary
        return self.out(y[:, 0]), state.after(hidden, weights, summary)

    def decode_all(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array
    ) -> tuple[ft.Array, ft.Array]:
        window = self.log_weights(state, embedded.shape[1], target_lengths)
        y = embedded
        for i, rnn in enumerate(self.rnn):
            y, _ = rnn(y)
            weights, summary = self.look(i, y, state, window)
            y = y + summary
        return self.out(y), weights

    def _fed(self, embedded: ft.Array, state: DecoderState) -> ft.Array:
        if not self.input_feeding or state.summary is None:
            return embedded
        return embedded + state.summary
