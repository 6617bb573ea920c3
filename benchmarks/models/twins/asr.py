"""The acoustic model in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.twins.transformer import EncoderLayer


class ASRTransformer(nn.Module):
    def __init__(
        self,
        features: int = 80,
        frames: int = 1000,
        size: int = 768,
        heads: int = 4,
        layers: int = 36,
        classes: int = 9998,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(features, 2 * size, 7, 3, 3)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads, 4 * size, dropout) for _ in range(layers)
        )
        self.head = nn.Linear(size, classes)

    def forward(self, features: Tensor) -> Tensor:
        x = self.dropout(F.glu(self.conv(features), 1))
        x = x.transpose(1, 2)
        x = x + sinusoids(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        features, targets = batch
        return F.cross_entropy(self(features).flatten(0, 1), targets.flatten())


def sinusoids(x: Tensor) -> Tensor:
    """Sines and cosines of the step in turn, (steps, size) for x (N, steps, size). Vaswani et al.,
    2017."""
    _, steps, size = x.shape
    rates = 10000.0 ** (-torch.arange(0, size, 2, dtype=x.dtype) / size)
    angles = torch.arange(steps, dtype=x.dtype)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
