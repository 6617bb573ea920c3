"""AlexNet, 61 million parameters.

Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014: the network of
Krizhevsky et al., 2012, on one device and without its local response normalisation. The names of
its parameters are those of published PyTorch weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import fl_nn as nn
import fl_tensor as ft
from models.classifier import Classifier


class AlexNet(Classifier):
    """Five convolutions of `channels` and three linear layers of `hidden` units; images of any size
    from 63 on."""

    def __init__(
        self,
        channels: Sequence[int] = (64, 192, 384, 256, 256),
        hidden: int = 4096,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        a, b, c, d, e = channels
        self.image, self.classes = image, classes
        self.features = nn.Sequential(
            nn.Conv2D(3, a, 11, 4, 2),
            nn.ReLU(),
            nn.Pool2D(3, 2),
            nn.Conv2D(a, b, 5, 1, 2),
            nn.ReLU(),
            nn.Pool2D(3, 2),
            nn.Conv2D(b, c, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2D(c, d, 3, 1, 1),
            nn.ReLU(),
            nn.Conv2D(d, e, 3, 1, 1),
            nn.ReLU(),
            nn.Pool2D(3, 2),
        )
        self.avgpool = nn.AdaptiveAvgPool2D(6)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(e * 6 * 6, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.avgpool(self.features(images))
        return self.classifier(x.reshape(x.shape[0], -1))
