"""Object detection: boxes, matching, criteria, masks, evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_vision import detection
from targets.making import target, x

NAN = float("nan")
NUMBERS = [value(v) for v in ("a", -1.0, NAN, None, [1.0])]
SHARES = [*NUMBERS, value(1.5)]
BOXES = [
    *[value(v) for v in (None, "text", 3, [[0.0, 0.0, 1.0, 1.0]], np.ones((1, 4)))],
    *[value(ft.ones(s), f"of shape {s}") for s in ((4, 1), (2, 5), ())],
    value(ft.ones((1, 4), dtype="int64"), "integers"),
]
#: Where the values are read.
CORNERS = [
    *BOXES,
    value(ft.asarray([[2.0, 0.0, 1.0, 1.0]]), "a negative width"),
    value(ft.asarray([[0.0, 0.0, NAN, 1.0]]), "NaN"),
]
SCORES = [
    *[value(v) for v in (None, "text", 0.5)],
    value(ft.ones((3,)), "three"),
    value(ft.full((1,), NAN), "NaN"),
    value(ft.ones((1,), dtype="int64"), "integers"),
]
LABELS = [value(v) for v in (None, "text", [0.5], [[0]], [0, 1], [None])]
PREDICTIONS = [*[value(v) for v in (None, "text", 3)], value(ft.ones((2, 3)), "of two axes")]
COSTS = [
    *[value(v) for v in (None, "text", 3, {}, [[1.0], [1.0, 2.0]], [["a"]])],
    *[value(np.array([[[v]]]), str(v)) for v in (NAN, float("inf"))],
]
GOOD: dict[str, Any] = {"boxes": np.full((1, 4), 0.5, np.float32), "labels": [0]}
TARGETS_OF_IMAGES = [
    *[value(v) for v in (None, "text", 3, [], [3], [None], GOOD, [GOOD, GOOD])],
    value([GOOD | {"labels": [9]}], "an unknown class"),
    value([GOOD | {"labels": [0.5]}], "a label of 0.5"),
    value([GOOD | {"labels": [0, 0]}], "two labels"),
    value([GOOD | {"boxes": [[0.1, 0.1, -1.0, 1.0]]}], "a negative size"),
    value([GOOD | {"boxes": [[0.1, 0.1, NAN, 1.0]]}], "NaN"),
    value([GOOD | {"boxes": [[0.1, 0.1]]}], "boxes of two numbers"),
]
FOUND: dict[str, Any] = {"boxes": np.array([[0.0, 0.0, 1.0, 1.0]]), "scores": [0.5], "labels": [0]}
MASK = detection.RLE.encode(np.eye(3))
MASKS = [value(v) for v in (None, "text", 3, [3], [np.eye(3)])]
OTHER = value([MASK, detection.RLE.encode(np.eye(4))], "of two sizes")
SET = detection.SetPrediction(ft.ones((1, 2, 3)), ft.full((1, 2, 4), 0.5))
DENSE = detection.DensePrediction(x(1, 1, 2), x(1, 1, 4), ft.asarray([[0.0, 0.0, 1.0, 1.0]]))
CORNER_TARGETS = [
    *[bad for bad in TARGETS_OF_IMAGES if bad.label != "a negative size"],
    value([GOOD | {"boxes": [[0.5, 0.5, 0.1, 1.0]]}], "a negative width"),
]
DENSE_GOOD = [GOOD | {"boxes": [[0.0, 0.0, 1.0, 1.0]]}]


def boxes(name: str, good: dict[str, Any], **kinds: Any) -> Target:
    return target(f"vision.detection.{name}", good, **kinds)


def one() -> Any:
    return ft.asarray([[0.0, 0.0, 1.0, 1.0]])


PAIR: dict[str, Any] = {"boxes1": one, "boxes2": one}
SUPPRESSION: dict[str, Any] = {"boxes": one, "scores": lambda: x(1), "iou_threshold": 0.5}
METER = {"0": [FOUND], "1": [GOOD | {"boxes": FOUND["boxes"]}]}

TARGETS: list[Target] = [
    boxes(
        "box_convert",
        {"boxes": one, "source": "xyxy", "target": "xywh"},
        **{"boxes": BOXES, "source": "choice", "target": "choice"},
    ),
    boxes("box_area", {"boxes": one}, boxes=BOXES),
    *(
        boxes(name, PAIR, boxes1=BOXES, boxes2=BOXES)
        for name in ("box_iou", "box_iou_and_union", "generalized_box_iou")
    ),
    boxes("paired_box_iou", PAIR, boxes1=BOXES, boxes2=BOXES, generalized=[value("a")]),
    boxes(
        "clip_boxes_to_image",
        {"boxes": one, "height": 2, "width": 3},
        boxes=BOXES,
        height=NUMBERS,
        width=NUMBERS,
    ),
    boxes("remove_small_boxes", {"boxes": one}, boxes=BOXES, min_size=NUMBERS),
    boxes("nms", SUPPRESSION, boxes=CORNERS, scores=SCORES, iou_threshold=SHARES),
    boxes(
        "batched_nms",
        SUPPRESSION | {"labels": lambda: ft.asarray([0])},
        boxes=CORNERS,
        scores=SCORES,
        labels=LABELS,
        iou_threshold=SHARES,
    ),
    boxes(
        "soft_nms",
        SUPPRESSION,
        boxes=CORNERS,
        scores=SCORES,
        iou_threshold=SHARES,
        method="choice",
        sigma=[*NUMBERS, value(0.0)],
        min_score=NUMBERS,
    ),
    boxes("linear_sum_assignment", {"cost": np.eye(2)}, cost=COSTS),
    boxes(
        "batched_linear_sum_assignment",
        {"costs": np.ones((1, 2, 2))},
        costs=COSTS,
        row_counts=[value(v) for v in ([3], [-1], [1, 1], "a", [0.5], 3)],
        column_counts=[value(v) for v in ([3], [-1], [1, 1], "a", [0.5], 3)],
    ),
    boxes("HungarianMatcher", {}, cost_class=NUMBERS, cost_bbox=NUMBERS, cost_giou=NUMBERS),
    target(
        "vision.detection.HungarianMatcher of a batch",
        {"0": SET.logits, "1": SET.boxes, "2": [GOOD]},
        call=detection.HungarianMatcher(),
        _0=PREDICTIONS,
        _1=PREDICTIONS,
        _2=TARGETS_OF_IMAGES,
    ),
    boxes(
        "SetCriterion",
        {"classes": 2},
        classes="positive",
        matcher=[value(3)],
        weight_ce=NUMBERS,
        weight_bbox=NUMBERS,
        weight_giou=NUMBERS,
        no_object=NUMBERS,
        communicator=[value(3)],
    ),
    target(
        "vision.detection.SetCriterion of a batch",
        {"0": SET, "1": [GOOD]},
        call=detection.SetCriterion(2),
        _0=[*[value(v) for v in (None, 3, {})], value(SET._replace(auxiliary=[3]), "auxiliary 3")],
        _1=TARGETS_OF_IMAGES,
    ),
    boxes(
        "RetinaNetCriterion",
        {"classes": 2},
        classes="positive",
        anchors=[value(3)],
        box_loss="choice",
        foreground=SHARES,
        background=SHARES,
        alpha=SHARES,
        gamma=NUMBERS,
        beta=NUMBERS,
        weight_box=NUMBERS,
    ),
    target(
        "vision.detection.RetinaNetCriterion of a batch",
        {"0": DENSE, "1": DENSE_GOOD},
        call=detection.RetinaNetCriterion(2),
        _0=[*[value(v) for v in (None, 3, {})], value(DENSE._replace(logits=x(1, 2, 2)), "logits")],
        _1=CORNER_TARGETS,
    ),
    boxes(
        "AnchorGenerator",
        {"sizes": [[4.0]], "strides": [4]},
        sizes=[value(v) for v in (None, 3, [], [[]], [[-1.0]], [[NAN]], [["a"]], [[1.0], [2.0]])],
        aspect_ratios=[value(v) for v in (None, 3, [], [0.0], [NAN], ["a"])],
        strides=[value(v) for v in (None, [0], [1, 2], [1.5], "a")],
    ),
    target(
        "vision.detection.AnchorGenerator of features",
        {"0": [[2, 2]], "1": [8, 8]},
        call=detection.AnchorGenerator([[4.0]], strides=[4]),
        _0=[value(v) for v in (None, 3, [3], [[2]], [[0, 2]], [[1, 1], [1, 1]], [[9, 1]])],
        _1=[value(v) for v in (3, [3], "a", [0, 1])],
    ),
    boxes("encode_boxes", {"boxes": one, "anchors": one}, boxes=BOXES, anchors=BOXES),
    boxes("decode_boxes", {"deltas": one, "anchors": one}, deltas=BOXES, anchors=BOXES),
    boxes(
        "match_anchors",
        {"boxes": one, "anchors": one},
        boxes=BOXES,
        anchors=BOXES,
        foreground=[*SHARES, value(0.1)],
        background=[*SHARES, value(0.9)],
        keep_best=[value("a")],
    ),
    boxes(
        "RLE",
        {"height": 2, "width": 2, "counts": np.array([1, 3])},
        height=[value(v) for v in (3, -1, 1.5, "a", None, 1 << 40)],
        width=[value(v) for v in (3, -1, 1.5, "a", None, 1 << 40)],
        counts=[value(v) for v in (None, "a", [5], [5, -1], [0.5, 3.5], [[1, 3]], 4)],
    ),
    boxes("merge_masks", {"masks": [MASK]}, masks=[*MASKS, OTHER, value([])], intersect="flag"),
    boxes(
        "mask_iou",
        {"masks1": [MASK], "masks2": [MASK]},
        masks1=[*MASKS, OTHER],
        masks2=[*MASKS, OTHER],
        crowd=[value(v) for v in ([1, 1], "a", 3)],
    ),
    boxes(
        "CocoMeter",
        {"classes": 2},
        classes=[value(v) for v in (None, 0, -1, 1.5, [3], [], "ab")],
        box_format="choice",
        masks="flag",
    ),
    target(
        "vision.detection.CocoMeter adds",
        METER,
        call=lambda *given: detection.CocoMeter(2).add(*given),
        _0=[
            *[value(v) for v in (None, "text", 3, [], [3], [None], FOUND)],
            *(value([FOUND | {"scores": v}], f"scores {v}") for v in ([NAN], [0.1, 0.2], "a")),
            *(value([FOUND | {"labels": v}], f"labels {v}") for v in ([2], [0.5], [0, 0])),
        ],
        _1=[
            *[value(v) for v in (None, "text", 3, [], [3], [None], GOOD)],
            *(value([GOOD | {"image_id": v}], f"image {v}") for v in ([1], {}, NAN)),
            *(value([METER["1"][0] | {"areas": v}], f"areas {v}") for v in ([NAN], [-1], [1, 1])),
            value([METER["1"][0] | {"crowd": [0, 0]}], "two crowd flags"),
        ],
    ),
]
UNTRIED: dict[str, str] = {
    f"vision.detection.{name}": "a record of values, which functions check"
    for name in (
        *("Objects", "SetPrediction", "DensePrediction", "Detections", "GroundTruth"),
        *("ClassPrecision", "CocoFigures"),
    )
}
