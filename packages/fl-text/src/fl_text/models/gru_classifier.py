"""A classifier of short texts by their characters."""

from __future__ import annotations

from collections.abc import Sequence

import fl_nn as nn
import fl_tensor as ft
from fl_text.models.checks import check_tokens


class GRUClassifier(nn.Module):
    """Characters (N, T) give scores (N, classes), such as the languages of names.

    `layers` of GRU over embedded characters, and a product of the state behind the last character.
    The defaults are those of Flashlight's name classifier, two layers of 256 units.
    """

    def __init__(
        self,
        tokens: int,
        classes: int,
        hidden: int = 256,
        layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        self.embedding = nn.Embedding(tokens, hidden)
        self.gru = nn.GRU(hidden, hidden, layers, batch_first=True, dropout=dropout)
        self.output = nn.Linear(hidden, classes)

    def forward(
        self, tokens: ft.Array, lengths: Sequence[int] | ft.Array | None = None
    ) -> ft.Array:
        """`lengths`: how many characters of each text count; all unless given."""
        check_tokens("GRUClassifier", tokens)
        _, state = self.gru(self.embedding(tokens), lengths=lengths)
        scores: ft.Array = self.output(state[-1])
        return scores
