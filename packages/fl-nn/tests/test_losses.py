"""Losses."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, Parameter

LOG_PROBS = [[math.log(0.5), math.log(0.25), math.log(0.25)], [math.log(0.1)] * 2 + [math.log(0.8)]]


@pytest.mark.parametrize(
    "reduction, expected",
    [
        ("none", [math.log(4), -math.log(0.8)]),
        ("sum", math.log(4) - math.log(0.8)),
        ("mean", (math.log(4) - math.log(0.8)) / 2),
    ],
)
def test_cross_entropy_is_the_negative_log_probability_of_the_target(reduction, expected):
    loss = nn.cross_entropy(ft.asarray(LOG_PROBS), ft.asarray([1, 2]), reduction)
    assert loss.tolist() == pytest.approx(expected)
    module = nn.CategoricalCrossEntropy(reduction)
    assert module(ft.asarray(LOG_PROBS), ft.asarray([1, 2])).tolist() == pytest.approx(expected)


def test_ignored_targets_count_for_nothing():
    scores = Parameter(ft.asarray(LOG_PROBS))
    loss = nn.cross_entropy(scores, ft.asarray([-1, 2]), ignore_index=-1)
    assert loss.item() == pytest.approx(-math.log(0.8))
    loss.backward()
    assert scores.grad.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]
    none = nn.cross_entropy(scores, ft.asarray([-1, 2]), "none", ignore_index=-1)
    assert none.tolist() == pytest.approx([0.0, -math.log(0.8)])


def test_the_mean_over_no_targets_is_zero():
    scores = Parameter(ft.asarray(LOG_PROBS))
    loss = nn.cross_entropy(scores, ft.asarray([9, 9]), ignore_index=9)
    loss.backward()
    assert loss.item() == 0.0 and ft.max(ft.absolute(scores.grad)).item() == 0.0


def test_classes_may_be_on_any_axis():
    x = nn.LogSoftmax(-1)(ft.randn((2, 5, 3)))
    targets = ft.asarray([[0, 1, 2, 0, 1], [2, 2, 0, 1, 0]])
    last = nn.cross_entropy(x, targets, axis=-1).item()
    assert last == pytest.approx(nn.cross_entropy(x.permute(0, 2, 1), targets).item())


@pytest.mark.parametrize("target", [-1, 3])
def test_targets_out_of_range_are_index_errors(target):
    with pytest.raises(IndexError, match=rf"hold {target}: expected 0 .. 2"):
        nn.cross_entropy(ft.asarray(LOG_PROBS), ft.asarray([0, target]))


def test_targets_of_another_shape_or_dtype_are_refused():
    with pytest.raises(ft.ShapeError, match=r"targets must be \(2,\)"):
        nn.cross_entropy(ft.asarray(LOG_PROBS), ft.asarray([[0], [1]]))
    with pytest.raises(ft.DTypeError, match="integers"):
        nn.cross_entropy(ft.asarray(LOG_PROBS), ft.ones(2))
    with pytest.raises(ft.ShapeError, match="axis"):
        nn.cross_entropy(ft.asarray(LOG_PROBS), ft.asarray([0, 1]), axis=2)


@pytest.mark.parametrize(
    "reduction, expected", [("none", [1.0, 9.0]), ("sum", 10.0), ("mean", 5.0)]
)
def test_mean_squared_error(reduction, expected):
    x, y = ft.asarray([1.0, 5.0]), ft.asarray([2.0, 2.0])
    assert nn.mse(x, y, reduction).tolist() == expected
    assert nn.MeanSquaredError(reduction)(x, y).tolist() == expected


def test_mean_squared_error_does_not_broadcast():
    with pytest.raises(ft.ShapeError, match="differ in shape"):
        nn.mse(ft.ones((3, 1)), ft.ones(3))


def test_unknown_reductions_are_refused():
    for make in (
        lambda: nn.cross_entropy(ft.asarray(LOG_PROBS), ft.asarray([1, 2]), "average"),
        lambda: nn.CategoricalCrossEntropy("average"),
        lambda: nn.mse(ft.ones(1), ft.ones(1), "average"),
        lambda: nn.MeanSquaredError("average"),
    ):
        with pytest.raises(ModuleError, match="mean, sum, none"):
            make()
