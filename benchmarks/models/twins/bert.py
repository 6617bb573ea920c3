"""The BERT-like encoder in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.twins.positions import Positions
from models.twins.transformer import EncoderLayer


class BERT(nn.Module):
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
        super().__init__()
        self.embedding = nn.Embedding(tokens, size)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.positions = Positions(positions or steps, size)
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads, 4 * size, dropout, "gelu") for _ in range(layers)
        )
        self.output = None if tied else nn.Parameter(0.02 * torch.randn(tokens, size))
        self.bias = nn.Parameter(torch.zeros(tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.norm(self.positions(self.embedding(tokens))))
        for layer in self.layers:
            x = layer(x)
        output = self.embedding.weight if self.output is None else self.output
        return F.linear(x, output, self.bias)

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        tokens, targets = batch
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())


class PaperBERT(BERT):
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
