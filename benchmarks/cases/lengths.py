"""Training on sequences of random number and length: no two steps ask for the same memory."""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft

Batch = tuple[ft.Tensor, ft.Tensor]


class NextToken(nn.Module):
    """Predicts the next token of sequences, by 2 layers of LSTM or of a causal Transformer.

    A batch has 4 to ``batch`` sequences of 8 to ``steps`` tokens.
    """

    def __init__(
        self,
        kind: str,
        tokens: int = 500,
        size: int = 256,
        heads: int = 4,
        batch: int = 16,
        steps: int = 128,
    ) -> None:
        self.tokens, self.most = tokens, (batch, steps)
        self.embedding = nn.Embedding(tokens, size)
        self.lstm = self.layers = None
        if kind == "lstm":
            self.lstm = nn.LSTM(size, size, layers=2, batch_first=True)
        else:
            self.layers = [
                nn.TransformerEncoderLayer(size, heads, 4 * size, causal=True) for _ in range(2)
            ]
        self.head = nn.Linear(size, tokens)

    def forward(self, tokens: ft.Array) -> ft.Array:
        """Tokens (N, steps) give scores (N, steps, tokens)."""
        x = self.embedding(tokens)
        if self.lstm is not None:
            x, _ = self.lstm(x)
        for layer in self.layers or ():
            x = layer(x)
        return self.head(x)

    def batch(self, number: int) -> Batch:
        """Random tokens and the ones to predict. Equal numbers give equal batches."""
        generator = ft.Generator(number)
        count, length = (
            int(generator.integers(low, most + 1, ()).item())
            for low, most in zip((min(4, self.most[0]), 8), self.most)
        )
        shape = (count, length)
        return generator.integers(0, self.tokens, shape), generator.integers(0, self.tokens, shape)

    def loss(self, batch: Batch) -> ft.Array:
        """The mean cross entropy over all tokens."""
        tokens, targets = batch
        return nn.cross_entropy(self(tokens), targets, axis=-1)
