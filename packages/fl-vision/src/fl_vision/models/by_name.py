"""Classifiers by the names that recipes and checkpoints have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.rename import Table
from fl_tensor.annotations import checked
from fl_vision.errors import UsageError
from fl_vision.models import convnext, resnet, vit
from fl_vision.models.cnn import cnn

_SMALLEST = 4


def _sized(module: Any, *names: str) -> dict[str, Callable[..., nn.Module]]:
    return {name: getattr(module, name) for name in names}


_RESNETS = _sized(resnet, "resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
_VITS = _sized(vit, "vit_ti", "vit_s", "vit_b", "vit_l")
_CONVNEXTS = _sized(convnext, "convnext_t", "convnext_s", "convnext_b")
#: Names in files of others; None: they are ours.
_TABLES: dict[str, dict[str, Table | None]] = {
    "torchvision": {
        **dict.fromkeys(_RESNETS),
        **dict.fromkeys(_VITS, vit.VIT_TORCHVISION),
        **dict.fromkeys(_CONVNEXTS, convnext.CONVNEXT_TORCHVISION),
    },
    "hugging_face": {
        **dict.fromkeys(_RESNETS, resnet.RESNET_HUGGING_FACE),
        **dict.fromkeys(_VITS, vit.VIT_HUGGING_FACE),
        **dict.fromkeys(_CONVNEXTS, convnext.CONVNEXT_HUGGING_FACE),
    },
}


@checked
def create_network(
    name: str, classes: int, image_shape: Sequence[int], options: Mapping[str, Any] | None = None
) -> nn.Module:
    """The network called `name`, "cnn", "resnet18", "vit_b", "convnext_t" and so on, for images
    (channels, height, width); it gives scores (N, classes).

    Of `options` it takes those that it has: `width` (0: the published one) and `small_stem` of
    ResNet, `patch` of ViT, `drop_path` of ViT and ConvNeXt, `dropout` of the small network and ViT.
    Raises `UsageError` for unknown names, and for images that the network does not take.
    """
    given = dict(options or {})

    def chosen(*names: str) -> dict[str, Any]:
        return {key: given[key] for key in names if key in given}

    if len(image_shape) != 3 or min(image_shape) < 1 or min(image_shape[1:]) < _SMALLEST:
        raise UsageError(
            f"[{name}] image shape {tuple(image_shape)}: give (channels, height, width) of at "
            f"least {_SMALLEST} x {_SMALLEST} pixels"
        )
    channels, height, width = image_shape
    if name == "cnn":
        return cnn(image_shape, classes, **chosen("dropout"))
    if name in _RESNETS:
        sizes = chosen("small_stem") | ({"width": given["width"]} if given.get("width") else {})
        return _RESNETS[name](classes, channels=channels, **sizes)
    if name in _VITS:
        if channels != 3 or height != width:
            raise UsageError(
                f"[{name}] images {tuple(image_shape)}: it takes square colour images, (3, N, N); "
                "give --image-size NxN without --grayscale, or another network"
            )
        return _VITS[name](classes, image=height, **chosen("patch", "dropout", "drop_path"))
    if name in _CONVNEXTS:
        return _CONVNEXTS[name](classes, channels=channels, **chosen("drop_path"))
    raise UsageError(f"[network] {name!r} is none: give one of {', '.join(network_names())}")


def network_names() -> tuple[str, ...]:
    """The names that `create_network` knows."""
    return ("cnn", *_RESNETS, *_VITS, *_CONVNEXTS)


def parameter_count(
    name: str, classes: int, image_shape: Sequence[int], options: Mapping[str, Any] | None = None
) -> int:
    """How many numbers the parameters and buffers of `create_network` are, without allocating
    them."""
    with ft.use("null"):
        network = create_network(name, classes, image_shape, options)
    return sum(tensor.size for tensor in network.state_dict().values())


def weight_table(name: str, source: str) -> Table | None:
    """The names in weights of `name` by `source`: "fl", "torchvision" or "hugging_face"; None where
    they are ours. Raises `UsageError` where `source` has no such network."""
    if source == "fl":
        return None
    if name not in _TABLES[source]:
        raise UsageError(
            f"[weights] there are no weights of {source} for {name}; they are for "
            f"{', '.join(_TABLES[source])}"
        )
    return _TABLES[source][name]
