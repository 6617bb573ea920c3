"""Networks of stages, whose feature maps detectors read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_vision.errors import UsageError

LOGITS = "logits"


class FeatureNetwork(nn.Module):
    """Images (N, channels, height, width) go through a stem and `stages`; the maps that come out of
    the stages are named C2, C3, C4 and so on (Lin et al., 2017).

    A class that derives from it has `widths`, the channels of each map, and defines `stem`,
    `stage_modules`, `stem_modules` and `classify`.
    """

    #: Names of the layers whose shape depends on the number of classes.
    head_names: ClassVar[tuple[str, ...]] = ()
    widths: Sequence[int]

    def stem(self, images: ft.Array) -> ft.Array:
        """What the first stage reads."""
        raise NotImplementedError

    def stem_modules(self) -> list[nn.Module]:
        """The modules of the stem."""
        raise NotImplementedError

    def stage_modules(self) -> list[nn.Module]:
        """A module for each stage."""
        raise NotImplementedError

    def classify(self, features: ft.Array) -> ft.Array:
        """The last map gives scores (N, classes), or without classes its means (N, channels)."""
        raise NotImplementedError

    @property
    def channels(self) -> dict[str, int]:
        """How many channels each map has, by its name."""
        return {f"C{level}": width for level, width in enumerate(self.widths, 2)}

    def feature_maps(self, images: ft.Array) -> dict[str, ft.Array]:
        """All maps (N, channels, height, width) by name, the largest first."""
        maps, x = {}, self.stem(images)
        for name, stage in zip(self.channels, self.stage_modules(), strict=True):
            maps[name] = x = stage(x)
        return maps

    def forward(self, images: ft.Array) -> ft.Array:
        x = self.stem(images)
        for stage in self.stage_modules():
            x = stage(x)
        return self.classify(x)


class Backbone(nn.Module):
    """The maps of `network` that `names` lists, as a tuple in that order. "logits" is the scores
    (N, classes): `Backbone(resnet50(), ("logits", "C5"))`.

    Raises `UsageError` for a name that the network does not have.
    """

    def __init__(self, network: FeatureNetwork, names: Sequence[str] = ("C3", "C4", "C5")) -> None:
        if not isinstance(network, FeatureNetwork):
            raise UsageError(
                f"[Backbone] network is a {type(network).__name__}: give a ResNet or a ConvNeXt"
            )
        _check_names("Backbone", network, names, LOGITS)
        self.network, self.names = network, tuple(names)

    @property
    def channels(self) -> tuple[int, ...]:
        """How many channels each of the maps has; scores are none."""
        known = self.network.channels
        return tuple(known[name] for name in self.names if name != LOGITS)

    def forward(self, images: ft.Array) -> tuple[ft.Array, ...]:
        maps = self.network.feature_maps(images)
        if LOGITS in self.names:
            maps[LOGITS] = self.network.classify(maps[max(self.network.channels)])
        return tuple(maps[name] for name in self.names)

    def extra_repr(self) -> str:
        return ", ".join(self.names)


@checked
def freeze_stages(network: FeatureNetwork, last: str = "C2") -> list[str]:
    """Let the stem and all stages up to the one that gives `last` learn no longer; the names of the
    parameters that are frozen now. "" freezes nothing. Batch normalisation still follows its
    statistics: `nn.convert_frozen_batchnorm` ends that.

    Raises `UsageError` for a stage that the network does not have.
    """
    if last == "":
        return []
    _check_names("freeze_stages", network, [last])
    count = list(network.channels).index(last) + 1
    for module in (*network.stem_modules(), *network.stage_modules()[:count]):
        module.freeze()
    return [name for name, p in network.named_parameters() if not p.requires_grad]


def _check_names(where: str, network: FeatureNetwork, names: Iterable[Any], *more: str) -> None:
    known = (*network.channels, *more)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = ", ".join(map(repr, unknown)) or "no names"
        raise UsageError(f"[{where}] {what}: this network has {', '.join(known)}")
