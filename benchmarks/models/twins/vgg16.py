"""VGG16 in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from models.twins.classifier import Classifier


class VGG16(Classifier):
    def __init__(
        self,
        widths: Sequence[int] = (64, 128, 256, 512, 512),
        hidden: int = 4096,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.features = nn.Sequential()
        channels = 3
        for width, depth in zip(widths, (2, 2, 3, 3, 3), strict=True):
            for _ in range(depth):
                self.features.append(nn.Conv2d(channels, width, 3, 1, 1))
                self.features.append(nn.ReLU(inplace=True))
                channels = width
            self.features.append(nn.MaxPool2d(2))
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(images)).flatten(1))
