"""Objects of images: what criteria and evaluation read of targets, and of a set predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

import fl_tensor as ft
from fl_vision.detection.checks import check_boxes, host_labels, host_values


class HasObjects(Protocol):
    """A target of an image: `boxes` (T, 4) and `labels` (T,). Mappings with these keys do too."""

    @property
    def boxes(self) -> Any: ...

    @property
    def labels(self) -> Any: ...


class Objects(NamedTuple):
    """The objects of one image."""

    boxes: ft.Array | np.ndarray
    """(T, 4), floating; the format is that of the function that reads them."""
    labels: ft.Array | np.ndarray
    """(T,), integers."""


class SetPrediction(NamedTuple):
    """The outputs of a set predictor, such as DETR. Other objects with these attributes do too."""

    logits: ft.Array
    """(N, queries, classes + 1), the last of them "no object"."""
    boxes: ft.Array
    """(N, queries, 4), cxcywh, as shares of the size of the image."""
    auxiliary: Sequence[Any] = ()
    """Predictions of earlier layers."""


class HostObjects(NamedTuple):
    """Checked objects of one image on the host."""

    boxes: np.ndarray
    labels: np.ndarray


def field(where: str, what: str, value: Any, name: str, missing: Any = None) -> Any:
    """An attribute, or the entry of a mapping. Raises ArgumentError where there is none, unless
    `missing` replaces it."""
    found = optional_field(value, name)
    if found is None:
        if missing is not None:
            return missing
        raise ft.ArgumentError(
            f"[{where}] {what} is a {type(value).__name__} without {name!r}: give an object or a "
            f"mapping with {name!r}"
        )
    return found


def optional_field(value: Any, name: str) -> Any:
    """An attribute, or the entry of a mapping; None where there is none."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def read_objects(
    where: str, targets: Any, images: int, classes: int, centred: bool
) -> list[HostObjects]:
    """The objects of all images. Raises ShapeError, DTypeError, IndexingError for labels outside
    0 .. classes - 1, ArgumentError for boxes that are not finite or have a negative size; errors
    name the image.

    centred  boxes are cxcywh; otherwise xyxy
    """
    if isinstance(targets, (str, bytes, Mapping)) or not hasattr(targets, "__len__"):
        raise ft.DTypeError(
            f"[{where}] targets are a {type(targets).__name__}: expected a sequence, one for each "
            "image"
        )
    if len(targets) != images:
        raise ft.ShapeError(
            f"[{where}] {len(targets)} targets for {images} images: give one for each image"
        )
    return [
        _objects(where, index, target, classes, centred) for index, target in enumerate(targets)
    ]


def _objects(where: str, index: int, target: Any, classes: int, centred: bool) -> HostObjects:
    what = f"target {index}"
    boxes = host_values(where, f"{what}: boxes", field(where, what, target, "boxes"))
    if boxes.size == 0:
        boxes = np.zeros((0, 4), np.float32)
    check_boxes(where, f"{what}: boxes", ft.asarray(boxes, copy=False), 2)
    labels = field(where, what, target, "labels")
    labels = host_labels(where, f"{what}: labels", labels, len(boxes))
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise ft.IndexingError(
            f"[{where}] {what}: label {labels[wrong[0]]} of box {wrong[0]}: expected classes "
            f"0 .. {classes - 1}"
        )
    sizes = boxes[:, 2:] if centred else boxes[:, 2:] - boxes[:, :2]
    bad = np.flatnonzero(~np.isfinite(boxes).all(axis=1) | ~(sizes >= 0).all(axis=1))
    if len(bad):
        shown = ", ".join(f"{v:g}" for v in boxes[bad[0]])
        form = "cxcywh" if centred else "xyxy"
        raise ft.ArgumentError(
            f"[{where}] {what}: box {bad[0]} is ({shown}) as {form}: expected finite numbers and "
            "sizes of at least 0; remove such boxes, or convert them with box_convert"
        )
    return HostObjects(boxes, labels)


def padded(objects: Sequence[HostObjects]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes (B, T, 4), labels (B, T) and counts (B,): rows after the count are boxes of size 0 of
    class 0. T is a multiple of 8, so that few shapes occur."""
    counts = np.array([len(one.labels) for one in objects], np.int64)
    most = -(-int(counts.max(initial=0)) // 8) * 8
    boxes = np.zeros((len(objects), most, 4), np.float32)
    labels = np.zeros((len(objects), most), np.int64)
    for index, one in enumerate(objects):
        boxes[index, : counts[index]] = one.boxes
        labels[index, : counts[index]] = one.labels
    return boxes, labels, counts
