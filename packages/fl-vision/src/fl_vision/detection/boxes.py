"""Boxes as arrays (..., 4): formats, areas, overlaps, clipping.

Formats are "xyxy" (left, top, right, bottom), "xywh" (left, top, width, height) and "cxcywh"
(centre, width, height). Coordinates are positions on the continuous plane: a box from 2 to 5 has
width 3. Functions without a format take xyxy. All but `remove_small_boxes` run on every backend and
have gradients.
"""

from __future__ import annotations

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of, flag_of, float_of
from fl_vision.detection.checks import check_boxes, host_values

BOX_FORMATS = ("xyxy", "xywh", "cxcywh")


@explained
def box_convert(boxes: ft.Array, source: str, target: str) -> ft.Array:
    """`boxes` (..., 4), floating, from one format into another: "xyxy", "xywh" or "cxcywh".
    Raises ArgumentError, ShapeError, DTypeError."""
    where = "box_convert"
    for name, value in (("source", source), ("target", target)):
        choice_of(where, value, name, BOX_FORMATS)
    check_boxes(where, "boxes", boxes)
    if source == target:
        return boxes
    a, b, c, d = _columns(boxes)
    if source == "xywh":
        a, b, c, d = a, b, a + c, b + d
    elif source == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if target == "xywh":
        a, b, c, d = a, b, c - a, d - b
    elif target == "cxcywh":
        a, b, c, d = (a + c) / 2.0, (b + d) / 2.0, c - a, d - b
    return ft.stack([a, b, c, d], -1)


@explained
def box_area(boxes: ft.Array) -> ft.Array:
    """The areas (...) of xyxy boxes (..., 4). Raises ShapeError, DTypeError."""
    check_boxes("box_area", "boxes", boxes)
    return _area(boxes)


@explained
def box_iou(boxes1: ft.Array, boxes2: ft.Array) -> ft.Array:
    """Intersection over union (N, M) of each of the xyxy boxes (N, 4) with each of (M, 4); 0 where
    both areas are 0. Raises ShapeError, DTypeError."""
    return box_iou_and_union(boxes1, boxes2)[0]


@explained
def box_iou_and_union(boxes1: ft.Array, boxes2: ft.Array) -> tuple[ft.Array, ft.Array]:
    """`box_iou` and the areas of the unions, both (N, M)."""
    first, second = _pairs("box_iou", boxes1, boxes2)
    return _overlap(first, second)


@explained
def generalized_box_iou(boxes1: ft.Array, boxes2: ft.Array) -> ft.Array:
    """Generalised IoU (N, M), in [-1, 1]: IoU minus the share of the smallest enclosing box that
    the union leaves free. Arguments as of `box_iou`. Rezatofighi et al., 2019."""
    return _generalized(*_pairs("generalized_box_iou", boxes1, boxes2))


@explained
def paired_box_iou(boxes1: ft.Array, boxes2: ft.Array, generalized: bool = False) -> ft.Array:
    """IoU (...), or generalised IoU, of xyxy boxes (..., 4) with those of the same place; both
    broadcast. Raises ShapeError, DTypeError."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        check_boxes("paired_box_iou", name, boxes)
    flag_of("paired_box_iou", generalized, "generalized")
    return _generalized(boxes1, boxes2) if generalized else _overlap(boxes1, boxes2)[0]


@explained
def clip_boxes_to_image(boxes: ft.Array, height: float, width: float) -> ft.Array:
    """xyxy boxes (..., 4), with x in [0, width] and y in [0, height]. Raises ArgumentError for a
    negative size, ShapeError, DTypeError."""
    where = "clip_boxes_to_image"
    check_boxes(where, "boxes", boxes)
    high, wide = (
        _size(where, name, value) for name, value in (("height", height), ("width", width))
    )
    x1, y1, x2, y2 = _columns(boxes)
    sides = [ft.clip(x1, 0.0, wide), ft.clip(y1, 0.0, high)]
    return ft.stack([*sides, ft.clip(x2, 0.0, wide), ft.clip(y2, 0.0, high)], -1)


@explained
def remove_small_boxes(boxes: ft.Array, min_size: float = 1e-3) -> tuple[ft.Tensor, int]:
    """The indices (K,), int64, of the xyxy boxes (N, 4) whose sides are finite and at least
    `min_size`, and the number of those that are left out. Raises ArgumentError, ShapeError,
    DTypeError, NoDataError on a backend without values."""
    where = "remove_small_boxes"
    check_boxes(where, "boxes", boxes, 2)
    least = _size(where, "min_size", min_size)
    found = host_values(where, "boxes", boxes)
    sides = found[:, 2:] - found[:, :2]
    # A comparison with NaN is false; of infinite coordinates a side is infinite or NaN.
    kept = ((sides >= least) & (sides < float("inf"))).all(axis=1).nonzero()[0]
    indices = ft.asarray(kept, ft.int64, boxes.device, boxes.backend)
    return indices, len(found) - len(kept)


def _columns(boxes: ft.Array) -> list[ft.Array]:
    return [boxes[..., i] for i in range(4)]


def _size(where: str, name: str, value: float) -> float:
    size = float_of(where, value, name)
    if not 0 <= size < float("inf"):
        raise ft.ArgumentError(f"[{where}] {name} {size:g}: expected a number of at least 0")
    return size


def _pairs(where: str, boxes1: ft.Array, boxes2: ft.Array) -> tuple[ft.Array, ft.Array]:
    check_boxes(where, "boxes1", boxes1, 2)
    check_boxes(where, "boxes2", boxes2, 2)
    return ft.expand_dims(boxes1, 1), ft.expand_dims(boxes2, 0)


def _area(boxes: ft.Array) -> ft.Array:
    x1, y1, x2, y2 = _columns(boxes)
    return (x2 - x1) * (y2 - y1)


def _overlap(first: ft.Array, second: ft.Array) -> tuple[ft.Array, ft.Array]:
    """IoU and union of boxes that broadcast."""
    low = ft.maximum(first[..., :2], second[..., :2])
    high = ft.minimum(first[..., 2:], second[..., 2:])
    sides = ft.maximum(high - low, 0.0)
    inter = sides[..., 0] * sides[..., 1]
    union = _area(first) + _area(second) - inter
    return inter / _or_one(union), union


def _generalized(first: ft.Array, second: ft.Array) -> ft.Array:
    iou, union = _overlap(first, second)
    low = ft.minimum(first[..., :2], second[..., :2])
    high = ft.maximum(first[..., 2:], second[..., 2:])
    sides = ft.maximum(high - low, 0.0)
    hull = sides[..., 0] * sides[..., 1]
    return iou - (hull - union) / _or_one(hull)


def _or_one(area: ft.Array) -> ft.Array:
    # A quotient by 0 would be NaN, and so would its gradient.
    return ft.where(area == 0.0, 1.0, area)
