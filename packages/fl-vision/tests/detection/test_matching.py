"""Linear sum assignment, and the matching of queries and objects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fl_tensor as ft
from fl_vision.detection import (
    HungarianMatcher,
    Objects,
    batched_linear_sum_assignment,
    linear_sum_assignment,
)


def least(cost: np.ndarray) -> float:
    """The least cost of all assignments."""
    cost = cost if cost.shape[0] <= cost.shape[1] else cost.T
    rows = np.arange(len(cost))
    choices = itertools.permutations(range(cost.shape[1]), len(cost))
    return min(cost[rows, list(choice)].sum() for choice in choices)


@pytest.mark.parametrize("whole", [False, True])
def test_small_matrices_against_all_assignments(whole):
    rng = np.random.default_rng(0)
    for _ in range(100):
        shape = rng.integers(0, 6, 2)
        cost = rng.integers(-2, 3, shape).astype(float) if whole else rng.normal(size=shape)
        rows, columns = linear_sum_assignment(cost)
        assert len(rows) == min(shape)
        assert cost[rows, columns].sum() == pytest.approx(least(cost))


def test_rows_are_sorted_and_tensors_are_taken():
    rows, columns = linear_sum_assignment(ft.asarray([[1.0, 9.0], [9.0, 9.0], [9.0, 1.0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 2], [0, 1])


def test_a_matrix_of_a_batch_has_its_own_size():
    costs = np.full((2, 3, 3), np.nan)
    costs[0, :1, :2] = [[4.0, 2.0]]
    costs[1] = 1.0 - np.eye(3)
    pairs = batched_linear_sum_assignment(costs, [1, 3], [2, 3])
    assert [[x.tolist() for x in pair] for pair in pairs] == [[[0], [1]], [[0, 1, 2], [0, 1, 2]]]
    assert batched_linear_sum_assignment(np.zeros((0, 3, 3))) == []


def test_costs_of_any_size_are_solved():
    for scale in (1e-300, 1e-8, 1e8, 1e150):
        cost = np.random.default_rng(1).normal(size=(20, 30))
        wanted = linear_sum_assignment(cost)
        assert all(map(np.array_equal, linear_sum_assignment(cost * scale), wanted))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_costs_that_are_not_finite_are_named(bad):
    cost = np.zeros((2, 3, 4))
    cost[1, 2, 0] = bad
    with pytest.raises(ft.ArgumentError, match="row 2 and column 0 of matrix 1"):
        batched_linear_sum_assignment(cost)


def test_costs_whose_sums_overflow_are_refused():
    with pytest.raises(ft.ArgumentError, match="up to 1e"):
        linear_sum_assignment(np.array([[1e308, -1e308], [1e308, -1e308]]))


def prediction(*boxes: tuple[float, ...], classes: int = 2) -> tuple[ft.Tensor, ft.Tensor]:
    logits = np.zeros((1, len(boxes), classes + 1), np.float32)
    return ft.asarray(logits), ft.asarray(np.array([boxes], np.float32))


def test_the_cost_is_of_class_distance_and_overlap():
    logits, boxes = prediction((0.5, 0.5, 0.2, 0.2), (0.3, 0.3, 0.2, 0.2))
    objects = [Objects(np.array([[0.5, 0.5, 0.2, 0.2]], np.float32), np.array([1]))]
    assert [x.tolist() for x in HungarianMatcher()(logits, boxes, objects)[0]] == [[0], [0]]
    # By the class alone the other query is better.
    logits = ft.asarray(np.array([[[0, 0, 0], [0, 5, 0]]], np.float32))
    by_class = HungarianMatcher(1.0, 0.0, 0.0)
    assert by_class(logits, boxes, objects)[0][0].tolist() == [1]


def test_images_without_objects_and_with_more_than_queries():
    logits, boxes = (ft.concatenate([x] * 3) for x in prediction((0.5,) * 4, (0.2,) * 4))
    empty = Objects(np.zeros((0, 4), np.float32), np.zeros(0, int))
    many = Objects(np.full((5, 4), 0.4, np.float32), np.zeros(5, int))
    one = {"boxes": ft.asarray([[0.2, 0.2, 0.2, 0.2]]), "labels": ft.asarray([0])}
    pairs = HungarianMatcher()(logits, boxes, [empty, many, one])
    assert [len(queries) for queries, _ in pairs] == [0, 2, 1]
    assert [x.tolist() for x in pairs[2]] == [[1], [0]]


LOGITS, BOXES = prediction((0.5,) * 4)
GOOD = Objects(np.full((1, 4), 0.5, np.float32), np.array([0]))


@pytest.mark.parametrize(
    ("targets", "error", "message"),
    [
        ([GOOD, GOOD], ft.ShapeError, "2 targets for 1 images"),
        ([GOOD._replace(labels=np.array([2]))], ft.IndexingError, r"target 0: label 2 .*0 \.\. 1"),
        ([GOOD._replace(labels=np.array([0, 1]))], ft.ShapeError, "one for each box"),
        ([GOOD._replace(labels=np.array([0.5]))], ft.DTypeError, "integers"),
        (
            [GOOD._replace(boxes=np.array([[0.5, 0.5, -0.1, 0.2]], np.float32))],
            ft.ArgumentError,
            r"target 0: box 0 is \(0\.5, 0\.5, -0\.1, 0\.2\) as cxcywh",
        ),
        ([GOOD._replace(boxes=np.full((1, 4), np.nan))], ft.ArgumentError, "target 0: box 0"),
        ([3], ft.ArgumentError, "without 'boxes'"),
        ("ab", ft.DTypeError, "one for each image"),
    ],
)
def test_bad_targets_are_named(targets, error, message):
    with pytest.raises(error, match=message):
        HungarianMatcher()(LOGITS, BOXES, targets)


def test_predictions_that_are_not_finite_are_named():
    with pytest.raises(ft.ArgumentError, match="image 0: the boxes of query 0 are not finite"):
        HungarianMatcher()(LOGITS, BOXES * np.nan, [GOOD])
    with pytest.raises(ft.ArgumentError, match="logits of query 0"):
        HungarianMatcher()(LOGITS * np.inf, BOXES, [GOOD])
