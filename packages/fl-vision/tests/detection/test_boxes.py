"""Boxes: formats, overlaps and suppression."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_vision import detection


def array(*boxes: tuple[float, ...]) -> ft.Tensor:
    return ft.asarray(np.array(boxes, np.float64).reshape(-1, 4))


def test_formats_both_ways():
    forms = {"xyxy": (2, 3, 8, 7), "xywh": (2, 3, 6, 4), "cxcywh": (5, 5, 6, 4)}
    for source, box in forms.items():
        for target, wanted in forms.items():
            assert detection.box_convert(array(box), source, target).tolist() == [list(wanted)]


def test_leading_axes_are_kept():
    boxes = ft.ones((2, 3, 5, 4))
    assert detection.box_convert(boxes, "cxcywh", "xyxy").shape == (2, 3, 5, 4)
    assert detection.box_area(boxes).shape == (2, 3, 5)


@pytest.mark.parametrize(
    ("other", "iou", "giou"),
    [
        ((0, 0, 2, 2), 1.0, 1.0),  # the same
        ((1, 0, 3, 2), 1 / 3, 1 / 3),  # half of it
        ((1, 1, 3, 3), 1 / 7, 1 / 7 - 2 / 9),  # a corner
        ((0, 0, 1, 1), 1 / 4, 1 / 4),  # inside
        ((-1, -1, 3, 3), 1 / 4, 1 / 4),  # around
        ((2, 0, 4, 2), 0.0, 0.0),  # an edge in common
        ((2, 2, 4, 4), 0.0, -1 / 2),  # a corner in common
        ((4, 0, 6, 2), 0.0, -1 / 3),  # apart
    ],
)
def test_overlap_of_two_boxes(other, iou, giou):
    boxes = array((0, 0, 2, 2)), array(other)
    found, union = detection.box_iou_and_union(*boxes)
    assert found.item() == pytest.approx(iou)
    assert detection.generalized_box_iou(*boxes).item() == pytest.approx(giou)
    inter = found.item() * union.item()
    assert union.item() + inter == pytest.approx(4 + detection.box_area(boxes[1]).item())


def test_boxes_of_area_0_overlap_nothing():
    point = array((1, 1, 1, 1))
    assert detection.box_iou(point, point).item() == 0.0
    assert detection.generalized_box_iou(point, point).item() == 0.0
    x = ag.Variable(point, requires_grad=True)
    assert np.isfinite(ag.grad(ft.sum(detection.box_iou(x, x)), [x])[0].numpy()).all()


def test_every_pair_and_the_same_places():
    rng = np.random.default_rng(0)
    corners = rng.random((5, 2))
    boxes = ft.asarray(np.concatenate([corners, corners + rng.random((5, 2))], 1))
    for generalized, pairwise in (
        (False, detection.box_iou(boxes[:3], boxes)),
        (True, detection.generalized_box_iou(boxes[:3], boxes)),
    ):
        assert pairwise.shape == (3, 5)
        same = detection.paired_box_iou(boxes[:3], boxes[:3], generalized)
        assert np.allclose(same.numpy(), np.diagonal(pairwise.numpy()))
    assert detection.box_iou(boxes[:0], boxes).shape == (0, 5)


def test_gradients_are_those_of_small_differences():
    a = np.array([[0.0, 0.0, 2.0, 3.0], [1.0, 1.0, 4.0, 2.5]])
    b = ft.asarray(np.array([[0.5, 0.25, 2.5, 2.0], [5.0, 4.0, 6.0, 7.0]]))

    def total(x: ft.Array) -> ft.Array:
        weights = ft.asarray(np.array([[1.0, 2.0], [3.0, 4.0]]))
        overlaps = detection.generalized_box_iou(detection.box_convert(x, "xywh", "xyxy"), b)
        return ft.sum(overlaps * weights)

    x = ag.Variable(ft.asarray(a), requires_grad=True)
    (found,) = ag.grad(total(x), [x])
    for place in np.ndindex(a.shape):
        step = np.zeros_like(a)
        step[place] = 1e-6
        change = total(ft.asarray(a + step)).item() - total(ft.asarray(a - step)).item()
        assert found.numpy()[place] == pytest.approx(change / 2e-6, abs=1e-7)


def test_clipping_and_removal_of_small_boxes():
    boxes = array((-5, 2, 30, 40), (3, 3, 3, 9), (math.nan, 0, 1, 1), (0, 0, math.inf, 1))
    clipped = detection.clip_boxes_to_image(boxes, height=20, width=25)
    assert clipped[0].tolist() == [0, 2, 25, 20]
    kept, dropped = detection.remove_small_boxes(boxes, 1.0)
    assert (kept.tolist(), dropped) == ([0], 3)


def test_suppression_keeps_the_best_and_the_first_of_equal_ones():
    boxes = array((0, 0, 10, 10), (1, 0, 11, 10), (20, 0, 30, 10), (0, 0, 10, 10), (20, 0, 30, 10))
    scores = ft.asarray([0.5, 0.9, 0.3, 0.8, 0.3])
    assert detection.nms(boxes, scores, 0.5).tolist() == [1, 2]
    assert detection.nms(boxes, scores, 0.9).tolist() == [1, 3, 2]
    # 9 / 11 of the first two is not above itself.
    assert detection.nms(boxes, scores, 9 / 11).tolist() == [1, 3, 2]
    labels = ft.asarray([0, 1, 0, 0, 1])
    assert detection.batched_nms(boxes, scores, labels, 0.5).tolist() == [1, 3, 2, 4]
    assert detection.nms(boxes[:0], scores[:0], 0.5).tolist() == []


def test_thresholds_are_compared_in_the_precision_of_the_boxes():
    # An IoU of 1/3 in float32 is above 1/3 in float64.
    boxes = array((0, 0, 2, 1), (1, 0, 3, 1))
    scores = ft.asarray([0.9, 0.8])
    third = float(np.float64(1) / 3)
    assert detection.nms(boxes.astype("float64"), scores, third).tolist() == [0, 1]
    assert detection.nms(boxes.astype("float32"), scores, third).tolist() == [0]


def soft(boxes, scores, method, threshold=0.3, sigma=0.5, least=1e-3):
    """The pseudocode of Bodla et al., 2017, Figure 2."""
    iou = detection.box_iou(ft.asarray(boxes), ft.asarray(boxes)).numpy()
    left, scores, found = list(range(len(boxes))), list(map(float, scores)), []
    while left:
        best = max(left, key=lambda i: (scores[i], -i))
        if scores[best] <= least:
            break
        left.remove(best)
        found.append((best, scores[best]))
        for i in left:
            o = iou[best, i]
            if method == "gaussian":
                scores[i] *= math.exp(-o * o / sigma)
            elif o > threshold:
                scores[i] *= 1 - o
    return found


@pytest.mark.parametrize("method", ["linear", "gaussian"])
def test_soft_suppression(method):
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 20, (40, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(5, 20, (40, 2))], 1)
    scores = rng.random(40)
    kept, found = detection.soft_nms(ft.asarray(boxes), ft.asarray(scores), method, min_score=0.05)
    wanted = soft(boxes, scores, method, least=0.05)
    assert kept.tolist() == [index for index, _ in wanted]
    assert np.allclose(found.numpy(), [score for _, score in wanted], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: detection.box_iou(ft.ones((2, 5)), ft.ones((2, 4))), ft.ShapeError, r"\(2, 5\)"),
        (lambda: detection.box_area([[0, 0, 1, 1]]), ft.DTypeError, "boxes"),
        (lambda: detection.box_area(ft.ones((1, 4), dtype="int64")), ft.DTypeError, "astype"),
        (lambda: detection.box_convert(ft.ones((1, 4)), "xyxy", "yxyx"), ft.ArgumentError, "yxyx"),
        (
            lambda: detection.nms(array((0, 0, 1, 1), (3, 0, 1, 2)), ft.ones((2,)), 0.5),
            ft.ArgumentError,
            r"box 1 is \(3, 0, 1, 2\)",
        ),
        (
            lambda: detection.nms(array((0, 0, math.nan, 1)), ft.ones((1,)), 0.5),
            ft.ArgumentError,
            "box 0",
        ),
        (
            lambda: detection.nms(ft.ones((2, 4)), ft.asarray([1.0, math.nan]), 0.5),
            ft.ArgumentError,
            "score of box 1 is NaN",
        ),
        (lambda: detection.nms(ft.ones((2, 4)), ft.ones((2,)), 1.5), ft.ArgumentError, "1.5"),
        (lambda: detection.nms(ft.ones((2, 4)), ft.ones((3,)), 0.5), ft.ShapeError, r"\(3,\)"),
        (
            lambda: detection.clip_boxes_to_image(ft.ones((1, 4)), -1, 5),
            ft.ArgumentError,
            "height -1",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
