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


def test_classes_are_weighed_in_the_mean():
    log_probs = ft.log(ft.asarray([[0.5, 0.5], [0.25, 0.75]]))
    weight = ft.asarray([3.0, 1.0])
    loss = nn.cross_entropy(log_probs, ft.asarray([0, 1]), weight=weight)
    expected = (3.0 * math.log(2.0) - math.log(0.75)) / 4.0
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_label_smoothing_prices_certainty():
    sure = ft.log_softmax(ft.asarray([[20.0, 0.0, 0.0]]))
    plain = nn.cross_entropy(sure, ft.asarray([0])).item()
    smooth = nn.cross_entropy(sure, ft.asarray([0]), label_smoothing=0.3).item()
    assert plain == pytest.approx(0.0, abs=1e-6) and smooth == pytest.approx(4.0, rel=1e-5)


def test_sure_mistakes_have_a_finite_price_and_gradient():
    p = nn.Parameter(ft.asarray([0.0, 1.0, 1.0]))
    losses = nn.binary_cross_entropy(p, ft.asarray([1.0, 0.0, 1.0]), "none")
    assert losses.tolist() == [100.0, 100.0, 0.0]
    ft.sum(losses).backward()
    assert ft.all(ft.isfinite(p.grad)).item()
    logits = ft.asarray([-1e4, 1e4])
    losses = nn.binary_cross_entropy_with_logits(logits, ft.asarray([1.0, 0.0]), "none")
    assert losses.tolist() == [1e4, 1e4]


def test_focal_without_focus_is_binary_cross_entropy():
    x, t = ft.randn(8), ft.asarray([1.0, 0.0] * 4)
    plain = nn.binary_cross_entropy_with_logits(x, t).item()
    assert nn.focal(x, t, alpha=None, gamma=0.0).item() == pytest.approx(plain)
    assert nn.focal(x, t).item() < plain


def test_huber_is_square_near_and_straight_far():
    d = ft.asarray([0.0, 1.0, 2.0, -5.0])
    assert nn.huber(d, ft.zeros(4), "none", 2.0).tolist() == [0.0, 0.5, 2.0, 8.0]


def test_divergence_from_itself_is_zero_where_a_class_is_impossible():
    p = ft.asarray([[0.0, 1.0]])
    log_p = ft.asarray([[-50.0, 0.0]])
    assert nn.kl_div(log_p, p, "batchmean").item() == 0.0


def test_cosine_loss_asks_for_direction_alone():
    x = ft.asarray([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    y = ft.asarray([[5.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    losses = nn.cosine_embedding(x, y, ft.asarray([1, -1, -1]), "none", 0.25)
    assert losses.tolist() == pytest.approx([0.0, 0.0, 0.75])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: nn.HuberLoss(delta=0.0), "positive"),
        (lambda: nn.FocalLoss("batchmean"), "mean, sum, none"),
        (lambda: nn.KLDivergence("average"), "batchmean"),
        (lambda: nn.CategoricalCrossEntropy(label_smoothing=1.5), "share"),
        (lambda: nn.mae(ft.ones(3), ft.ones((3, 1))), r"\(3,\) and targets \(3, 1\)"),
        (lambda: nn.binary_cross_entropy(ft.ones(3), ft.ones(2)), "probs"),
        (lambda: nn.cosine_embedding(ft.ones((2, 3)), ft.ones((2, 3)), ft.ones(3)), "one target"),
        (
            lambda: nn.cross_entropy(ft.ones((1, 3)), ft.asarray([0]), weight=ft.ones(2)),
            r"expected \(3,\)",
        ),
    ],
)
def test_losses_that_make_no_sense_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
