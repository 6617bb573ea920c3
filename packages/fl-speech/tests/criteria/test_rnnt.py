"""RNN-T: brute force over alignments, kernels against tensor operations."""

import itertools
import math
import os

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_speech.criteria import rnnt, rnnt_loss
from fl_speech.criteria.rnnt_kernel import rnnt_samples

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

CASES = int(os.environ.get("FL_ORACLE_COUNT", "20"))
WAYS = pytest.mark.parametrize("composed", [False, True], ids=["kernels", "composed"])


def random_case(k):
    rng = np.random.default_rng(k)
    samples, frames, labels, classes = (int(n) for n in rng.integers([1, 1, 0, 2], [4, 5, 4, 5]))
    x = rng.normal(size=(samples, frames, labels + 1, classes)) * rng.choice([1.0, 5.0, 400.0])
    counts = rng.integers(0, labels + 1, samples)
    y = rng.integers(0, classes - 1, (samples, labels))
    y = np.where(np.arange(labels) < counts[:, None], y, -1)
    return x, y, rng.integers(1, frames + 1, samples)


def brute_force(scores, target):
    """Over all orders of T blanks, the last one at the end, and the labels."""
    logp = scores - scores.max(2, keepdims=True)
    logp -= np.log(np.exp(logp).sum(2, keepdims=True))
    frames, labels = len(logp), len(target)
    found = []
    for places in itertools.combinations(range(frames + labels - 1), labels):
        t = u = 0
        score = 0.0
        for step in range(frames + labels):
            if step in places:
                score += logp[t, u, target[u]]
                u += 1
            else:
                score += logp[t, u, -1]
                t += 1
        found.append(score)
    best = max(found)
    return -best - math.log(math.fsum(math.exp(f - best) for f in found))


@WAYS
def test_loss_is_that_of_all_alignments(composed):
    for k in range(CASES):
        x, targets, lengths = random_case(k)
        found = rnnt_loss(
            ft.asarray(x, ft.float64), targets, lengths, reduction="none", composed=composed
        ).numpy()
        for b, n in enumerate(lengths):
            target = targets[b][targets[b] >= 0]
            expected = brute_force(x[b, :n, : len(target) + 1], target)
            assert found[b] == pytest.approx(expected, rel=1e-9), (k, b)


@WAYS
def test_jacobians(composed):
    x = ft.asarray(np.random.default_rng(0).normal(size=(3, 3, 3, 4)), ft.float64)
    targets = [[0, 0], [2, -1], [-1, -1]]
    ag.check_grads(
        lambda v: rnnt_loss(v, targets, [3, 2, 1], reduction="none", composed=composed), [x]
    )


def test_gradients_of_both_computations():
    for k in range(CASES):
        x, targets, lengths = random_case(k)
        grads = []
        for composed in (False, True):
            v = ag.Variable(ft.asarray(x, ft.float64), requires_grad=True)
            loss = rnnt_loss(v, targets, lengths, reduction="none", composed=composed)
            grads.append(ag.grad((loss * loss).sum(), v).numpy())
        assert np.allclose(*grads, rtol=1e-7, atol=1e-7), k


@WAYS
def test_a_batch_is_its_samples_and_padding_counts_for_nothing(composed):
    x, targets, lengths = random_case(4)
    v = ag.Variable(ft.asarray(x.astype(np.float32)), requires_grad=True)
    found = rnnt_loss(v, targets, lengths, reduction="none", composed=composed)
    grad = ag.grad(found.sum(), v).numpy()
    assert found.dtype == ft.float32
    for b, n in enumerate(lengths):
        count = int((targets[b] >= 0).sum())
        one = rnnt_loss(
            v.tensor[b : b + 1, :n, : count + 1], targets[b : b + 1, :count], composed=composed
        )
        assert one.item() == pytest.approx(found.tolist()[b], rel=1e-5)
        assert not grad[b, n:].any() and not grad[b, :, count + 1 :].any()
    assert rnnt_loss(v, targets, lengths).item() == pytest.approx(np.mean(found.numpy()), rel=1e-5)


@WAYS
def test_impossible_targets_and_scores_that_are_no_numbers(composed):
    x = np.zeros((3, 2, 2, 3))
    x[0, :, 0, 0], x[1, 1, 0, 1] = -np.inf, np.nan
    v = ag.Variable(ft.asarray(x, ft.float64), requires_grad=True)
    found = rnnt_loss(v, [[0], [1], [1]], reduction="none", composed=composed)
    grad = ag.grad(found.sum(), v).numpy()
    assert found.tolist()[0] == math.inf and math.isnan(found.tolist()[1])
    assert not grad[0].any() and np.isfinite(grad[2]).all()


def test_the_kernel_stays_within_its_arrays(monkeypatch):
    for k in range(10):
        x, targets, lengths = random_case(k)
        compiled = rnnt_loss(ft.asarray(x, ft.float64), targets, lengths, reduction="none").numpy()
        counts, grads = (targets >= 0).sum(1), np.empty_like(x)
        with monkeypatch.context() as patch:
            patch.setattr(rnnt, "rnnt_samples", rnnt_samples.interpret)
            found = rnnt.rnnt_on_host(x, targets, lengths, counts, x.shape[3] - 1, grads)
        assert np.allclose(found, compiled, rtol=1e-12) and np.isfinite(grads).all()


@pytest.mark.parametrize(
    ("shape", "targets", "options", "error", "words"),
    [
        ((2, 3, 2), [[0], [1]], {}, ft.ShapeError, "give \\(B, T, U \\+ 1, N\\)"),
        ((2, 3, 2, 4), [[0, 1], [1, 0]], {}, ft.ShapeError, "give \\(2, 1\\), padded"),
        ((2, 3, 2, 4), [[0], [3]], {}, ft.IndexingError, "sample 1: its target holds the blank, 3"),
        ((2, 3, 2, 4), [[0], [4]], {}, ft.IndexingError, "sample 1: its target holds 4"),
        ((2, 3, 2, 4), [[0], [1]], {"logit_lengths": [3, 0]}, ft.IndexingError, "expected 1 .. 3"),
        ((2, 3, 2, 4), [[0], [1]], {"blank": 9}, ft.IndexingError, "blank 9: there are 4"),
    ],
)
def test_errors(shape, targets, options, error, words):
    with pytest.raises(error, match=words):
        rnnt_loss(ft.zeros(shape), targets, **options)
