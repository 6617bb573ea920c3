"""The base class of criteria with a decoder: what recurrent and Transformer decoders share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import arange_like, tensor_of
from fl_speech.criteria.attention import Attention
from fl_speech.criteria.attention.base import frame_mask
from fl_speech.criteria.batch import Whole, check_emissions, frame_counts, whole
from fl_speech.criteria.criterion import Criterion, scaled
from fl_speech.criteria.decoder_state import DecoderState
from fl_speech.criteria.emitting import EmittingModel, beam_search, before_end
from fl_speech.criteria.labels import Labels, labels_of, unpadded
from fl_speech.criteria.sampling import Sampling
from fl_speech.criteria.windows import Window
from fl_text.decoder import Hypothesis


class DecoderCriterion(Criterion):
    """Base class: the cross entropy of targets and a decoder that looks at an encoder's output.

    The encoder's output (B, T, width) takes the place of emissions. Targets (B, L) are tokens, -1
    (and `pad`) after the end; the end token `eos` is appended where a target has none. The loss of
    a sample is the sum over its tokens.

    A subclass defines `start_embedding`, `embed`, `step` and `decode_all`.
    """

    decoding: ClassVar[str] = "seq2seq"

    def __init__(
        self,
        classes: int,
        hidden: int,
        eos: int,
        pad: int | None,
        max_length: int,
        attentions: Sequence[Attention],
        window: Window | None,
        train_with_window: bool,
        pretrain_window: Window | None,
        teacher_forcing: float,
        label_smoothing: float,
        sampling: str,
        gumbel_temperature: float,
        scale_mode: str,
        reduction: str,
    ) -> None:
        super().__init__(scale_mode, reduction)
        name = type(self).__name__
        if min(classes, hidden, max_length) < 1:
            raise nn.ModuleError(
                f"[{name}] {classes} classes, hidden {hidden}, max_length {max_length}: all at "
                "least 1"
            )
        if not 0 <= eos < classes:
            raise nn.ModuleError(f"[{name}] eos {eos}: a class, 0 to {classes - 1}")
        if not 0 <= label_smoothing < 1:
            raise nn.ModuleError(f"[{name}] label_smoothing={label_smoothing}: a share in [0, 1)")
        self.attentions = list(attentions)
        if not self.attentions or len({a.heads for a in self.attentions}) > 1:
            raise nn.ModuleError(
                f"[{name}] attentions with {[a.heads for a in self.attentions]} heads: give at "
                "least one, all with as many heads"
            )
        self.classes, self.hidden, self.eos, self.pad = classes, hidden, eos, pad
        self.max_length, self.window = max_length, window
        self.train_with_window, self.pretrain_window = train_with_window, pretrain_window
        self.label_smoothing = label_smoothing
        self.sampling = Sampling(classes, teacher_forcing, sampling, gumbel_temperature)
        #: Whether training uses `pretrain_window`; set it for the first updates.
        self.pretraining = False

    # ---- what a subclass defines -----------------------------------------------------------------

    def embed(self, tokens: ft.Array) -> ft.Array:
        """Embeddings (..., hidden) of tokens (...), or the means of them by floating shares
        (..., classes)."""
        raise self._undefined("embed")

    def step(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array | None
    ) -> tuple[ft.Array, DecoderState]:
        """Scores (B, classes) after one more token, whose embedding is (B, 1, hidden)."""
        raise self._undefined("step")

    def decode_all(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array
    ) -> tuple[ft.Array, ft.Array]:
        """Scores (B, U, classes) and weights (B, heads * U, T) of all steps at once."""
        raise self._undefined("decode_all")

    start_embedding: nn.Parameter

    # ---- the loss --------------------------------------------------------------------------------

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled loss of each sample, (B,); L counts the end token."""
        labels = self.labels(emissions, targets, lengths)
        scores, _ = self._decoder()(emissions, targets, lengths)
        found = nn.cross_entropy(
            scores,
            ft.asarray(labels.expected, ft.int64, scores.device, scores.backend),
            "none",
            ignore_index=-1,
            axis=-1,
            label_smoothing=self.label_smoothing if self.training else 0.0,
        )
        return scaled(ft.sum(found, 1), self.scale_mode, labels.frames, labels.counts)

    def labels(self, encoded: ft.Array, targets: Whole, lengths: Whole | None = None) -> Labels:
        """The targets of a batch, checked, with end tokens. Raises as `check_batch`."""
        name = type(self).__name__
        return labels_of(name, encoded, targets, lengths, self.classes, self.eos, self.pad)

    def target_lengths(self, targets: Whole) -> np.ndarray:
        """The labels of each target (B, L), int64 (B,): without what is negative or `pad` at its
        end."""
        return super().target_lengths(unpadded(type(self).__name__, targets, self.pad))

    # ---- all tokens of targets -------------------------------------------------------------------

    def active_window(self) -> Window | None:
        """The window of the present mode: in training that of `pretrain_window` or `window`, if
        they are wanted there; otherwise `window`."""
        if not self.training:
            return self.window
        if self.pretraining and self.pretrain_window is not None:
            return self.pretrain_window
        return self.window if self.train_with_window else None

    def is_sequential(self) -> bool:
        """Whether steps depend on those before in ways that need one call after another."""
        parts = [*self.attentions, self.active_window()]
        sampled = self.training and self.sampling.needs_scores()
        return sampled or any(part is not None and part.stepwise for part in parts)

    def vectorized_decoder(
        self, encoded: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> tuple[ft.Array, ft.Array]:
        """Scores (B, U, classes) of the tokens of targets, and weights (B, heads * U, T), in one
        call for all steps. U is one more than the longest target, for its end.

        In training, each token that the decoder sees is one of the target with the probability
        `teacher_forcing`, otherwise any. Raises nn.ModuleError where `is_sequential()`.
        """
        if self.is_sequential():
            raise nn.ModuleError(
                f"[{type(self).__name__}] vectorized_decoder: location attention, a median window, "
                "input feeding, and sampling 'model' or 'gumbel' in training go step by step: use "
                "sequential_decoder, as the loss does"
            )
        labels = self.labels(encoded, targets, lengths)
        state = self.start(encoded, lengths)
        batch, steps = labels.expected.shape
        embedded = self._first(batch)
        if steps > 1:
            tokens = self._tensor(np.maximum(labels.expected[:, :-1], 0), encoded)
            embedded = ft.concatenate([embedded, self.embed(self.sampling.mixed(tokens))], 1)
        return self.decode_all(embedded, state, self._tensor(labels.counts, encoded))

    def sequential_decoder(
        self, encoded: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> tuple[ft.Array, ft.Array]:
        """What `vectorized_decoder` gives, step by step.

        In training, the whole batch sees the tokens of targets at a step with the probability
        `teacher_forcing`, otherwise by `sampling`: any ("rand"), or the best ones of the step
        before ("model"). With "gumbel" it always sees the mean of all by softmax of the scores
        with Gumbel noise, divided by the temperature (Jang et al., 2017); the loss is that of
        these scores, as in the original.
        """
        labels = self.labels(encoded, targets, lengths)
        state = self.start(encoded, lengths)
        batch, steps = labels.expected.shape
        counts = self._tensor(labels.counts, encoded)
        tokens = self._tensor(np.maximum(labels.expected, 0), encoded)
        embedded = self._first(batch)
        found, weights = [], []
        for u in range(steps):
            scores, state = self.step(embedded, state, counts)
            following, scores = self.sampling.next(tokens[:, u], scores)
            found.append(scores)
            weights.append(state.weights)
            if u + 1 < steps:
                embedded = self._fed(ft.expand_dims(self.embed(following), 1), state)
        heads = ft.stack(weights, 2)  # (B, heads, U, T)
        return ft.stack(found, 1), heads.reshape(batch, -1, heads.shape[-1])

    def attention_weights(
        self, encoded: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> ft.Array:
        """The weights (B, heads * U, T) of the last attention while the decoder sees the targets,
        in evaluation mode: what `fl_nn.plot.attention` draws."""
        with nn.evaluating(self):
            return tensor_of(self._decoder()(encoded, targets, lengths)[1])

    # ---- one token after another -----------------------------------------------------------------

    def start(self, encoded: ft.Array, lengths: Whole | None = None) -> DecoderState:
        """The state before the first token of an encoder's output (B, T, width)."""
        name = type(self).__name__
        check_emissions(name, encoded)
        mask = frame_mask(name, encoded, lengths)
        counts = frame_counts(name, encoded, lengths).astype(np.float32)
        return DecoderState(
            tuple(attention.memory(encoded) for attention in self.attentions),
            mask,
            ft.asarray(counts, ft.float32, encoded.device, encoded.backend),
        )

    def decode_step(
        self, tokens: Whole | None, state: DecoderState
    ) -> tuple[ft.Array, DecoderState]:
        """Scores (B, classes), not normalised, of the token that follows `tokens` (B,), and the
        new state.

        Before the first token, `tokens` are None or all -1. Where the state is of one recording,
        there may be any number of them: its hypotheses.
        """
        name = type(self).__name__
        if state.step == 0:
            batch = state.rows if tokens is None else len(whole(name, "tokens", tokens))
            return self.step(self._first(batch), state, None)
        if tokens is None:
            raise nn.ModuleError(
                f"[{name}] decode_step: {state.step} outputs, but no previous tokens"
            )
        previous = whole(name, "tokens", tokens)
        if previous.shape != (state.rows,):
            raise ft.ShapeError(
                f"[{name}] decode_step: tokens {previous.shape} for a state of {state.rows} rows"
            )
        embedded = self.embed(self._tensor(previous, state.lengths))
        return self.step(self._fed(ft.expand_dims(embedded, 1), state), state, None)

    def decode_batch_step(
        self, tokens: Sequence[int], states: Sequence[DecoderState]
    ) -> tuple[np.ndarray, list[DecoderState]]:
        """Logarithms of probabilities (k, classes) after each of k hypotheses of one recording,
        and their states: one batched step for all."""
        if len(tokens) != len(states):
            raise nn.ModuleError(
                f"[{type(self).__name__}] decode_batch_step: {len(tokens)} tokens and "
                f"{len(states)} states: give one of each for each hypothesis"
            )
        with nn.evaluating(self):
            scores, state = self.decode_step(list(tokens), DecoderState.join(states))
            return ft.log_softmax(scores, -1).numpy(), state.split()

    def best_path(self, emissions: ft.Array, lengths: Whole | None = None) -> list[np.ndarray]:
        """The tokens of each sample, int64, the most likely one after the other (greedily); up to
        the end token, which is left out, or `max_length`."""
        with nn.evaluating(self):
            state, tokens = self.start(emissions, lengths), None
            chosen = np.empty((len(emissions), 0), np.int64)
            ends = np.zeros(len(emissions), np.bool_)
            while not ends.all() and chosen.shape[1] < self.max_length:
                scores, state = self.decode_step(tokens, state)
                tokens = ft.argmax(scores, -1).numpy()
                chosen = np.concatenate([chosen, tokens[:, None]], 1)
                ends |= tokens == self.eos
        return [before_end(row, self.eos) for row in chosen]

    def emitting_model(
        self, temperature: float = 1.0, attention_threshold: float | None = None
    ) -> EmittingModel:
        """The update function of the sequence-to-sequence decoders of fl-text: see
        `EmittingModel`."""
        return EmittingModel(self, temperature, attention_threshold)

    def beam_search(
        self,
        emissions: ft.Array,
        lengths: Whole | None = None,
        beam_size: int = 10,
        max_length: int | None = None,
        n_best: int | None = None,
    ) -> list[list[Hypothesis]]:
        """For each sample its hypotheses, the best first: `beam_size` at most, without lexicon
        and language model. `max_length` is that of the criterion unless given."""
        return beam_search(self, emissions, lengths, beam_size, max_length, n_best)

    def beam_path(
        self, emissions: ft.Array, lengths: Whole | None = None, beam_size: int = 10
    ) -> list[np.ndarray]:
        """The tokens of the best hypothesis of each sample, int64, without the end token."""
        found = self.beam_search(emissions, lengths, beam_size, n_best=1)
        return [before_end(np.array(h[0].tokens if h else [], np.int64), self.eos) for h in found]

    def align(
        self, emissions: ft.Array, targets: Whole, lengths: Whole | None = None
    ) -> list[np.ndarray]:
        """Raises nn.ModuleError: tokens of a decoder have no frames."""
        raise nn.ModuleError(
            f"[{type(self).__name__}] align: a decoder does not say which frames a token has: use "
            "CTC or ASG, or look at attention_weights()"
        )

    # ---- parts -----------------------------------------------------------------------------------

    def log_weights(
        self, state: DecoderState, count: int, target_lengths: ft.Array | None
    ) -> ft.Array | None:
        """The window of `count` steps from that of the state on, for a row of each hypothesis."""
        window = self.active_window()
        if window is None:
            return None
        lengths, previous = state.lengths, None
        if state.weights is not None:
            previous = tensor_of(state.weights)
            lengths = ft.broadcast_to(lengths, previous.shape[:1])
        steps = arange_like(lengths, state.step, state.step + count, ft.int64)
        return window(steps, state.frames, lengths, target_lengths, previous)

    def look(
        self,
        attention: int,
        y: ft.Array,
        state: DecoderState,
        log_weights: ft.Array | None,
    ) -> tuple[ft.Array, ft.Array]:
        """Weights and summaries of states y (B, U, hidden) by one of the attentions."""
        if log_weights is not None and log_weights.shape[0] != y.shape[0]:
            log_weights = ft.broadcast_to(log_weights, (y.shape[0], *log_weights.shape[1:]))
        return self.attentions[attention].attend(
            y, state.memory[attention], state.weights, log_weights, state.mask
        )

    def _decoder(self) -> Callable[..., tuple[ft.Array, ft.Array]]:
        return self.sequential_decoder if self.is_sequential() else self.vectorized_decoder

    def _fed(self, embedded: ft.Array, state: DecoderState) -> ft.Array:
        """The input of a step: the embedding of the token before."""
        return embedded

    def _first(self, batch: int) -> ft.Array:
        start = ft.expand_dims(self.start_embedding, (0, 1))
        return ft.broadcast_to(start, (batch, 1, self.hidden))

    def _tensor(self, values: np.ndarray, like: ft.Array) -> ft.Tensor:
        return ft.asarray(values, ft.int64, like.device, like.backend)

    def extra_repr(self) -> str:
        text = f"{self.classes}, {self.hidden}, eos={self.eos}"
        return text + (f", pad={self.pad}" if self.pad is not None else "")
