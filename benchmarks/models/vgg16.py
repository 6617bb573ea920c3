"""VGG16, 138 million parameters.

Simonyan & Zisserman, Very deep convolutional networks for large-scale image recognition, 2015:
configuration D. The names of its parameters are those of published PyTorch weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import fl_nn as nn
import fl_tensor as ft
from models.classifier import Classifier


class VGG16(Classifier):
    """Convolutions of 3x3 in five stages of `widths`, each of which ends with half the size, and
    three linear layers of `hidden` units; images of any size from 32 on."""

    def __init__(
        self,
        widths: Sequence[int] = (64, 128, 256, 512, 512),
        hidden: int = 4096,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        self.image, self.classes = image, classes
        self.features = nn.Sequential()
        channels = 3
        for width, depth in zip(widths, (2, 2, 3, 3, 3), strict=True):
            for _ in range(depth):
                self.features.append(nn.Conv2D(channels, width, 3, 1, 1)).append(nn.ReLU())
                channels = width
            self.features.append(nn.Pool2D(2))
        self.avgpool = nn.AdaptiveAvgPool2D(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )
        for layer in (*self.features, *self.classifier):
            if isinstance(layer, (nn.Conv2D, nn.Linear)):  # He et al., 2015: deep without a norm
                layer.weight.tensor = nn.init.kaiming_normal(layer.weight.shape)

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.avgpool(self.features(images))
        return self.classifier(x.reshape(x.shape[0], -1))
