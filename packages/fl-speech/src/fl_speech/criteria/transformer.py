"""TransformerCriterion: a Transformer decoder with one attention to the encoder's output."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn import init
from fl_speech.criteria.attention import Attention, ContentAttention
from fl_speech.criteria.decoder_criterion import DecoderCriterion
from fl_speech.criteria.decoder_state import DecoderState
from fl_speech.criteria.windows import Window


class TransformerCriterion(DecoderCriterion):
    """A decoder of causal Transformer layers, and the cross entropy of targets. Flashlight's
    TransformerCriterion.

    Embeddings of the tokens before go through `layers` of `TransformerEncoderLayer` with relative
    positions, 4 * hidden features inside, and no sight of later tokens. Then one attention to the
    encoder's output adds its summary, and a Linear layer makes scores. Steps keep keys and values
    (`KVCache`), so that decoding does not compute earlier tokens again.

    layers, heads, dropout, layer_drop   of the Transformer; heads must divide `hidden`
    attention                            None: ContentAttention

    What else there is, as in `Seq2Seq`. Parameters: embedding.weight, start_embedding, layers.i,
    attentions.0, out. Raises nn.ModuleError, ArgumentError.
    """

    def __init__(
        self,
        classes: int,
        hidden: int,
        eos: int,
        pad: int | None = None,
        max_length: int = 200,
        layers: int = 1,
        attention: Attention | None = None,
        window: Window | None = None,
        train_with_window: bool = False,
        pretrain_window: Window | None = None,
        teacher_forcing: float = 100.0,
        label_smoothing: float = 0.0,
        dropout: float = 0.0,
        layer_drop: float = 0.0,
        heads: int = 4,
        scale_mode: str = "none",
        reduction: str = "mean",
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        attention = attention or ContentAttention()
        super().__init__(
            classes, hidden, eos, pad, max_length, [attention], window, train_with_window,
            pretrain_window, teacher_forcing, label_smoothing, "rand", 1.0, scale_mode, reduction,
        )  # fmt: skip
        if layers < 1:
            raise nn.ModuleError(f"[TransformerCriterion] layers={layers}: at least 1")
        windows = [pretrain_window, *([window] if train_with_window else [])]
        if layer_drop and (
            attention.stepwise or any(w is not None and w.stepwise for w in windows)
        ):
            raise nn.ModuleError(
                f"[TransformerCriterion] layer_drop={layer_drop} with attention or a window that "
                "follows the step before: steps of one target cannot leave out different layers; "
                "set layer_drop to 0"
            )
        options: dict[str, Any] = {"generator": generator, "dtype": dtype}
        self.embedding = nn.Embedding(classes, hidden, **options)
        self.start_embedding = nn.Parameter(init.uniform((hidden,), -0.1, 0.1, **options))
        self.layers = [
            nn.TransformerEncoderLayer(
                hidden, heads, 4 * hidden, dropout, layer_drop=layer_drop, relative=max_length,
                causal=True, **options,
            )
            for _ in range(layers)
        ]  # fmt: skip
        self.out = nn.Linear(hidden, classes, **options)

    def embed(self, tokens: ft.Array) -> ft.Array:
        return self.embedding(tokens)

    def step(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array | None
    ) -> tuple[ft.Array, DecoderState]:
        window = self.log_weights(state, 1, target_lengths)
        y, hidden = embedded, list[ft.Array]()
        for i, layer in enumerate(self.layers):
            cache = nn.KVCache()
            if state.hidden:
                cache.keys, cache.values = state.hidden[2 * i : 2 * i + 2]
            y = layer(y, cache=cache)
            hidden += [x for x in (cache.keys, cache.values) if x is not None]
        weights, summary = self.look(0, y, state, window)
        return self.out((y + summary)[:, 0]), state.after(hidden, weights, summary)

    def decode_all(
        self, embedded: ft.Array, state: DecoderState, target_lengths: ft.Array
    ) -> tuple[ft.Array, ft.Array]:
        window = self.log_weights(state, embedded.shape[1], target_lengths)
        y = embedded
        for layer in self.layers:
            y = layer(y)
        weights, summary = self.look(0, y, state, window)
        return self.out(y + summary), weights
