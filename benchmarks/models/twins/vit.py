"""ViT-B/16 in PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.twins.classifier import Classifier
from models.twins.positions import Positions
from models.twins.transformer import EncoderLayer


class ViT(Classifier):
    def __init__(
        self,
        patch: int = 16,
        size: int = 768,
        heads: int = 12,
        layers: int = 12,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, patch, patch)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, size))
        self.positions = Positions((image // patch) ** 2 + 1, size, dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(size, heads, 4 * size, dropout, "gelu", norm_first=True)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = self.positions(torch.cat([self.token.expand(len(x), -1, -1), x], 1))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])
