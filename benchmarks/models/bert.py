"""A BERT-like encoder of 12 layers of 768, 108 million parameters.

Devlin et al., BERT: pre-training of deep bidirectional transformers for language understanding,
2019: the encoder of its base model, which predicts a token at every step. The output shares its
matrix with the embedding (Press & Wolf, 2017); without that there would be 132 million. Segments,
pooling and the layer in front of the output are left out.
"""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft

Batch = tuple[ft.Tensor, ft.Tensor]


class BERT(nn.Module):
    """`layers` encoder layers over `steps` tokens of a vocabulary of `tokens`. There may be more
    `positions`, and the output may have a matrix of its own, where it is not `tied`."""

    def __init__(
        self,
        tokens: int = 30522,
        steps: int = 128,
        size: int = 768,
        heads: int = 12,
        layers: int = 12,
        dropout: float = 0.1,
        positions: int | None = None,
        tied: bool = True,
    ) -> None:
        self.tokens, self.steps = tokens, steps
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = nn.init.normal((tokens, size), std=0.02)
        self.positions = nn.PositionEmbedding(positions or steps, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.layers = [
            nn.TransformerEncoderLayer(size, heads, 4 * size, dropout, "gelu")
            for _ in range(layers)
        ]
        self.output = None if tied else nn.Parameter(nn.init.normal((tokens, size), std=0.02))
        self.bias = nn.Parameter(ft.zeros((tokens,)))

    def forward(self, tokens: ft.Array) -> ft.Array:
        """Tokens (N, steps) give scores (N, steps, tokens)."""
        x = self.dropout(self.norm(self.positions(self.embedding(tokens))))
        for layer in self.layers:
            x = layer(x)
        output = self.embedding.weight if self.output is None else self.output
        return ft.linear(x, output, self.bias)

    def batch(self, size: int, generator: ft.Generator | None = None) -> Batch:
        """Random tokens and the ones to predict (size, steps)."""
        generator = generator or ft.default_generator()
        shape = (size, self.steps)
        return generator.integers(0, self.tokens, shape), generator.integers(0, self.tokens, shape)

    def loss(self, batch: Batch) -> ft.Array:
        """The mean cross entropy over all steps."""
        tokens, targets = batch
        return nn.cross_entropy(self(tokens), targets, axis=-1)


class PaperBERT(BERT):
    """With 406 million parameters, as the BERT-like model of the paper has. The paper prints no
    settings: these are inferred from the number."""

    def __init__(
        self,
        tokens: int = 50_265,
        steps: int = 128,
        size: int = 1024,
        heads: int = 16,
        layers: int = 24,
        positions: int = 512,
        **settings: Any,
    ) -> None:
        super().__init__(
            tokens, steps, size, heads, layers, positions=positions, tied=False, **settings
        )
