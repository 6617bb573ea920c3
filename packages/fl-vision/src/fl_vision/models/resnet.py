"""Residual networks with bottleneck blocks, with rename tables for published weights.

He et al., Deep residual learning for image recognition, 2016, with the stride of a stage in the 3x3
convolution of its first block instead of the 1x1 before it ("v1.5", Goyal et al., 2017). Names of
parameters are torchvision's, whose files need no table.
"""

from __future__ import annotations

from collections.abc import Sequence

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Rule, Table


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a narrow middle of `width`, and a shortcut past them.
    Four times as many channels come out."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1 = nn.Conv2D(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm(width)
        self.conv2 = nn.Conv2D(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm(width)
        self.conv3 = nn.Conv2D(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm(4 * width)
        self.downsample: nn.Module | None = None
        if stride > 1 or channels != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2D(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm(4 * width)
            )

    def forward(self, x: ft.Array) -> ft.Array:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = ft.relu(self.bn1(self.conv1(x)))
        x = ft.relu(self.bn2(self.conv2(x)))
        return ft.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet(nn.Module):
    """Images (N, 3, height, width) give scores (N, classes).

    Stages of `depths` blocks; the first is `width` wide, each other twice the one before it, at
    half the size. The defaults are ResNet-50; depths (3, 4, 23, 3) are ResNet-101, (3, 8, 36, 3)
    ResNet-152.
    """

    def __init__(
        self, depths: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
    ) -> None:
        self.conv1 = nn.Conv2D(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm(width)
        self.maxpool = nn.Pool2D(3, 2, 1)
        channels = width
        for stage, depth in enumerate(depths):
            narrow = width * 2**stage
            blocks = nn.Sequential()
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Bottleneck(channels, narrow, stride))
                channels = 4 * narrow
            setattr(self, f"layer{stage + 1}", blocks)
        self.stages = len(depths)
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.maxpool(ft.relu(self.bn1(self.conv1(images))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(self.avgpool(x).reshape(x.shape[:2]))


def _hugging_face() -> Table:
    start, stages = "resnet.embedder.embedder", "resnet.encoder.stages"
    rules = [
        Rule(f"{start}.convolution.{{p}}", "conv1.{p}"),
        Rule(f"{start}.normalization.{{p}}", "bn1.{p}"),
        Rule("classifier.1.{p}", "fc.{p}"),
    ]
    for stage in range(4):
        theirs, ours = f"{stages}.{stage}.layers.{{i}}", f"layer{stage + 1}.{{i}}"
        rules += [
            Rule(f"{theirs}.shortcut.convolution.{{p}}", f"{ours}.downsample.0.{{p}}"),
            Rule(f"{theirs}.shortcut.normalization.{{p}}", f"{ours}.downsample.1.{{p}}"),
        ]
        for place in range(3):
            layer = f"{theirs}.layer.{place}"
            rules += [
                Rule(f"{layer}.convolution.{{p}}", f"{ours}.conv{place + 1}.{{p}}"),
                Rule(f"{layer}.normalization.{{p}}", f"{ours}.bn{place + 1}.{{p}}"),
            ]
    return Table(*rules)


#: Files of transformers' ResNetForImageClassification.
RESNET_HUGGING_FACE = _hugging_face()
