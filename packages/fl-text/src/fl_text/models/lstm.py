"""A recurrent language model of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.heads import FullSoftmax, Head
from fl_text.models.caches import StateCache
from fl_text.models.checks import check_tokens, one_cache_each


class LSTMLanguageModel(nn.Module):
    """Tokens (N, T) give scores (N, T, tokens) of the token after each. A `CausalNetwork`.

    An embedding, `layers` of LSTM and a head, with dropout before, between and behind the layers.
    The defaults are the small model of Zaremba et al., Recurrent neural network regularization,
    2014: two layers of 200 units, here with `dropout`.

    hidden  units of a layer; `size`, that of the embedding, unless given
    tied    the head shares its matrix with the embedding (Press & Wolf, 2017); hidden = size then
    head    another `Head` of vectors (..., hidden), in place of FullSoftmax

    The cache holds the state of all layers, without history: one cache for consecutive batches
    carries the state over, and gradients stop at the ends of batches.
    """

    def __init__(
        self,
        tokens: int,
        size: int = 200,
        hidden: int | None = None,
        layers: int = 2,
        dropout: float = 0.2,
        tied: bool = False,
        head: Head | None = None,
    ) -> None:
        hidden = size if hidden is None else hidden
        self.vocabulary = tokens
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = nn.init.uniform((tokens, size), -0.1, 0.1)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(size, hidden, layers, batch_first=True, dropout=dropout)
        if tied and (hidden != size or head is not None):
            raise TextError(
                f"[LSTMLanguageModel] tied=True with hidden {hidden} and size {size}: give equal "
                "sizes and no head of your own"
            )
        weight = self.embedding.weight if tied else None
        self.head: Any = head or FullSoftmax(hidden, tokens, weight=weight)

    def forward(self, tokens: ft.Array, caches: Sequence[StateCache] | None = None) -> ft.Array:
        """Scores (N, T, tokens); `caches` as in `hidden`."""
        scores: ft.Array = self.head(self.hidden(tokens, caches))
        return scores

    def hidden(self, tokens: ft.Array, caches: Sequence[StateCache] | None = None) -> ft.Array:
        """Vectors (N, T, hidden) of tokens (N, T), which extend `caches`."""
        check_tokens("LSTMLanguageModel", tokens)
        one_cache_each("LSTMLanguageModel", caches, 1)
        cache = caches[0] if caches else None
        if cache is not None:
            cache.check("LSTMLanguageModel", tokens.shape[0])
        x = self.dropout(self.embedding(tokens))
        x, state = self.lstm(x, (cache.arrays if cache else None) or None)
        if cache is not None:
            cache.update(state, tokens.shape[1])
        y: ft.Array = self.dropout(x)
        return y

    def caches(self) -> list[StateCache]:
        """One empty cache, of all layers."""
        return [StateCache(axis=1)]
