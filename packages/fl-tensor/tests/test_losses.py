"""Losses over class numbers: one takes logits, the other log-probabilities."""

from __future__ import annotations

import math

import pytest

import fl_tensor as ft

LOGITS = [[2.0, 0.0, -1.0], [0.5, 0.5, 0.5]]
TARGETS = [0, 2]


def expected() -> list[float]:
    return [math.log(sum(map(math.exp, row))) - row[target] for row, target in zip(LOGITS, TARGETS)]


@pytest.mark.defect("V6", "item 2")
def test_cross_entropy_takes_logits():
    losses = ft.cross_entropy(ft.asarray(LOGITS), ft.asarray(TARGETS))
    assert losses.tolist() == pytest.approx(expected())


def test_log_probabilities_are_logits_too():
    log_probs = ft.log_softmax(ft.asarray(LOGITS))
    assert ft.cross_entropy(log_probs, TARGETS).tolist() == pytest.approx(expected())


@pytest.mark.defect("V6", "item 2")
def test_nll_loss_takes_what_it_gets():
    assert ft.nll_loss(ft.asarray(LOGITS), ft.asarray(TARGETS)).tolist() == [-2.0, -0.5]
    assert ft.nll_loss([[-1.0], [-3.0]], [1], axis=0).tolist() == [3.0]


@pytest.mark.defect("V6", "item 2")
@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
def test_both_reach_the_one_operation_of_the_backend(loss):
    asked = []

    def cross_entropy(inner, log_probs, targets, axis=-1):
        asked.append(log_probs.shape)
        return inner.cross_entropy(log_probs, targets, axis)

    with ft.override(cross_entropy=cross_entropy), ft.count() as counts:
        getattr(ft, loss)(ft.asarray(LOGITS), ft.asarray(TARGETS))
    assert asked == [(2, 3)]
    assert counts["exp"] == (1 if loss == "cross_entropy" else 0)


@pytest.mark.defect("V6", "item 2")
def test_logits_of_any_size_have_a_finite_loss():
    losses = ft.cross_entropy(ft.asarray([[1e4, -1e4], [-1e4, 1e4]]), ft.asarray([0, 0]))
    assert losses.tolist() == [0.0, 2e4]


@pytest.mark.defect("V6", "item 2")
def test_targets_out_of_range_name_the_function_that_was_called():
    with pytest.raises(IndexError, match=r"\[cross_entropy\] target 3 .* 3 classes of logits"):
        ft.cross_entropy(ft.asarray(LOGITS), ft.asarray([0, 3]))
    with pytest.raises(IndexError, match=r"\[nll_loss\] target -1 .* 3 classes of log_probs"):
        ft.nll_loss(ft.asarray(LOGITS), ft.asarray([0, -1]))
