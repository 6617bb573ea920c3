"""ViT-B/16, 87 million parameters.

Dosovitskiy et al., An image is worth 16x16 words: transformers for image recognition at scale,
2021: the base model. LayerDrop, which Flashlight trains it with, is left out, so that every step
does the same work.
"""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft
from models.classifier import Classifier


class ViT(Classifier):
    """Patches of `patch` x `patch` pixels and a class token through `layers` encoder layers, which
    normalise first; the class is read off the token."""

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
        self.image, self.classes = image, classes
        self.patches = nn.Conv2D(3, size, patch, patch)
        self.token = nn.Parameter(nn.init.truncated_normal((1, 1, size), std=0.02))
        self.positions = nn.PositionEmbedding((image // patch) ** 2 + 1, size, dropout)
        self.layers = [
            nn.TransformerEncoderLayer(size, heads, 4 * size, dropout, "gelu", norm_first=True)
            for _ in range(layers)
        ]
        self.norm = nn.LayerNorm(size)
        self.head = nn.Linear(size, classes)

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.patches(images)
        n, size = x.shape[:2]
        x = ft.swapaxes(x.reshape(n, size, -1), 1, 2)
        token = ft.broadcast_to(self.token, (n, 1, size))
        x = self.positions(ft.concatenate([token, x], 1))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])
