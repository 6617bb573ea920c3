"""Networks, criteria and anchors of recipes."""

from __future__ import annotations

import os
from typing import Any

import fl_nn as nn
import fl_vision.models as models
from fl_dist import Communicator
from fl_nn.rename import Table
from fl_tensor.annotations import checked
from fl_vision.detection import AnchorGenerator, RetinaNetCriterion, SetCriterion
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.errors import UsageError

_DEPTHS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}
_COUNTER = "num_batches_tracked"
#: Where the backbone of each network is.
BACKBONES = {"detr": "backbone", "retinanet": "backbone.network"}
_TABLES: dict[str, tuple[tuple[str, Table | None], ...]] = {
    "detr": (
        ("ours", None),
        ("the authors'", models.DETR_ORIGINAL),
        ("Hugging Face", models.DETR_HUGGING_FACE),
    ),
    "retinanet": (("ours", None), ("torchvision", models.RETINANET_TORCHVISION)),
}


@checked
def make_network(recipe: DetectionRecipe, classes: int) -> nn.Module:
    """The network of a recipe, with its frozen parts, in float32."""
    backbone = models.ResNet(
        _DEPTHS[recipe.backbone][: recipe.stages],
        recipe.width,
        0,
        bottleneck=recipe.backbone == "resnet50",
        small_stem=recipe.small_stem,
    )
    network: nn.Module = backbone
    if recipe.frozen_norm:
        network = nn.convert_frozen_batchnorm(backbone)
    if recipe.freeze:
        models.freeze_stages(backbone, recipe.freeze)
    if recipe.network == "detr":
        return models.DETR(
            network,  # type: ignore[arg-type]
            classes,
            recipe.queries,
            size=recipe.size,
            heads=recipe.heads,
            hidden=recipe.hidden,
            encoder_layers=recipe.encoder_layers,
            decoder_layers=recipe.decoder_layers,
            dropout=recipe.dropout,
            auxiliary=recipe.auxiliary,
        )
    per_cell = make_anchors(recipe).per_cell[0]
    return models.RetinaNet(
        network,  # type: ignore[arg-type]
        classes,
        per_cell,
        size=recipe.size,
        depth=recipe.depth,
        extra=recipe.extra_levels,
    )


@checked
def make_anchors(recipe: DetectionRecipe) -> AnchorGenerator:
    """Anchors of three sizes and three shapes for each level, the smallest `anchor_scale` strides
    large. Lin et al., "Focal loss", 2017, have 4."""
    first = 2 if recipe.small_stem else 8
    strides = [first << level for level in range(3 + recipe.extra_levels)]
    sizes = [
        [recipe.anchor_scale * stride * 2 ** (third / 3) for third in range(3)]
        for stride in strides
    ]
    return AnchorGenerator(sizes, strides=strides)


@checked
def make_criterion(
    recipe: DetectionRecipe, classes: int, communicator: Communicator | None = None
) -> SetCriterion | RetinaNetCriterion:
    """The loss of a recipe; of ranks that share batches, with their communicator."""
    if recipe.network == "detr":
        return SetCriterion(classes, no_object=recipe.no_object, communicator=communicator)
    return RetinaNetCriterion(classes, make_anchors(recipe), box_loss=recipe.box_loss)


@checked
def load_published(path: str | os.PathLike[str], network: nn.Module, kind: str) -> list[str]:
    """Load weights of a detector, or of its backbone alone, for another number of classes; the
    names that were left out, which keep their random start.

    Files of ours, of DETR's authors, of Hugging Face and of torchvision are told apart by their
    names. Raises `UsageError` with the reason of each kind where none fits.
    """
    if kind not in _TABLES:
        raise UsageError(f"[load_published] kind {kind!r}: give one of {', '.join(_TABLES)}")
    problems = []
    for name, table in _TABLES[kind]:
        try:
            return models.load_pretrained(path, network, rename=table)
        except nn.CheckpointError as error:
            problems.append(f"{name}: {error}")
    backbone = dict(network.named_modules())[BACKBONES[kind]]
    for name, rename in (
        ("backbone", None),
        ("backbone, Hugging Face", models.RESNET_HUGGING_FACE),
    ):
        try:
            _load_backbone(path, backbone, rename)
        except nn.CheckpointError as error:
            problems.append(f"{name}: {error}")
        else:
            start = f"{BACKBONES[kind]}."
            return [each for each in network.state_dict() if not each.startswith(start)]
    shown = "; ".join(problem[:300] for problem in problems)
    raise UsageError(
        f"[detect] --weights {os.fspath(path)} fits no network of this recipe: give the file of a "
        f"{kind} or of its backbone, of the same sizes. {shown}"
    )


def _load_backbone(path: Any, backbone: nn.Module, rename: Table | None) -> None:
    """Weights of a classifier, whose last layer is left out."""
    with nn.open_tensors(path) as file:
        found: dict[str, Any] = dict(file.tensors)
        if rename is not None:
            renamed = rename.to_ours(file.tensors)
            if renamed.problems or renamed.unexpected:
                raise nn.CheckpointError("; ".join([*renamed.problems, *renamed.unexpected][:5]))
            found = dict(renamed.tensors)
        own = backbone.state_dict()
        counters = {n: v for n, v in own.items() if n.endswith(_COUNTER)}  # files may lack them
        kept = counters | {
            name: value
            for name, value in found.items()
            if not name.startswith("fc.") and (name in own or not name.endswith(_COUNTER))
        }
        try:
            backbone.load_state_dict(kept)
        except nn.StateDictError as error:
            raise nn.CheckpointError(str(error)) from error
