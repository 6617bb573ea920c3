"""What the image models share: batches of random images, and the loss of a classifier."""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft

Batch = tuple[ft.Tensor, ft.Tensor]


class Classifier(nn.Module):
    """Gives a class to each image: `forward` maps images (N, 3, `image`, `image`) to scores
    (N, `classes`)."""

    image: int
    classes: int

    def batch(self, size: int, generator: ft.Generator | None = None) -> Batch:
        """Random images (size, 3, image, image) and their classes (size,)."""
        generator = generator or ft.default_generator()
        images = generator.normal((size, 3, self.image, self.image))
        return images, generator.integers(0, self.classes, (size,))

    def loss(self, batch: Batch) -> ft.Array:
        """The mean cross entropy."""
        images, labels = batch
        return nn.cross_entropy(self(images), labels)
