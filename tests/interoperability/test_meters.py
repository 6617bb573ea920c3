"""Meters of fl-nn give scikit-learn's figures on random cases."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from sklearn import calibration, metrics

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft

SEED = int(os.environ.get("FL_ORACLE_SEED", "0"))
COUNT = int(os.environ.get("FL_ORACLE_COUNT", "8"))
AVERAGES = ("macro", "micro", "weighted")
EXACT = {"rel": 1e-12, "abs": 1e-12}


@pytest.fixture(params=range(COUNT))
def g(request):
    return np.random.default_rng([SEED, request.param])


def case(g, classes):
    """Logits with ties, their probabilities, and classes, all of which occur."""
    count = int(g.integers(2 * classes, 200))
    targets = g.permutation(np.concatenate([np.arange(classes), g.integers(0, classes, count)]))
    logits = g.normal(size=(len(targets), classes)) + np.eye(classes)[targets] * g.uniform(0, 3)
    logits = np.round(logits, int(g.integers(0, 4)))
    probs = np.exp(logits)
    return logits, probs / probs.sum(1, keepdims=True), targets


def value(meter, outputs, targets):
    """The value of a meter that is given batches, on two ranks in turn; that of one is the same."""
    whole = meter.fresh()
    whole.add(ft.asarray(outputs), ft.asarray(targets))
    cut = len(targets) // 3

    def program(communicator):
        part = slice(0, cut) if communicator.rank == 0 else slice(cut, None)
        mine = meter.fresh()
        mine.add(ft.asarray(outputs[part]), ft.asarray(targets[part]))
        mine.sync(communicator)
        return mine.value

    assert dist.threads.run(2, program) == [whole.value] * 2
    return whole.value


def test_accuracy_and_top_k(g):
    classes = int(g.integers(3, 8))
    logits, probs, targets = case(g, classes)
    expected = 100 * metrics.accuracy_score(targets, probs.argmax(1))
    assert value(nn.AccuracyMeter(), logits, targets) == pytest.approx(expected, **EXACT)
    k = int(g.integers(1, classes))
    scores = g.permutation(logits.size).reshape(logits.shape)  # top_k of ties has no rule
    expected = 100 * metrics.top_k_accuracy_score(targets, scores, k=k)
    assert value(nn.TopKMeter(k), scores, targets) == pytest.approx(expected, **EXACT)


def test_confusion_and_figures_of_classes(g):
    classes = int(g.integers(2, 8))
    truth, guess = (g.integers(0, classes, int(g.integers(1, 60))) for _ in range(2))
    guess = g.permutation(np.resize(guess, len(truth)))
    labels = np.arange(classes)
    matrix = metrics.confusion_matrix(truth, guess, labels=labels)
    assert value(nn.ConfusionMeter(classes), guess, truth) == matrix.tolist()
    meter = nn.ConfusionMeter(classes)
    meter.add(ft.asarray(guess), ft.asarray(truth))
    options = {"zero_division": 0.0}
    expected = metrics.precision_recall_fscore_support(truth, guess, labels=labels, **options)
    np.testing.assert_allclose(np.asarray(meter.per_class).T, expected, rtol=1e-12)
    kinds = (nn.PrecisionMeter, nn.RecallMeter, nn.F1Meter)
    for average in AVERAGES if classes > 2 else (*AVERAGES, "binary"):
        if average == "binary" and not (truth.any() or guess.any()):
            continue  # scikit-learn warns
        wanted = metrics.precision_recall_fscore_support(truth, guess, average=average, **options)
        assert meter.averaged(average)[:3] == pytest.approx(wanted[:3], **EXACT)
        for kind, figure in zip(kinds, wanted):
            found = value(kind(classes, average=average), guess, truth)
            assert found == pytest.approx(figure, **EXACT)


def test_binary_ranking(g):
    logits, probs, targets = case(g, 2)
    scores = logits[:, 1]
    for kind, reference in (
        (nn.AUCMeter, metrics.roc_auc_score),
        (nn.AveragePrecisionMeter, metrics.average_precision_score),
    ):
        expected = pytest.approx(reference(targets, scores), **EXACT)
        assert value(kind(), scores, targets) == expected
        assert value(kind(), scores[:, None], targets) == expected
        expected = pytest.approx(reference(targets, probs[:, 1]), **EXACT)
        assert value(kind(), probs, targets) == expected


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_ranking_of_one_class_against_the_rest(g, average):
    classes = int(g.integers(3, 6))
    _, probs, targets = case(g, classes)
    one_hot = np.eye(classes, dtype=int)[targets]
    expected = metrics.roc_auc_score(targets, probs, multi_class="ovr", average=average)
    assert value(nn.AUCMeter(average=average), probs, targets) == pytest.approx(expected, **EXACT)
    expected = metrics.average_precision_score(one_hot, probs, average=average)
    found = value(nn.AveragePrecisionMeter(average=average), probs, targets)
    assert found == pytest.approx(expected, **EXACT)
    meter = nn.AUCMeter()
    meter.add(ft.asarray(probs), ft.asarray(targets))
    expected = metrics.roc_auc_score(one_hot, probs, average=None)
    assert meter.per_class == pytest.approx(list(expected), **EXACT)


def test_ranking_of_logits_is_that_of_their_softmax(g):
    logits = g.normal(size=(100, 4))
    targets = g.permutation(np.arange(100) % 4)
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = metrics.roc_auc_score(targets, probs, multi_class="ovr")
    assert value(nn.AUCMeter(logits=True), logits, targets) == pytest.approx(expected, **EXACT)


def test_calibration(g):
    bins = int(g.integers(1, 20))
    probs = g.uniform(size=int(g.integers(2, 300)))
    targets = (g.uniform(size=len(probs)) < probs).astype(int)
    _check_calibration(nn.CalibrationMeter(bins), probs, targets, probs, targets)
    rows = g.dirichlet(np.ones(4), size=len(probs))
    classes = g.integers(0, 4, len(probs))
    hits = (rows.argmax(1) == classes).astype(int)
    _check_calibration(nn.CalibrationMeter(bins), rows, classes, rows.max(1), hits)


@pytest.mark.parametrize("classes", [2, 4])
def test_targets_that_do_not_count(g, classes):
    logits, probs, targets = case(g, classes)
    ignored = g.uniform(size=len(targets)) < 0.3
    ignored[:classes] = False
    targets[:classes] = np.arange(classes)
    marked, probs[ignored, 0] = np.where(ignored, -100, targets), np.nan
    rows, truth = probs[~ignored], targets[~ignored]
    scores = rows[:, 1] if classes == 2 else rows
    one_hot = truth if classes == 2 else np.eye(classes, dtype=int)[truth]
    expected = metrics.roc_auc_score(truth, scores, multi_class="ovr")
    found = value(nn.AUCMeter(ignore_index=-100), probs, marked)
    assert found == pytest.approx(expected, **EXACT)
    expected = metrics.average_precision_score(one_hot, scores)
    found = value(nn.AveragePrecisionMeter(ignore_index=-100), probs, marked)
    assert found == pytest.approx(expected, **EXACT)
    hits = (rows.argmax(1) == truth).astype(int)
    meter = nn.CalibrationMeter(7, ignore_index=-100)
    _check_calibration(meter, probs, marked, rows.max(1), hits)


def _check_calibration(meter, outputs, targets, confidence, hits):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all hits or none: "only one class in y_true"
        shares, means = calibration.calibration_curve(hits, confidence, n_bins=meter.bins)
    counts = np.histogram(confidence, meter.bins, (0, 1))[0]
    counts = counts[counts > 0]
    error = float(np.sum(counts * np.abs(shares - means)) / len(hits))
    assert value(meter, outputs, targets) == pytest.approx(error, abs=1e-10)
    meter.add(ft.asarray(outputs), ft.asarray(targets))
    filled = [one for one in meter.reliability if one.samples]
    assert [one.samples for one in filled] == counts.tolist()
    assert [one.accuracy for one in filled] == pytest.approx(list(shares), **EXACT)
    assert [one.confidence for one in filled] == pytest.approx(list(means), abs=1e-10)
