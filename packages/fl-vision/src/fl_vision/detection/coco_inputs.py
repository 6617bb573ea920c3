"""Detections and objects of an image as the evaluation reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import fl_tensor as ft
from fl_vision.detection.boxes import box_convert
from fl_vision.detection.checks import check_boxes, host_labels, host_values, refuse_bad_boxes
from fl_vision.detection.coco_kernel import Image
from fl_vision.detection.masks import RLE, mask_iou
from fl_vision.detection.targets import field, optional_field

MOST_CLASSES = 1 << 20


class Detections(NamedTuple):
    """What a detector finds in an image. Other objects with these attributes do too."""

    boxes: ft.Array | np.ndarray
    """(D, 4), in the format of the evaluation."""
    scores: ft.Array | np.ndarray
    """(D,), the higher the surer."""
    labels: ft.Array | np.ndarray
    """(D,), integers."""
    masks: Sequence[RLE] | ft.Array | np.ndarray | None = None
    """One for each detection, where masks are evaluated: `RLE`, or an array (D, H, W)."""


class GroundTruth(NamedTuple):
    """The objects of an image. Other objects with these attributes do too."""

    boxes: ft.Array | np.ndarray
    """(T, 4), in the format of the evaluation."""
    labels: ft.Array | np.ndarray
    """(T,), integers."""
    image_id: int | str | None = None
    """The place of the image in the order of all; None: how many were added before."""
    areas: ft.Array | np.ndarray | None = None
    """(T,), pixels, which decide on small, medium and large; None: of the boxes or masks."""
    crowd: ft.Array | np.ndarray | None = None
    """(T,), whether several detections may match an object, which then counts for nothing."""
    ignore: ft.Array | np.ndarray | None = None
    """(T,), whether an object counts for nothing, and neither does the detection that matches.
    The attribute may also be called `difficult`."""
    masks: Sequence[RLE] | ft.Array | np.ndarray | None = None


class Sorted(NamedTuple):
    """An image for the kernel, and its detections and objects."""

    image: Image
    labels: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray
    """The place of each detection among those of its class."""
    object_labels: np.ndarray


def names_of(where: str, classes: Any) -> tuple[str, ...]:
    """The names of classes, or of so many. Raises DTypeError, ArgumentError."""
    names: Any = classes
    if isinstance(classes, int) and not isinstance(classes, bool):
        names = [str(k) for k in range(min(classes, MOST_CLASSES))]
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise ft.DTypeError(f"[{where}] classes {classes!r}: give their number or names")
    if not names:
        raise ft.ArgumentError(f"[{where}] there are no classes: give at least one")
    return tuple(names)


def numbered(
    where: str, detections: Any, truths: Any, before: Sequence[int | str]
) -> Iterator[tuple[int | str, Any, Any]]:
    """The id of each image, its detections and its objects. Raises DTypeError for what are no
    sequences, ShapeError for lengths that differ, ArgumentError for an image that was there
    `before`."""
    for name, value in (("detections", detections), ("truths", truths)):
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
            raise ft.DTypeError(
                f"[{where}] {name} are a {type(value).__name__}: expected a sequence, one for "
                "each image"
            )
    if len(detections) != len(truths):
        raise ft.ShapeError(
            f"[{where}] detections of {len(detections)} images and objects of {len(truths)}"
        )
    known = set(before)
    for found, truth in zip(detections, truths, strict=True):
        image = _image_id(where, truth, len(known))
        if image in known:
            raise ft.ArgumentError(
                f"[{where}] image {image!r} was added before: count each image once, or give "
                "`image_id` to all"
            )
        known.add(image)
        yield image, found, truth


def _image_id(where: str, truth: Any, number: int) -> int | str:
    image = optional_field(truth, "image_id")
    if image is None:
        return number
    if isinstance(image, str):
        return image
    try:
        return int(image)
    except (TypeError, ValueError):
        raise ft.DTypeError(
            f"[{where}] image_id {image!r}: expected a whole number or a name"
        ) from None


def read_image(
    where: str, found: Any, truth: Any, classes: int, box_format: str, masks: bool, most: int
) -> Sorted:
    """Detections, at most so many of each class, and objects of an image, sorted. Errors begin with
    `where`, which names the image."""
    boxes = boxes_of(where, "detections", found, box_format)
    labels = labels_of(where, "detections", found, len(boxes), classes)
    scores = scores_of(where, found, len(boxes))
    objects = boxes_of(where, "objects", truth, box_format)
    object_labels = labels_of(where, "objects", truth, len(objects), classes)
    crowd = flags_of(where, "crowd", truth, len(objects))
    ignored = [flags_of(where, name, truth, len(objects)) for name in ("ignore", "difficult")]
    ignore = ignored[0] | ignored[1] | crowd

    # By class, detections of a class by score; of equal scores the first one comes first.
    order = np.lexsort((np.arange(len(scores)), -scores, labels))
    starts = np.searchsorted(labels[order], np.arange(classes))
    ranks = np.arange(len(order)) - starts[labels[order]]
    order, ranks = order[ranks < most], ranks[ranks < most]
    places = np.argsort(object_labels, kind="stable")

    mine, theirs = (boxes[order], objects[places])
    areas, object_areas = (np.prod(x[:, 2:], axis=1) for x in (mine, theirs))
    runs: list[list[RLE]] = [[], []]
    if masks:
        runs = [_masks(where, *pair) for pair in (("detections", found), ("objects", truth))]
        for given, count in zip(runs, (len(boxes), len(objects)), strict=True):
            if len(given) != count:
                raise ft.ShapeError(f"[{where}] {len(given)} masks for {count} boxes")
        runs = [[runs[0][i] for i in order], [runs[1][i] for i in places]]
        areas, object_areas = (np.array([m.area for m in r], np.float64) for r in runs)
    stated = optional_field(truth, "areas")
    if stated is not None:
        given = host_values(where, "areas", stated, np.float64)
        if given.shape != (len(objects),) or not (given >= 0).all():
            raise ft.ArgumentError(
                f"[{where}] areas {given}: expected a number of at least 0 for each of "
                f"{len(objects)} objects"
            )
        object_areas = given[places]

    every = np.arange(classes)
    ends = np.searchsorted(labels[order], every, "right")
    object_ends = np.searchsorted(object_labels[places], every, "right")
    # Classes without detections have empty matrices; the kernel passes over them.
    used = np.flatnonzero(np.diff(ends, prepend=0))
    parts = [np.zeros(0)]
    for k in used:
        d = slice(ends[k - 1] if k else 0, ends[k])
        g = slice(object_ends[k - 1] if k else 0, object_ends[k])
        flags = crowd[places][g]
        if masks:
            parts.append(mask_iou(runs[0][d], runs[1][g], flags).reshape(-1))
        else:
            parts.append(box_iou_xywh(mine[d], theirs[g], flags).reshape(-1))
    image = Image(
        ends.astype(np.int64), object_ends.astype(np.int64), np.ascontiguousarray(areas),
        np.ascontiguousarray(object_areas), ignore[places].astype(np.uint8),
        crowd[places].astype(np.uint8), np.concatenate(parts),
    )  # fmt: skip
    return Sorted(image, labels[order], scores[order], ranks, object_labels[places])


def box_iou_xywh(found: np.ndarray, objects: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """IoU of xywh boxes; for crowds the share of the detection that lies inside."""
    d, g = found[:, None], objects[None]
    low = np.maximum(d[..., :2], g[..., :2])
    sides = np.minimum(d[..., :2] + d[..., 2:], g[..., :2] + g[..., 2:]) - low
    inter = np.where((sides > 0).all(-1), sides[..., 0] * sides[..., 1], 0.0)
    area = d[..., 2] * d[..., 3]
    union = np.where(crowd, area, area + g[..., 2] * g[..., 3] - inter)
    return inter / np.where(inter > 0, union, 1.0)


def boxes_of(where: str, what: str, value: Any, box_format: str) -> np.ndarray:
    """Boxes as xywh, float64."""
    boxes = host_values(where, f"boxes of {what}", field(where, what, value, "boxes"))
    boxes = boxes.astype(np.float64) if boxes.size else np.zeros((0, 4))
    check_boxes(where, f"boxes of {what}", ft.asarray(boxes, copy=False), 2)
    corners = boxes
    if box_format != "xyxy":
        corners = np.asarray(box_convert(ft.asarray(boxes), box_format, "xyxy").numpy())
    refuse_bad_boxes(where, f"boxes of {what}", corners, ", or name their box_format")
    if box_format == "xywh":
        return boxes
    return np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1)


def scores_of(where: str, found: Any, count: int) -> np.ndarray:
    """Scores, float64 (D,). Raises ShapeError, ArgumentError for NaN."""
    scores = host_values(where, "scores", field(where, "detections", found, "scores"), np.float64)
    if scores.shape != (count,):
        raise ft.ShapeError(f"[{where}] scores {scores.shape} for {count} boxes: give one for each")
    if np.isnan(scores).any():
        index = int(np.flatnonzero(np.isnan(scores))[0])
        raise ft.ArgumentError(f"[{where}] the score of detection {index} is NaN: give a number")
    return scores


def labels_of(where: str, what: str, value: Any, count: int, classes: int) -> np.ndarray:
    name = f"labels of {what}"
    labels = host_labels(where, name, field(where, what, value, "labels"), count)
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        raise ft.IndexingError(
            f"[{where}] {name}: {labels[wrong[0]]} at {wrong[0]}: expected 0 .. {classes - 1}"
        )
    return labels


def flags_of(where: str, name: str, truth: Any, count: int) -> np.ndarray:
    given = optional_field(truth, name)
    if given is None:
        return np.zeros(count, bool)
    flags = host_values(where, name, given)
    if flags.shape != (count,):
        raise ft.ShapeError(f"[{where}] {name} {flags.shape}: expected one for each of {count}")
    return flags != 0


def _masks(where: str, what: str, value: Any) -> list[RLE]:
    masks = field(where, what, value, "masks")
    if hasattr(masks, "shape"):
        pixels = host_values(where, f"masks of {what}", masks)
        if pixels.ndim != 3:
            raise ft.ShapeError(f"[{where}] masks of {what} {pixels.shape}: expected (N, H, W)")
        return [RLE.encode(mask) for mask in pixels]
    if isinstance(masks, (str, bytes)) or not hasattr(masks, "__len__"):
        raise ft.DTypeError(f"[{where}] masks of {what} are a {type(masks).__name__}: give RLEs")
    found = list(masks)
    if any(not isinstance(mask, RLE) for mask in found):
        raise ft.DTypeError(f"[{where}] masks of {what}: give RLEs, as RLE.encode makes them")
    return found
