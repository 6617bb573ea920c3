"""A causal transformer with adaptive embedding and adaptive softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.heads import AdaptiveSoftMax, FullSoftmax, Head
from fl_text.models.checks import check_tokens, one_cache_each, places_of

POSITIONS = ("sinusoidal", "learned")


class TransformerLanguageModel(nn.Module):
    """Tokens (N, T) give scores (N, T, tokens) of the token after each. A `CausalNetwork`.

    size, heads, layers, hidden   of the layers; `hidden` is the width between the two products
    cutoffs     of an adaptive embedding (Baevski & Auli, 2019) and an adaptive softmax (Grave et
                al., 2017), for tokens by falling frequency. None for ordinary ones
    positions   "sinusoidal", of embeddings times sqrt(size) (Vaswani et al., 2017), or "learned"
    steps       with learned positions, how many there are
    norm_first  layers normalise first, and the output of the last is normalised
    tied        without cutoffs: the head shares its matrix with the embedding
    head        another `Head` of vectors (..., size)
    layer_drop  probability that training leaves out a layer
    """

    def __init__(
        self,
        tokens: int,
        size: int = 512,
        heads: int = 8,
        layers: int = 8,
        hidden: int = 1024,
        dropout: float = 0.3,
        cutoffs: Sequence[int] | None = None,
        div_value: float = 4.0,
        positions: str = "sinusoidal",
        steps: int | None = None,
        norm_first: bool = False,
        tied: bool = False,
        activation: str = "relu",
        layer_drop: float = 0.0,
        head: Head | None = None,
    ) -> None:
        _check(positions, steps, tied, cutoffs is not None or head is not None)
        self.vocabulary, self.steps = tokens, steps
        if cutoffs is None:
            embedding = nn.Embedding(tokens, size)
            embedding.weight.tensor = embedding.weight.tensor * size**-0.5
            self.embedding: nn.Module = embedding
        else:
            self.embedding = nn.AdaptiveEmbedding(tokens, size, cutoffs, div_value)
        if positions == "learned":
            self.positions: nn.Module = nn.PositionEmbedding(steps or 0, size)
        else:
            self.positions = nn.SinusoidalPositionEmbedding(size, math.sqrt(size))
        self.dropout = nn.Dropout(dropout)
        self.layers = [
            nn.TransformerEncoderLayer(
                size,
                heads,
                hidden,
                dropout,
                activation,
                norm_first=norm_first,
                layer_drop=layer_drop,
                causal=True,
            )
            for _ in range(layers)
        ]
        self.norm = nn.LayerNorm(size) if norm_first else None
        if head is None and cutoffs is not None:
            head = AdaptiveSoftMax(size, tokens, cutoffs, div_value)
        elif head is None:
            weight = embedding.weight if tied else None
            head = FullSoftmax(size, tokens, bias=not tied, weight=weight)
        self.head: Any = head

    @classmethod
    def large(
        cls,
        tokens: int = 150_000,
        cutoffs: Sequence[int] | None = (10_000, 50_000),
        **settings: Any,
    ) -> TransformerLanguageModel:
        """16 layers of 1024 features, 8 heads and a hidden width of 4096, dropout 0.1: the
        benchmark of Flashlight, with a vocabulary of 150,000."""
        chosen = {"size": 1024, "layers": 16, "hidden": 4096, "dropout": 0.1} | settings
        return cls(tokens, cutoffs=cutoffs, **chosen)

    @classmethod
    def small(
        cls,
        tokens: int = 150_000,
        cutoffs: Sequence[int] | None = (10_000, 50_000),
        **settings: Any,
    ) -> TransformerLanguageModel:
        """8 layers of 512 features, 8 heads and a hidden width of 1024, dropout 0.3."""
        return cls(tokens, cutoffs=cutoffs, **settings)

    def forward(self, tokens: ft.Array, caches: Sequence[nn.Cache] | None = None) -> ft.Array:
        """Scores (N, T, tokens); `caches` as in `hidden`."""
        scores: ft.Array = self.head(self.hidden(tokens, caches))
        return scores

    def hidden(
        self,
        tokens: ft.Array,
        caches: Sequence[nn.Cache] | None = None,
        documents: ft.Array | None = None,
    ) -> ft.Array:
        """Vectors (N, T, size) of tokens (N, T), which extend `caches`. `documents` (N, T) are
        numbers as those of `PackedDocuments`: tokens see those of their own document alone, whose
        positions begin at 0. There are no caches then."""
        check_tokens("TransformerLanguageModel", tokens)
        one_cache_each("TransformerLanguageModel", caches, len(self.layers))
        before, mask = places_of("TransformerLanguageModel", tokens, caches, documents)
        x = self.dropout(self.positions(self.embedding(tokens), before))
        for place, layer in enumerate(self.layers):
            x = layer(x, mask, cache=caches[place] if caches else None)
        return x if self.norm is None else self.norm(x)

    def caches(self) -> list[nn.KVCache]:
        """Empty ones, one for each layer."""
        return [nn.KVCache() for _ in self.layers]


def _check(positions: str, steps: int | None, tied: bool, own_output: bool) -> None:
    name = "TransformerLanguageModel"
    if positions not in POSITIONS:
        raise TextError(f"[{name}] positions={positions!r}: one of {', '.join(POSITIONS)}")
    if (positions == "learned") != (steps is not None):
        raise TextError(
            f"[{name}] positions={positions!r} with steps={steps}: learned positions need the "
            "number of steps, sinusoidal ones have none"
        )
    if tied and own_output:
        raise TextError(
            f"[{name}] tied=True: give neither cutoffs nor a head, whose matrices are of their own"
        )
