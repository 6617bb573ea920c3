"""From the outputs of detectors to boxes in pixels of the images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.arguments import int_of, ints_of
from fl_vision.detection.anchors import check_share, decode_boxes
from fl_vision.detection.boxes import box_convert, clip_boxes_to_image
from fl_vision.detection.checks import check_boxes, host_values
from fl_vision.detection.coco_inputs import Detections
from fl_vision.detection.nms import batched_nms
from fl_vision.detection.targets import field


@explained
def detr_detections(
    outputs: Any, sizes: Sequence[Sequence[int]], most: int = 100
) -> list[Detections]:
    """The `most` best pairs of a query and a class in each image, from the highest score down.

    outputs  an object or a mapping with `logits` (N, queries, classes + 1), the last one for "no
             object", and `boxes` (N, queries, 4), cxcywh as shares of the image
    sizes    (height, width) of each image; boxes come out as xyxy in its pixels

    A score is the softmax over all classes with "no object", which itself is left out. A query may
    give several classes. Carion et al., 2020; the selection is that of Deformable DETR (Zhu et al.,
    2021). Raises ShapeError, DTypeError, ArgumentError.
    """
    where = "detr_detections"
    most = _count(where, "most", most)
    logits, boxes = (field(where, "outputs", outputs, name) for name in ("logits", "boxes"))
    check_boxes(where, "boxes", boxes, 3)
    if not isinstance(logits, ft.Array) or logits.shape[:-1] != boxes.shape[:-1]:
        raise ft.ShapeError(
            f"[{where}] logits {getattr(logits, 'shape', None)} and boxes {boxes.shape}: expected "
            "(N, queries, classes + 1) and (N, queries, 4)"
        )
    images = _sizes(where, sizes, boxes.shape[0])
    scores = host_values(where, "logits", ft.softmax(logits, -1)[..., :-1])
    corners = host_values(where, "boxes", box_convert(boxes, "cxcywh", "xyxy"))
    classes = scores.shape[-1]
    found = []
    for score, box, (height, width) in zip(scores, corners, images, strict=True):
        best = np.argsort(-score.reshape(-1), kind="stable")[:most]
        scale = np.array([width, height, width, height], box.dtype)
        chosen = np.clip(box[best // classes] * scale, 0, scale)
        found.append(_detections(chosen, score.reshape(-1)[best], best % classes))
    return found


@explained
def retinanet_detections(
    outputs: Any,
    anchors: Any,
    sizes: Sequence[Sequence[int]],
    score_threshold: float = 0.05,
    iou_threshold: float = 0.5,
    most: int = 100,
    per_level: int = 1000,
) -> list[Detections]:
    """Boxes of a dense detector in each image, from the highest score down.

    outputs  an object or a mapping with, level by level, `logits` (N, A, classes), `boxes`
             (N, A, 4), offsets from anchors, and `sizes`, (height, width) of the features
    anchors  an `AnchorGenerator` with as many levels
    sizes    (height, width) of each image in pixels of the batch; boxes are cut at its edge

    Of each level the `per_level` best scores above `score_threshold` are taken, then suppressed
    within classes above `iou_threshold`; `most` remain. Lin et al., "Focal loss", 2017. Raises
    ShapeError, DTypeError, ArgumentError.
    """
    where = "retinanet_detections"
    most, per_level = _count(where, "most", most), _count(where, "per_level", per_level)
    threshold = check_share(where, "score_threshold", score_threshold)
    overlap = check_share(where, "iou_threshold", iou_threshold)
    levels, offsets, features = (
        list(field(where, "outputs", outputs, name)) for name in ("logits", "boxes", "sizes")
    )
    if not callable(anchors) or not len(levels) == len(offsets) == len(features) > 0:
        raise ft.ArgumentError(
            f"[{where}] logits of {len(levels)} levels, boxes of {len(offsets)}, sizes of "
            f"{len(features)}, anchors {anchors!r}: give as many of each, and an AnchorGenerator"
        )
    around = np.asarray(anchors(features).tolist(), np.float32)
    images = _sizes(where, sizes, levels[0].shape[0])
    scores = [host_values(where, "logits", ft.sigmoid(level)) for level in levels]
    deltas = [host_values(where, "boxes", level) for level in offsets]
    if sum(score.shape[1] for score in scores) != len(around):
        raise ft.ShapeError(
            f"[{where}] {sum(score.shape[1] for score in scores)} places for {len(around)} anchors:"
            " give the generator that the network was trained with"
        )
    found = []
    for number, size in enumerate(images):
        chosen, first = [], 0
        for score, delta in zip(scores, deltas, strict=True):
            mine = around[first : first + score.shape[1]]
            chosen.append(_best(score[number], delta[number], mine, threshold, per_level))
            first += score.shape[1]
        boxes, values, labels = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        boxes = np.asarray(clip_boxes_to_image(_tensor(boxes), *size).tolist(), boxes.dtype)
        boxes = boxes.reshape(-1, 4)
        kept = batched_nms(_tensor(boxes), _tensor(values), _tensor(labels), overlap)
        rows = np.asarray(kept.tolist(), np.int64)[:most]
        found.append(_detections(boxes[rows], values[rows], labels[rows]))
    return found


def _best(
    scores: np.ndarray, deltas: np.ndarray, anchors: np.ndarray, threshold: float, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes, scores and labels of one level."""
    flat = scores.reshape(-1)
    above = np.flatnonzero(flat > threshold)
    best = above[np.argsort(-flat[above], kind="stable")[:most]]
    place, label = best // scores.shape[1], best % scores.shape[1]
    if not len(best):
        return np.zeros((0, 4), deltas.dtype), flat[best], label
    around = anchors[place].astype(deltas.dtype)
    decoded = decode_boxes(_tensor(deltas[place]), _tensor(around))
    return np.asarray(decoded.tolist(), deltas.dtype), flat[best], label


def _detections(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Detections:
    made = (np.ascontiguousarray(x) for x in (boxes, scores, labels.astype(np.int64)))
    return Detections(*map(ft.asarray, made))


def _tensor(values: np.ndarray) -> ft.Tensor:
    return ft.asarray(np.ascontiguousarray(values))


def _count(where: str, name: str, value: int) -> int:
    count = int_of(where, value, name)
    if count < 1:
        raise ft.ArgumentError(f"[{where}] {name} {count}: expected at least 1")
    return count


def _sizes(where: str, sizes: Any, images: int) -> list[tuple[int, int]]:
    if isinstance(sizes, (str, bytes)) or not hasattr(sizes, "__len__"):
        raise ft.DTypeError(f"[{where}] sizes {sizes!r}: expected (height, width) of each image")
    found = [ints_of(where, size, "sizes") for size in sizes]
    if len(found) != images or any(len(size) != 2 or min(size) < 1 for size in found):
        raise ft.ShapeError(
            f"[{where}] sizes {found} for {images} images: expected (height, width) of each"
        )
    return [(size[0], size[1]) for size in found]
