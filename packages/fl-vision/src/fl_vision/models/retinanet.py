"""RetinaNet: a feature pyramid, and two heads that all of its levels share.

Lin et al., Feature pyramid networks for object detection, 2017; Lin et al., Focal loss for dense
object detection, 2017. Names of parameters follow torchvision's `retinanet_resnet50_fpn`, for whose
files there is a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Ignore, Rule, Table
from fl_vision.errors import UsageError
from fl_vision.models.feature_network import Backbone, FeatureNetwork
from fl_vision.models.resnet import resnet50


class FeaturePyramid(nn.Module):
    """Maps (N, channels[i], h, w), the largest first, give as many maps of `size` channels and
    `extra` smaller ones. Each level is the sum of its own map and the next smaller level, enlarged.

    An extra level is a 3x3 convolution with stride 2 of the one before it, behind ReLU from the
    second on, as in RetinaNet.
    """

    def __init__(self, channels: Sequence[int], size: int = 256, extra: int = 2) -> None:
        if not channels or min(*channels, size) < 1 or extra < 0:
            raise UsageError(
                f"[FeaturePyramid] channels {tuple(channels)}, size {size}, {extra} extra levels: "
                "at least one map, of at least 1 channel"
            )
        self.inner = [nn.Conv2D(count, size, 1) for count in channels]
        self.layer = [nn.Conv2D(size, size, 3, padding=1) for _ in channels]
        self.extra = [nn.Conv2D(size, size, 3, 2, 1) for _ in range(extra)]
        for convolution in (*self.inner, *self.layer, *self.extra):
            convolution.weight.tensor = nn.init.kaiming_uniform(convolution.weight.shape, a=1.0)
            _set_bias(convolution, 0.0)

    def forward(self, maps: Sequence[ft.Array]) -> list[ft.Array]:
        if len(maps) != len(self.inner):
            raise ft.ShapeError(
                f"[FeaturePyramid] {len(maps)} maps: expected {len(self.inner)}, the largest first"
            )
        above = self.inner[-1](maps[-1])
        levels = [self.layer[-1](above)]
        for place in range(len(maps) - 2, -1, -1):
            own = self.inner[place](maps[place])
            above = own + nn.interpolate(above, own.shape[2:], mode="nearest")
            levels.insert(0, self.layer[place](above))
        for place, convolution in enumerate(self.extra):
            last = levels[-1]
            levels.append(convolution(ft.relu(last) if place else last))
        return levels


class DenseHead(nn.Module):
    """`depth` 3x3 convolutions with ReLU and one more that predicts `values` numbers for each of
    `anchors` anchors at each place: (N, size, h, w) gives (N, h * w * anchors, values), places by
    rows, the anchors of a place side by side."""

    def __init__(
        self, size: int, anchors: int, values: int, depth: int = 4, bias: float = 0.0
    ) -> None:
        self.anchors, self.values = anchors, values
        self.conv = [nn.Conv2D(size, size, 3, padding=1) for _ in range(depth)]
        self.predict = nn.Conv2D(size, anchors * values, 3, padding=1)
        for convolution in (*self.conv, self.predict):
            convolution.weight.tensor = nn.init.normal(convolution.weight.shape, std=0.01)
            _set_bias(convolution, 0.0)
        _set_bias(self.predict, bias)

    def forward(self, x: ft.Array) -> ft.Array:
        for convolution in self.conv:
            x = ft.relu(convolution(x))
        y = self.predict(x)
        n, _, height, width = y.shape
        y = y.reshape(n, self.anchors, self.values, height, width)
        places = height * width * self.anchors
        return ft.permute(y, (0, 3, 4, 1, 2)).reshape(n, places, self.values)


@dataclass(frozen=True)
class DenseOutput:
    """What RetinaNet says of a batch, level by level, the largest map first.

    logits  (N, anchors of the level, classes) each: scores, to which a sigmoid belongs
    boxes   (N, anchors of the level, 4) each: offsets from the anchors
    sizes   (height, width) of the map of each level
    """

    logits: tuple[ft.Array, ...]
    boxes: tuple[ft.Array, ...]
    sizes: tuple[tuple[int, int], ...]

    def flattened(self) -> tuple[ft.Array, ft.Array]:
        """Scores (N, anchors, classes) and offsets (N, anchors, 4) of all levels, one level after
        another."""
        return ft.concatenate(list(self.logits), 1), ft.concatenate(list(self.boxes), 1)


class RetinaNet(nn.Module):
    """Images (N, 3, height, width) give a `DenseOutput` of levels P3 to P7.

    backbone  its maps C3, C4 and C5 go into the pyramid
    classes   of objects; each has a score of its own, and there is none for "no object"
    anchors   at each place
    size      channels of the pyramid; `depth` convolutions are in each head
    prior     the probability that all scores start with, so that the many anchors without an
              object do not outweigh the others at first
    """

    head_names: ClassVar[tuple[str, ...]] = ("classification.predict",)

    def __init__(
        self,
        backbone: FeatureNetwork,
        classes: int = 91,
        anchors: int = 9,
        *,
        size: int = 256,
        depth: int = 4,
        extra: int = 2,
        prior: float = 0.01,
    ) -> None:
        if min(classes, anchors, size) < 1 or depth < 0 or not 0.0 < prior < 1.0:
            raise UsageError(
                f"[RetinaNet] {classes} classes, {anchors} anchors, size {size}, depth {depth}, "
                f"prior {prior}: counts are at least 1, and the prior is between 0 and 1"
            )
        self.backbone = Backbone(backbone, ("C3", "C4", "C5"))
        self.pyramid = FeaturePyramid(self.backbone.channels, size, extra)
        bias = -math.log((1 - prior) / prior)
        self.classification = DenseHead(size, anchors, classes, depth, bias)
        self.regression = DenseHead(size, anchors, 4, depth)

    def forward(self, images: ft.Array) -> DenseOutput:
        levels = self.pyramid(self.backbone(images))
        return DenseOutput(
            tuple(self.classification(level) for level in levels),
            tuple(self.regression(level) for level in levels),
            tuple((level.shape[2], level.shape[3]) for level in levels),
        )


def retinanet_resnet50(classes: int = 91, **options: Any) -> RetinaNet:
    """RetinaNet with ResNet-50, whose batch normalisation is frozen: 34 million parameters. Options
    are those of `RetinaNet`."""
    return RetinaNet(nn.convert_frozen_batchnorm(resnet50(0)), classes, **options)


def _set_bias(convolution: nn.Conv2D, value: float) -> None:
    if convolution.bias is not None:
        convolution.bias.tensor = ft.full_like(convolution.bias.tensor, value)


#: Files of torchvision's retinanet_resnet50_fpn.
RETINANET_TORCHVISION = Table(
    Ignore("backbone.body.{rest:path}.num_batches_tracked"),
    Rule("backbone.body.{rest:path}", "backbone.network.{rest:path}"),
    Rule("backbone.fpn.inner_blocks.{i}.0.{p}", "pyramid.inner.{i}.{p}"),
    Rule("backbone.fpn.layer_blocks.{i}.0.{p}", "pyramid.layer.{i}.{p}"),
    Rule("backbone.fpn.extra_blocks.p6.{p}", "pyramid.extra.0.{p}"),
    Rule("backbone.fpn.extra_blocks.p7.{p}", "pyramid.extra.1.{p}"),
    Rule("head.classification_head.conv.{i}.0.{p}", "classification.conv.{i}.{p}"),
    Rule("head.classification_head.cls_logits.{p}", "classification.predict.{p}"),
    Rule("head.regression_head.conv.{i}.0.{p}", "regression.conv.{i}.{p}"),
    Rule("head.regression_head.bbox_reg.{p}", "regression.predict.{p}"),
)
