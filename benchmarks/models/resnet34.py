"""ResNet-34, 21.8 million parameters: the network of fl_vision, with what the benchmark needs.

He et al., Deep residual learning for image recognition, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

from fl_vision.models import ResNet
from models.classifier import Classifier


class ResNet34(Classifier, ResNet):
    """`depths` and `width` as those of ResNet; images are `image` pixels wide and high."""

    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        image: int = 224,
        classes: int = 1000,
    ) -> None:
        ResNet.__init__(self, depths, width, classes, bottleneck=False)
        self.image, self.classes = image, classes
