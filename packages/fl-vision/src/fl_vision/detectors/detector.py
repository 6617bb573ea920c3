"""`Detector`: a network with its classes and recipe, in memory and as the folder of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_data import join
from fl_tensor import untrusted_json
from fl_tensor.annotations import checked
from fl_tensor.assumptions import assume
from fl_tensor.files import open_regular, replacing
from fl_vision.detection import Detections, detr_detections, retinanet_detections
from fl_vision.detectors.network import make_anchors, make_network
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.transforms import Normalise, ResizeShortestSide

DESCRIPTION, WEIGHTS = "detector.json", "weights.safetensors"
#: Batches are padded to multiples of so many pixels: compiled backends plan every shape once.
MULTIPLE = 32
#: Of ImageNet, as published backbones have seen them.
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
_FORMAT = 1
_MAX_BYTES = 1 << 24
_MAX_CLASSES = 100_000


class Detector(nn.Module):
    """A `network` with the names of its `classes`, built as `recipe` says.

    `detector(images, mask)` takes what `inputs` makes, and gives the outputs of the network.
    `detect(images)` gives boxes. Raises `UsageError` without classes, or with names that come
    twice.
    """

    def __init__(self, recipe: DetectionRecipe, classes: Sequence[str]) -> None:
        names = tuple(classes)
        if (
            isinstance(classes, str)
            or not 0 < len(names) <= _MAX_CLASSES
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
        ):
            raise UsageError(
                f"[Detector] classes {names[:5]!r}, {len(names)} in all: give 1 to {_MAX_CLASSES} "
                "names, each once"
            )
        self.recipe, self.classes = recipe, names
        self.network = make_network(recipe, len(names)).to(ft.dtype(recipe.dtype))

    def forward(self, images: ft.Array, mask: ft.Array) -> Any:
        if self.recipe.network == "detr":
            # Without padding there is nothing to mask, and all images have the same positions.
            return self.network(images, None if assume(ft.all(mask)) else mask)
        return self.network(images)

    def inputs(self, images: Sequence[ft.Tensor]) -> tuple[ft.Tensor, ft.Tensor]:
        """Normalised images (N, 3, H, W), padded with 0 below and to the right, and a mask
        (N, H, W), True inside images. H and W are multiples of 32. Computed on the host."""
        return padded_inputs(images, self.recipe.dtype)

    def resized(self, image: ft.Tensor) -> ft.Tensor:
        """An image (C, height, width) at the size that the recipe measures at."""
        if not self.recipe.short_side:
            return image
        return ResizeShortestSide(self.recipe.short_side, self.recipe.long_side)(image)

    @checked
    def detect(self, images: Sequence[ft.Tensor]) -> list[Detections]:
        """Boxes, xyxy in pixels of each image, scores and labels, the best first.

        images  uint8 (1 or 3, height, width) each; they are one batch, and may differ in size

        Raises `UsageError` for other images.
        """
        small = [self.resized(_colours(image)) for image in images]
        pixels, mask = self.inputs(small)
        with nn.evaluating(self), ft.reproducible():
            outputs = self(pixels, mask)
        found = self.detections(outputs, [image.shape[1:] for image in small])
        return [
            _scaled(one, before.shape[1:], after.shape[1:])
            for one, before, after in zip(found, images, small, strict=True)
        ]

    def detections(self, outputs: Any, sizes: Sequence[Sequence[int]]) -> list[Detections]:
        """Boxes in outputs for images of (height, width), in their pixels."""
        recipe = self.recipe
        if recipe.network == "detr":
            return detr_detections(outputs, sizes, recipe.most)
        return retinanet_detections(
            outputs,
            make_anchors(recipe),
            sizes,
            recipe.score_threshold,
            recipe.iou_threshold,
            recipe.most,
        )

    @checked
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `detector.json` and `weights.safetensors` into a folder."""
        self.describe(folder)
        nn.save_weights(Path(folder) / WEIGHTS, self.network)

    def describe(self, folder: str | os.PathLike[str]) -> None:
        """Write `detector.json`, all but the weights."""
        content = {
            "format": _FORMAT,
            "classes": list(self.classes),
            "recipe": self.recipe.values(),
        }
        with replacing(Path(folder) / DESCRIPTION, parents=True) as file:
            file.write(json.dumps(content, indent=1).encode())


@checked
def load_detector(folder: str | os.PathLike[str]) -> Detector:
    """The detector in the folder of a run, with the weights of its best epoch, for `detect`.

    Raises `DataMissingError` for a folder without one, `DataFileError` for a malformed
    description, `fl_nn.CheckpointError` for weights that do not fit it.
    """
    path = Path(folder) / DESCRIPTION
    try:
        with open_regular(path) as file:
            text = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise DataMissingError(
            f"[detect] {path}: no such file; give the folder of a run of `fl-vision detect --train`"
        ) from None
    try:
        if len(text) > _MAX_BYTES:
            raise UsageError(f"longer than {_MAX_BYTES} bytes")
        content = untrusted_json.parse(text)
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise UsageError("of another format")
        classes = content.get("classes")
        if not isinstance(classes, list):
            raise UsageError("classes are no list")
        detector = Detector(DetectionRecipe.of(content.get("recipe")), classes)
    except ValueError as error:
        raise DataFileError("detect", path, str(error), "train it again") from error
    nn.load_weights(Path(folder) / WEIGHTS, detector.network)
    return detector.eval()


def padded_inputs(images: Sequence[ft.Tensor], dtype: str) -> tuple[ft.Tensor, ft.Tensor]:
    """What `Detector.inputs` gives, without a network: worker processes make it, too."""
    if not images:
        raise UsageError("[Detector] no images: give at least one (3, height, width)")
    with ft.use("numpy"):
        normalise = Normalise(MEAN, DEVIATION, ft.dtype(dtype))
        made = [normalise(_colours(image)) for image in images]
        inside = [ft.ones(image.shape[1:], dtype=ft.bool) for image in made]
        high, wide = (max(image.shape[axis] for image in made) for axis in (1, 2))
        size = (-(-high // MULTIPLE) * MULTIPLE, -(-wide // MULTIPLE) * MULTIPLE)
        corner = ft.zeros((1, *size), dtype=made[0].dtype)
        pixels = join([*made, ft.concatenate([corner] * 3)])[:-1]
        mask = join([*inside, ft.zeros(size, dtype=ft.bool)])[:-1]
        host = np.ascontiguousarray(pixels.numpy()), np.ascontiguousarray(mask.numpy())
    return ft.asarray(host[0]), ft.asarray(host[1])


def _colours(image: ft.Tensor) -> ft.Tensor:
    """An image (1 or 3, height, width) as (3, height, width)."""
    if not isinstance(image, ft.Tensor) or image.ndim != 3 or image.shape[0] not in (1, 3):
        shape = getattr(image, "shape", type(image).__name__)
        raise UsageError(f"[Detector] an image is {shape}: give (1 or 3, height, width)")
    if image.dtype is not ft.uint8 or 0 in image.shape:
        raise UsageError(
            f"[Detector] an image is {image.shape} of {image.dtype}: give uint8 levels, and at "
            "least one pixel"
        )
    if image.shape[0] == 3:
        return ft.frombytes(image.tobytes(), image.shape, ft.uint8)
    return ft.frombytes(bytes(image.tobytes()) * 3, (3, *image.shape[1:]), ft.uint8)


def _scaled(found: Detections, size: Sequence[int], now: Sequence[int]) -> Detections:
    """Boxes in an image of another (height, width)."""
    if tuple(size) == tuple(now):
        return found
    down, across = size[0] / now[0], size[1] / now[1]
    factors = ft.asarray([across, down, across, down], dtype=found.boxes.dtype)
    return found._replace(boxes=found.boxes * factors)
