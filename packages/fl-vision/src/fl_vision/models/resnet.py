"""Residual networks, with rename tables for published weights.

He et al., Deep residual learning for image recognition, 2016. The stride of a stage with bottleneck
blocks is in the 3x3 convolution of its first block instead of the 1x1 before it ("v1.5", Goyal et
al., 2017). Names of parameters are torchvision's, whose files need no table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Rule, Table
from fl_vision.errors import UsageError
from fl_vision.models.feature_network import FeatureNetwork


class BasicBlock(nn.Module):
    """Two 3x3 convolutions of `width` channels, and a shortcut past them."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1 = _convolution(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm(width)
        self.conv2 = _convolution(width, width, 3)
        self.bn2 = nn.BatchNorm(width)
        self.downsample = _shortcut(channels, width, stride)

    def forward(self, x: ft.Array) -> ft.Array:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = ft.relu(self.bn1(self.conv1(x)))
        return ft.relu(self.bn2(self.conv2(x)) + shortcut)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around a narrow middle of `width`, and a shortcut past them.
    Four times as many channels come out."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        self.conv1 = _convolution(channels, width, 1)
        self.bn1 = nn.BatchNorm(width)
        self.conv2 = _convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm(width)
        self.conv3 = _convolution(width, 4 * width, 1)
        self.bn3 = nn.BatchNorm(4 * width)
        self.downsample = _shortcut(channels, 4 * width, stride)

    def forward(self, x: ft.Array) -> ft.Array:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = ft.relu(self.bn1(self.conv1(x)))
        x = ft.relu(self.bn2(self.conv2(x)))
        return ft.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet(FeatureNetwork):
    """Images (N, channels, height, width) give scores (N, classes).

    depths      blocks of each stage; the first is `width` wide, each other twice the one before it,
                at half the size
    classes     0: no last layer, and the means of the last map (N, channels) come out
    bottleneck  blocks of three convolutions; False: of two
    small_stem  a 3x3 convolution at full size in place of the 7x7 with stride 2 and the pooling,
                for images of some 32 pixels
    channels    of the images

    The defaults are ResNet-50. Raises `UsageError` for sizes below 1.
    """

    head_names = ("fc",)

    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        classes: int = 1000,
        *,
        bottleneck: bool = True,
        small_stem: bool = False,
        channels: int = 3,
    ) -> None:
        if not depths or min(*depths, width, channels) < 1 or classes < 0:
            raise UsageError(
                f"[ResNet] depths {tuple(depths)}, width {width}, {channels} channels, {classes} "
                "classes: sizes are at least 1; without a last layer there are 0 classes"
            )
        block = Bottleneck if bottleneck else BasicBlock
        self.small_stem = small_stem
        self.conv1 = _convolution(channels, width, *((3, 1) if small_stem else (7, 2)))
        self.bn1 = nn.BatchNorm(width)
        self.maxpool = nn.Identity() if small_stem else nn.Pool2D(3, 2, 1)
        features = width
        for stage, depth in enumerate(depths):
            blocks = nn.Sequential()
            for place in range(depth):
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(block(features, width * 2**stage, stride))
                features = block.expansion * width * 2**stage
            setattr(self, f"layer{stage + 1}", blocks)
        self.stages = len(depths)
        self.widths = tuple(block.expansion * width * 2**stage for stage in range(len(depths)))
        self.avgpool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(features, classes) if classes else None

    def stem(self, images: ft.Array) -> ft.Array:
        return self.maxpool(ft.relu(self.bn1(self.conv1(images))))

    def stem_modules(self) -> list[nn.Module]:
        return [self.conv1, self.bn1]

    def stage_modules(self) -> list[nn.Module]:
        return [getattr(self, f"layer{stage + 1}") for stage in range(self.stages)]

    def classify(self, features: ft.Array) -> ft.Array:
        means = self.avgpool(features).reshape(features.shape[:2])
        return means if self.fc is None else self.fc(means)


def _variant(name: str, depths: tuple[int, ...], bottleneck: bool) -> Callable[..., ResNet]:
    def build(classes: int = 1000, *, width: int = 64, **options: Any) -> ResNet:
        return ResNet(depths, width, classes, bottleneck=bottleneck, **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""ResNet-{name[6:]}: a `ResNet` of depths {depths}, with
    {"bottleneck" if bottleneck else "basic"} blocks. Options are those of `ResNet`."""
    return build


resnet18 = _variant("resnet18", (2, 2, 2, 2), False)
resnet34 = _variant("resnet34", (3, 4, 6, 3), False)
resnet50 = _variant("resnet50", (3, 4, 6, 3), True)
resnet101 = _variant("resnet101", (3, 4, 23, 3), True)
resnet152 = _variant("resnet152", (3, 8, 36, 3), True)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2D:
    # He initialisation by the outputs keeps the variance of gradients: He et al., 2015.
    layer = nn.Conv2D(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    layer.weight.tensor = nn.init.kaiming_normal(layer.weight.shape, outputs * kernel**2)
    return layer


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm(outputs))


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


#: Files of transformers' ResNetForImageClassification, with either kind of block.
RESNET_HUGGING_FACE = _hugging_face()
