"""An acoustic model: a convolution and a Transformer of 36 layers of 768, 263 million parameters.

Likhomanenko et al., Rethinking evaluation in ASR: are our models robust enough?, 2021, as the
benchmark of Flashlight has it: one convolution makes 3 frames of 10 ms into a step, a gated linear
unit follows, positions are sinusoidal, and layers normalise behind the sum. LayerDrop is left out,
so that every step of training does the same work; with 9,998 word pieces as classes the count is
that of the paper.

The loss is the cross entropy with a class for every step, as after a forced alignment. Training
without alignment uses CTC, which is a matter of the speech package; the network in front of it, and
the log-softmax over all classes and steps, is the same.
"""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft

Batch = tuple[ft.Tensor, ft.Tensor]


class ASRTransformer(nn.Module):
    """Features (N, `features`, `frames`) give the scores of `classes` for every third frame."""

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
        self.features, self.frames, self.classes = features, frames, classes
        self.conv = nn.Conv1D(features, 2 * size, 7, 3, 3)
        self.gate = nn.GatedLinearUnit(1)
        self.dropout = nn.Dropout(dropout)
        self.positions = nn.SinusoidalPositionEmbedding(size)
        self.layers = [
            nn.TransformerEncoderLayer(size, heads, 4 * size, dropout) for _ in range(layers)
        ]
        self.head = nn.Linear(size, classes)

    def forward(self, features: ft.Array) -> ft.Array:
        """(N, features, frames) gives (N, steps, classes)."""
        x = self.dropout(self.gate(self.conv(features)))
        x = self.positions(ft.swapaxes(x, 1, 2))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    @property
    def steps(self) -> int:
        """How many steps the convolution makes of all frames."""
        return (self.frames - 1) // 3 + 1

    def batch(self, size: int, generator: ft.Generator | None = None) -> Batch:
        """Random features (size, features, frames), 100 frames to the second, and the class of
        every step (size, steps)."""
        generator = generator or ft.default_generator()
        features = generator.normal((size, self.features, self.frames))
        return features, generator.integers(0, self.classes, (size, self.steps))

    def loss(self, batch: Batch) -> ft.Array:
        """The mean cross entropy over all steps."""
        features, targets = batch
        return nn.cross_entropy(self(features), targets, axis=-1)
