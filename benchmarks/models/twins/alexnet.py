"""AlexNet in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from models.twins.classifier import Classifier


class AlexNet(Classifier):
    def __init__(
        self,
        channels: Sequence[int] = (64, 192, 384, 256, 256),
        hidden: int = 4096,
        image: int = 224,
        classes: int = 1000,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        a, b, c, d, e = channels
        self.features = nn.Sequential(
            nn.Conv2d(3, a, 11, 4, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(a, b, 5, 1, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(b, c, 3, 1, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, d, 3, 1, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(d, e, 3, 1, 1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(e * 6 * 6, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(images)).flatten(1))
