"""ConvNeXt, with rename tables for published weights.

Liu et al., A ConvNet for the 2020s, 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Rule, Squeeze, Table
from fl_vision.errors import UsageError
from fl_vision.models.feature_network import FeatureNetwork
from fl_vision.models.initialisation import linear_drop_path, truncate_normal

EPS = 1e-6


class ConvNeXtBlock(nn.Module):
    """A 7x7 convolution of each channel by itself, LayerNorm over channels, a hidden layer four
    times as wide with GELU, a learned scale for each channel, and a shortcut past them:
    (N, channels, height, width) give the same shape."""

    def __init__(self, channels: int, layer_scale: float = 1e-6, drop_path: float = 0.0) -> None:
        self.convolution = nn.Conv2D(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, EPS)
        self.linear1 = nn.Linear(channels, 4 * channels)
        self.linear2 = nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(nn.init.constant((channels,), layer_scale))
        self.drop_path = nn.DropPath(drop_path)

    def forward(self, x: ft.Array) -> ft.Array:
        y = ft.permute(self.convolution(x), (0, 2, 3, 1))  # channels last, where Linear wants them
        y = self.linear2(ft.gelu(self.linear1(self.norm(y)))) * self.scale
        return x + self.drop_path(ft.permute(y, (0, 3, 1, 2)))


class ConvNeXt(FeatureNetwork):
    """Images (N, channels, height, width) give scores (N, classes).

    depths, widths  blocks and channels of each stage
    classes         0: no last layer, and the normalised means (N, channels) come out
    drop_path       of the last block; that of the others grows linearly from 0
    layer_scale     what the scale of each branch starts with
    channels        of the images

    The defaults are ConvNeXt-T. Raises `UsageError` for sizes below 1, and for `widths` that are
    not as many as `depths`.
    """

    head_names = ("head",)

    def __init__(
        self,
        depths: Sequence[int] = (3, 3, 9, 3),
        widths: Sequence[int] = (96, 192, 384, 768),
        classes: int = 1000,
        *,
        drop_path: float = 0.0,
        layer_scale: float = 1e-6,
        channels: int = 3,
    ) -> None:
        sizes = (*depths, *widths, channels)
        if not depths or len(depths) != len(widths) or min(sizes) < 1 or classes < 0:
            raise UsageError(
                f"[ConvNeXt] depths {tuple(depths)}, widths {tuple(widths)}, {channels} channels, "
                f"{classes} classes: as many widths as depths, all at least 1; without a last "
                "layer there are 0 classes"
            )
        self.widths = tuple(widths)
        probabilities = iter(linear_drop_path("ConvNeXt", drop_path, sum(depths)))
        self.start = _reduction(channels, widths[0], 4, norm_first=False)
        self.reductions = [
            _reduction(before, after, 2, norm_first=True)
            for before, after in zip(widths, widths[1:])
        ]
        self.blocks = [
            nn.Sequential(
                *(ConvNeXtBlock(width, layer_scale, next(probabilities)) for _ in range(depth))
            )
            for depth, width in zip(depths, widths)
        ]
        self.norm = nn.LayerNorm(widths[-1], EPS)
        self.head = nn.Linear(widths[-1], classes) if classes else None
        truncate_normal(self)

    def stem(self, images: ft.Array) -> ft.Array:
        return self.start(images)

    def stem_modules(self) -> list[nn.Module]:
        return [self.start]

    def stage_modules(self) -> list[nn.Module]:
        later = zip(self.reductions, self.blocks[1:])
        return [self.blocks[0], *(nn.Sequential(*stage) for stage in later)]

    def classify(self, features: ft.Array) -> ft.Array:
        means = self.norm(ft.mean(features, (2, 3)))
        return means if self.head is None else self.head(means)


def _reduction(inputs: int, outputs: int, size: int, norm_first: bool) -> nn.Sequential:
    norm = nn.LayerNorm(inputs if norm_first else outputs, EPS, axis=1)
    convolution = nn.Conv2D(inputs, outputs, size, size)
    return nn.Sequential(*((norm, convolution) if norm_first else (convolution, norm)))


def _variant(
    name: str, depths: tuple[int, ...], widths: tuple[int, ...]
) -> Callable[..., ConvNeXt]:
    def build(classes: int = 1000, **options: Any) -> ConvNeXt:
        return ConvNeXt(depths, widths, classes, **options)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""A `ConvNeXt` of depths {depths} and widths {widths}. Options are those of
    `ConvNeXt`."""
    return build


convnext_t = _variant("convnext_t", (3, 3, 9, 3), (96, 192, 384, 768))
convnext_s = _variant("convnext_s", (3, 3, 27, 3), (96, 192, 384, 768))
convnext_b = _variant("convnext_b", (3, 3, 27, 3), (128, 256, 512, 1024))


def _torchvision() -> Table:
    rules = [
        Rule("features.0.{k}.{p}", "start.{k}.{p}"),
        Rule("classifier.0.{p}", "norm.{p}"),
        Rule("classifier.2.{p}", "head.{p}"),
    ]
    for stage in range(4):
        block, ours = f"features.{2 * stage + 1}.{{i}}", f"blocks.{stage}.{{i}}"
        rules += [
            Rule(f"{block}.layer_scale", f"{ours}.scale", Squeeze(1), Squeeze(1)),
            Rule(f"{block}.block.0.{{p}}", f"{ours}.convolution.{{p}}"),
            Rule(f"{block}.block.2.{{p}}", f"{ours}.norm.{{p}}"),
            Rule(f"{block}.block.3.{{p}}", f"{ours}.linear1.{{p}}"),
            Rule(f"{block}.block.5.{{p}}", f"{ours}.linear2.{{p}}"),
        ]
        if stage:
            rules.append(
                Rule(f"features.{2 * stage}.{{k}}.{{p}}", f"reductions.{stage - 1}.{{k}}.{{p}}")
            )
    return Table(*rules)


def _hugging_face() -> Table:
    start = "convnext.embeddings"
    rules = [
        Rule(f"{start}.patch_embeddings.{{p}}", "start.0.{p}"),
        Rule(f"{start}.layernorm.{{p}}", "start.1.{p}"),
        Rule("convnext.layernorm.{p}", "norm.{p}"),
        Rule("classifier.{p}", "head.{p}"),
    ]
    block, ours = "convnext.encoder.stages.{s}.layers.{i}", "blocks.{s}.{i}"
    rules += [
        Rule(f"{block}.layer_scale_parameter", f"{ours}.scale"),
        Rule(f"{block}.dwconv.{{p}}", f"{ours}.convolution.{{p}}"),
        Rule(f"{block}.layernorm.{{p}}", f"{ours}.norm.{{p}}"),
        Rule(f"{block}.pwconv1.{{p}}", f"{ours}.linear1.{{p}}"),
        Rule(f"{block}.pwconv2.{{p}}", f"{ours}.linear2.{{p}}"),
    ]
    for stage in range(1, 4):
        theirs = f"convnext.encoder.stages.{stage}.downsampling_layer"
        rules.append(Rule(f"{theirs}.{{k}}.{{p}}", f"reductions.{stage - 1}.{{k}}.{{p}}"))
    return Table(*rules)


#: Files of torchvision's ConvNeXt: convnext_tiny and its like.
CONVNEXT_TORCHVISION = _torchvision()
#: Files of transformers' ConvNextForImageClassification.
CONVNEXT_HUGGING_FACE = _hugging_face()
