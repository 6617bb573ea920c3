"""Outputs of detectors become boxes in pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_vision import detection
from fl_vision.detection import AnchorGenerator, detr_detections, retinanet_detections

ANCHORS = AnchorGenerator([[8.0], [16.0]], (1.0,), (8, 16))
#: Of a batch of 32 x 32 pixels: 16 places, then 4.
SIZES = ((4, 4), (2, 2))


def prediction(logits: Any, boxes: Any) -> detection.SetPrediction:
    return detection.SetPrediction(ft.asarray(logits), ft.asarray(boxes))


def dense(scores: dict[tuple[int, int, int], float]) -> dict[str, Any]:
    """Outputs for one image with these logits by level, place and class; all others are low. Boxes
    are the anchors."""
    logits = [np.full((1, 16, 2), -20.0, np.float32), np.full((1, 4, 2), -20.0, np.float32)]
    for (level, place, label), value in scores.items():
        logits[level][0, place, label] = value
    return {
        "logits": [ft.asarray(level) for level in logits],
        "boxes": [ft.zeros((1, 16, 4)), ft.zeros((1, 4, 4))],
        "sizes": SIZES,
    }


def test_boxes_of_detr_are_pixels_of_the_image() -> None:
    outputs = prediction([[[5.0, 0.0, 0.0]]], [[[0.5, 0.5, 0.5, 0.25]]])
    (found,) = detr_detections(outputs, [(40, 80)], most=1)
    assert found.boxes.tolist() == [[20.0, 15.0, 60.0, 25.0]]
    assert found.labels.tolist() == [0]
    assert found.scores.tolist() == pytest.approx([np.exp(5) / (np.exp(5) + 2)])


def test_a_score_counts_no_object_but_it_is_no_class() -> None:
    outputs = prediction([[[0.0, 1.0, 9.0], [2.0, 0.0, 0.0]]], np.full((1, 2, 4), 0.5, np.float32))
    (found,) = detr_detections(outputs, [(10, 10)])
    assert len(found.scores) == 4  # two classes of two queries
    assert found.labels.tolist()[0] == 0 and found.scores.tolist()[0] > 0.7
    assert found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    assert found.scores.tolist()[-1] < 1e-3


def test_boxes_of_detr_end_at_the_edge() -> None:
    outputs = prediction([[[5.0, 0.0]]], [[[0.0, 1.0, 0.5, 0.5]]])
    (found,) = detr_detections(outputs, [(8, 16)])
    assert found.boxes.tolist() == [[0.0, 6.0, 4.0, 8.0]]


def test_only_the_best_remain() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 7, 4)).astype("float32")
    outputs = prediction(logits, np.full((2, 7, 4), 0.5, np.float32))
    for one in detr_detections(outputs, [(8, 8), (9, 9)], most=5):
        assert one.scores.shape == (5,) and one.boxes.shape == (5, 4)


def test_dense_boxes_are_anchors_and_offsets() -> None:
    (found,) = retinanet_detections(dense({(0, 5, 1): 3.0}), ANCHORS, [(32, 32)])
    # Place 5 is row 1, column 1; an anchor of 8 pixels lies around its corner.
    assert found.boxes.tolist() == [[4.0, 4.0, 12.0, 12.0]]
    assert found.labels.tolist() == [1]
    assert found.scores.tolist() == pytest.approx([1 / (1 + np.exp(-3))])


def test_dense_boxes_of_all_levels_are_suppressed_within_classes() -> None:
    outputs = dense({(0, 0, 0): 2.0, (0, 0, 1): 3.0, (1, 3, 0): 4.0})
    outputs["boxes"][1] = ft.asarray(np.array([[[0.0] * 4] * 3 + [[-1, -1, *[np.log(0.5)] * 2]]]))
    outputs["boxes"][1] = outputs["boxes"][1].astype(ft.float32)
    (found,) = retinanet_detections(outputs, ANCHORS, [(32, 32)])
    # The box of level 1 lies where that of level 0 lies, of the same class with a lower score.
    assert found.labels.tolist() == [0, 1]
    assert found.scores.tolist() == pytest.approx([1 / (1 + np.exp(-4)), 1 / (1 + np.exp(-3))])


def test_dense_boxes_below_the_threshold_are_left_out() -> None:
    outputs = dense({(0, 0, 0): 0.0, (0, 3, 0): -1.0})
    (found,) = retinanet_detections(outputs, ANCHORS, [(32, 32)], score_threshold=0.4)
    assert found.scores.tolist() == [0.5]
    (found,) = retinanet_detections(outputs, ANCHORS, [(32, 32)], score_threshold=0.9)
    assert found.boxes.shape == (0, 4) and found.labels.shape == (0,)


def test_each_level_gives_its_best() -> None:
    outputs = dense({(0, place, 0): 1.0 + place / 16 for place in range(16)} | {(1, 0, 1): 0.5})
    (found,) = retinanet_detections(outputs, ANCHORS, [(32, 32)], per_level=2)
    assert found.labels.tolist() == [0, 0, 1]


def test_wrong_arguments_say_what_is_wrong() -> None:
    outputs = prediction(np.zeros((1, 2, 3), np.float32), np.zeros((1, 2, 4), np.float32))
    with pytest.raises(ft.ShapeError, match=r"sizes .* for 1 images"):
        detr_detections(outputs, [])
    with pytest.raises(ft.ArgumentError, match="most 0: expected at least 1"):
        detr_detections(outputs, [(8, 8)], most=0)
    with pytest.raises(ft.ShapeError, match="20 places for 21 anchors"):
        more = AnchorGenerator([[8.0], [16.0]], (1.0,), (8, 16))
        retinanet_detections(dense({}) | {"sizes": ((4, 4), (5, 1))}, more, [(32, 32)])
    with pytest.raises(ft.ArgumentError, match="as many of each"):
        retinanet_detections(dense({}) | {"sizes": ((4, 4),)}, ANCHORS, [(32, 32)])
