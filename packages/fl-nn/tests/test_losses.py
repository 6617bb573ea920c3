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
def test_nll_loss_is_the_negative_log_probability_of_the_target(reduction, expected):
    loss = nn.nll_loss(ft.asarray(LOG_PROBS), ft.asarray([1, 2]), reduction)
    assert loss.tolist() == pytest.approx(expected)
    module = nn.NLLLoss(reduction)
    assert module(ft.asarray(LOG_PROBS), ft.asarray([1, 2])).tolist() == pytest.approx(expected)


#: What takes logits: functions, and modules with the same options.
OF_LOGITS = "cross_entropy categorical_cross_entropy CrossEntropy CategoricalCrossEntropy".split()
BOTH = ["cross_entropy", "nll_loss"]
OPTIONS = [
    {},
    {"reduction": "none"},
    {"reduction": "sum", "ignore_index": 2},
    {"ignore_index": -1, "weight": ft.asarray([3.0, 1.0, 0.5])},
    {"weight": ft.asarray([3.0, 1.0, 0.5]), "label_smoothing": 0.3},
    {"reduction": "none", "ignore_index": 0, "label_smoothing": 0.1, "axis": -2},
]


def logits():
    return Parameter(ft.Generator(0).normal((4, 3, 2)) * 3.0)


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize("options", OPTIONS, ids=",".join)
@pytest.mark.parametrize("name", OF_LOGITS)
def test_cross_entropy_takes_logits(name, options):
    x, twin = logits(), logits()
    targets = ft.asarray([[0, 1], [2, 2], [0, 0], [1, 0]])
    if options.get("ignore_index") == -1:
        targets = ft.where(targets == 2, -1, targets)
    function = getattr(nn, name)
    loss = function(**options)(x, targets) if name[0] == "C" else function(x, targets, **options)
    expected = nn.nll_loss(ft.log_softmax(twin, 1), targets, **options)
    assert loss.tolist() == expected.tolist()
    ft.sum(loss).backward()
    ft.sum(expected).backward()
    assert x.grad.tolist() == twin.grad.tolist()


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize("options", OPTIONS, ids=",".join)
def test_log_probabilities_are_logits_too(options):
    x, twin = logits(), logits()
    targets = ft.asarray([[0, 1], [1, 0], [0, 0], [1, 0]])
    loss = nn.categorical_cross_entropy(ft.log_softmax(x, 1), targets, **options)
    expected = nn.cross_entropy(twin, targets, **options)
    assert ft.max(ft.absolute(loss - expected)).item() <= 1e-5
    ft.sum(loss).backward()
    ft.sum(expected).backward()
    assert ft.max(ft.absolute(x.grad - twin.grad)).item() <= 1e-6


@pytest.mark.defect("item 2")
def test_logits_cost_what_their_log_softmax_and_the_loss_of_it_cost():
    x, targets, figures = logits(), ft.Generator(1).integers(0, 3, (4, 2)), []
    for loss in (nn.cross_entropy, lambda x, y: nn.nll_loss(ft.log_softmax(x, 1), y)):
        loss(x, targets).backward()  # constants are made once
        x.zero_grad()
        with ft.count() as counts:
            loss(x, targets).backward()
        figures.append(str(counts))
    assert figures[0] == figures[1] and "exp" in figures[0]


def test_the_gradient_is_softmax_minus_one_hot():
    x = Parameter(ft.asarray([[1.0, -2.0, 0.5]]))
    nn.cross_entropy(x, ft.asarray([2])).backward()
    expected = ft.softmax(x.tensor) - ft.asarray([[0.0, 0.0, 1.0]])
    assert x.grad.tolist() == [pytest.approx(expected.tolist()[0], abs=1e-6)]


def test_ignored_targets_count_for_nothing():
    scores = Parameter(ft.asarray(LOG_PROBS))
    loss = nn.nll_loss(scores, ft.asarray([-1, 2]), ignore_index=-1)
    assert loss.item() == pytest.approx(-math.log(0.8))
    loss.backward()
    assert scores.grad.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]
    none = nn.nll_loss(scores, ft.asarray([-1, 2]), "none", ignore_index=-1)
    assert none.tolist() == pytest.approx([0.0, -math.log(0.8)])


@pytest.mark.parametrize("name", BOTH)
def test_the_mean_over_no_targets_is_zero(name):
    scores = Parameter(ft.asarray(LOG_PROBS))
    loss = getattr(nn, name)(scores, ft.asarray([9, 9]), ignore_index=9)
    loss.backward()
    assert loss.item() == 0.0 and ft.max(ft.absolute(scores.grad)).item() == 0.0


@pytest.mark.parametrize("name", BOTH)
def test_classes_may_be_on_any_axis(name):
    loss_of = getattr(nn, name)
    x = ft.randn((2, 5, 3))
    targets = ft.asarray([[0, 1, 2, 0, 1], [2, 2, 0, 1, 0]])
    last = loss_of(x, targets, axis=-1).item()
    assert last == pytest.approx(loss_of(x.permute(0, 2, 1), targets).item())


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("target", [-1, 3])
def test_targets_out_of_range_are_index_errors(name, target):
    with pytest.raises(IndexError, match=rf"\[{name}\] targets hold {target}: expected 0 .. 2"):
        getattr(nn, name)(ft.asarray(LOG_PROBS), ft.asarray([0, target]))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_hot_distributions_have_the_loss_of_their_class(reduction):
    logits, targets = ft.asarray(LOG_PROBS) * 3.0, ft.asarray([2, 0])
    rows = ft.one_hot(targets, 3, logits.dtype)
    for smoothing in (0.0, 0.3):
        options = {"reduction": reduction, "label_smoothing": smoothing}
        expected = nn.cross_entropy(logits, targets, **options).numpy()
        assert nn.cross_entropy(logits, rows, **options).numpy() == pytest.approx(expected)
    mixed = nn.cross_entropy(logits, rows * 0.25 + ft.flip(rows, 0) * 0.75, "sum").item()
    swapped = nn.cross_entropy(logits, ft.flip(targets, 0), "sum").item()
    plain = nn.cross_entropy(logits, targets, "sum").item()
    assert mixed == pytest.approx(0.25 * plain + 0.75 * swapped)


def test_distributions_are_checked():
    logits = ft.asarray(LOG_PROBS)
    with pytest.raises(ft.ShapeError, match="distributions have the shape of the logits"):
        nn.cross_entropy(logits, ft.ones((2, 4)))
    with pytest.raises(ModuleError, match="ignore_index=1 and distributions"):
        nn.cross_entropy(logits, ft.ones((2, 3)), ignore_index=1)
    with pytest.raises(ft.ShapeError, match=r"weight \(2,\): expected \(3,\)"):
        nn.cross_entropy(logits, ft.ones((2, 3)), weight=ft.ones(2))


@pytest.mark.parametrize("name, scores", [("cross_entropy", "logits"), ("nll_loss", "log_probs")])
def test_targets_of_another_shape_or_dtype_are_refused(name, scores):
    loss_of = getattr(nn, name)
    with pytest.raises(ft.ShapeError, match=rf"\[{name}\] {scores} .* targets must be \(2,\)"):
        loss_of(ft.asarray(LOG_PROBS), ft.asarray([[0], [1]]))
    with pytest.raises(ft.DTypeError, match="integers"):
        loss_of(ft.asarray(LOG_PROBS), ft.ones(2))
    with pytest.raises(ft.ShapeError, match=f"{scores} .* have no axis 2"):
        loss_of(ft.asarray(LOG_PROBS), ft.asarray([0, 1]), axis=2)


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
    loss = nn.nll_loss(log_probs, ft.asarray([0, 1]), weight=weight)
    expected = (3.0 * math.log(2.0) - math.log(0.75)) / 4.0
    assert loss.item() == pytest.approx(expected, rel=1e-6)


def test_label_smoothing_prices_certainty():
    sure = ft.asarray([[20.0, 0.0, 0.0]])
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


@pytest.mark.defect("V9")
@pytest.mark.parametrize("bad", [3.0, -0.25])
def test_probabilities_outside_0_and_1_are_refused(bad):
    for probs in (ft.asarray(bad), ft.asarray([0.5, bad]), Parameter(ft.asarray([bad]))):
        with pytest.raises(
            ValueError, match=rf"probs hold {bad:g}: expected 0 .. 1; apply sigmoid"
        ):
            nn.binary_cross_entropy(probs, ft.ones(probs.shape))
    with pytest.raises(ft.ArgumentError, match="binary_cross_entropy_with_logits"):
        nn.BinaryCrossEntropy("none")(ft.asarray([[bad]]), ft.asarray([[0.0]]))


@pytest.mark.defect("V9")
def test_a_probability_that_is_nan_makes_a_loss_that_is():
    assert math.isnan(nn.binary_cross_entropy(ft.asarray([math.nan]), ft.ones(1)).item())


def test_numbers_are_not_taken_for_arrays():
    with pytest.raises(TypeError, match="probs are a float: expected an array; use ft.asarray"):
        nn.binary_cross_entropy(0.5, 1.0)


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


@pytest.mark.defect("V3")
def test_cosines_broadcast_before_lengths_are_taken():
    ones, one = ft.ones((1, 3)), ft.ones((1, 1))
    for x, y in ((ones, one), (one, ones), (ones, ft.ones(1)), (ones, ft.ones(()))):
        assert nn.cosine_similarity(x, y).tolist() == pytest.approx([1.0])


def test_cosine_loss_refuses_shapes_that_differ():
    with pytest.raises(ft.ShapeError, match="differ in shape"):
        nn.cosine_embedding(ft.ones((1, 3)), ft.ones((1, 1)), ft.ones(1))


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
