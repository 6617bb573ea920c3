"""ViT-B/16, 87 million parameters: the network of fl_vision, with what the benchmark needs.

Dosovitskiy et al., An image is worth 16x16 words: transformers for image recognition at scale,
2021. LayerDrop, which Flashlight trains it with, is left out, so that every step does the same
work.
"""

from __future__ import annotations

import fl_vision.models as vision
from models.classifier import Classifier


class ViT(Classifier, vision.ViT):
    """Settings as those of fl_vision's, with the `eps` of PyTorch's layers."""

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
        vision.ViT.__init__(self, patch, size, heads, layers, image, classes, dropout, eps=1e-5)
        self.image, self.classes = image, classes
