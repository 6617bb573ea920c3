"""Networks for images, their parts, and helpers for fine-tuning."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_vision import models
from targets.making import At, target, x

SIZES = [*map(value, ((), (0, 1), "ab", None, (-1, 2)))]
COUNTS = [*map(value, (-1, "a", None))]
NETWORKS = [*map(value, (None, "text", len))]


def network() -> models.ResNet:
    return models.ResNet((1, 1, 1, 1), 2, 3, bottleneck=False)


def weights() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.safetensors"
        nn.save_weights(path, network())
        return path.read_bytes()


def variant(name: str, options: dict[str, Any]) -> Target:
    build = getattr(models, name)

    def small(classes: Any) -> object:
        with ft.use("null"):  # the sizes are real
            return build(classes, **options)

    return target(f"vision.models.{name}", {"classes": 3}, call=small, classes=COUNTS)


WEIGHTS = weights()
VARIANTS = (
    *("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("convnext_t", "convnext_s", "convnext_b", "vit_ti", "vit_s", "vit_b", "vit_l"),
    *("detr_resnet50", "detr_small", "retinanet_resnet50"),
)
TARGETS: list[Target] = [
    *(variant(name, {}) for name in VARIANTS),
    target("nn.DropPath", {"p": 0.5}, p="fraction"),
    target("nn.FrozenBatchNorm", {"0": 3}, _0="positive"),
    target("nn.convert_frozen_batchnorm", {"model": lambda: nn.BatchNorm(3)}, model="module"),
    target(
        "vision.models.cnn",
        {"image_shape": (1, 8, 8), "classes": 3},
        image_shape=SIZES,
        classes=COUNTS,
    ),
    target(
        "vision.models.ResNet",
        {"depths": (1, 1), "width": 2, "classes": 3},
        depths=SIZES,
        width=COUNTS,
        classes=COUNTS,
    ),
    target(
        "vision.models.ConvNeXt",
        {"depths": (1, 1), "widths": (2, 4), "classes": 3},
        depths=SIZES,
        widths=SIZES,
        classes=COUNTS,
    ),
    target(
        "vision.models.ViT",
        {"patch": 4, "size": 4, "heads": 2, "layers": 1, "image": 8, "classes": 3},
        patch=COUNTS,
        size=COUNTS,
        heads=COUNTS,
        image=COUNTS,
    ),
    target("vision.models.FeatureNetwork", {}),
    target(
        "vision.models.Backbone",
        {"network": network, "names": ("C3", "C5")},
        network=NETWORKS,
        names=[*map(value, ((), ("C9",), None, 3, "x"))],
    ),
    target(
        "vision.models.DETR",
        {"backbone": network, "classes": 3, "queries": 2, "size": 8, "hidden": 8},
        backbone=NETWORKS,
        classes=COUNTS,
        queries=COUNTS,
        size=COUNTS,
    ),
    target(
        "vision.models.RetinaNet",
        {"backbone": network, "classes": 3, "size": 4},
        backbone=NETWORKS,
        classes=COUNTS,
        size=COUNTS,
    ),
    target("vision.models.FeaturePyramid", {"channels": (2, 3), "size": 4}, channels=SIZES),
    target("vision.models.SinePositions2D", {"size": 8}, size=COUNTS),
    target("vision.models.DetectionOutput", {"logits": x, "boxes": x}),
    target("vision.models.DenseOutput", {"logits": (), "boxes": (), "sizes": ()}),
    target(
        "vision.models.freeze_stages",
        {"network": network, "last": "C3"},
        network="module",
        last=[*map(value, ("C9", None, 3))],
    ),
    target(
        "vision.models.load_pretrained",
        {"path": At("x.safetensors", WEIGHTS), "model": network},
        path="input_path",
        model="module",
    ),
    target(
        "vision.models.replace_head",
        {"model": network, "classes": 2},
        model="module",
        classes=COUNTS,
    ),
    target(
        "vision.models.parameter_groups",
        {"model": network, "lr": 0.1, "weight_decay": 0.1},
        model="module",
        lr=[*map(value, (-1.0, "a", None, float("nan")))],
        weight_decay=[*map(value, (-1.0, "a", None))],
    ),
]
UNTRIED: dict[str, str] = {}
