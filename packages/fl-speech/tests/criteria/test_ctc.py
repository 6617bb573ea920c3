"""CTC: fixtures, brute force over paths, kernels against tensor operations, paths."""

import itertools
import math
import os

import numpy as np
import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import CTC, ctc_loss
from fl_speech.criteria.batch import check_batch
from fl_speech.criteria.ctc import truncated
from fl_speech.criteria.ctc_host import ctc_on_host
from fl_speech.criteria.ctc_kernel import ctc_samples
from fl_speech.errors import TargetError

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

CASES = int(os.environ.get("FL_ORACLE_COUNT", "25"))
PATHS = ("kernel", "composed")


def losses(path, x, targets, lengths=None):
    """The loss of each sample by one of the two paths; no target is truncated."""
    return ctc_loss(
        x, targets, lengths, infeasible="inf", reduction="none", composed=path == "composed"
    )


def spells(path, target, blank):
    merged = [label for label, _ in itertools.groupby(path)]
    return [label for label in merged if label != blank] == list(target)


def brute_force(scores, target):
    """The loss, and the most likely path, over all paths of (T, N) scores."""
    logp = scores - scores.max(1, keepdims=True)
    logp -= np.log(np.exp(logp).sum(1, keepdims=True))
    frames, classes = logp.shape
    found = [
        (sum(logp[t, c] for t, c in enumerate(path)), path)
        for path in itertools.product(range(classes), repeat=frames)
        if spells(path, target, classes - 1)
    ]
    if not found:
        return math.inf, None
    best = max(score for score, _ in found)
    total = math.fsum(math.exp(score - best) for score, _ in found)
    return -best - math.log(total), max(found)[1]


def random_case(k):
    """Scores (B, T, N), targets (B, L), input lengths; some empty, some longer than frames."""
    rng = np.random.default_rng(k)
    samples, frames, classes, labels = (int(n) for n in rng.integers([1, 1, 2, 0], [4, 7, 5, 5]))
    x = rng.normal(size=(samples, frames, classes)) * rng.choice([1.0, 5.0, 400.0])
    counts = rng.integers(0, labels + 1, samples)
    y = rng.integers(0, classes - 1, (samples, labels))
    return (
        x,
        np.where(np.arange(labels) < counts[:, None], y, -1),
        rng.integers(0, frames + 1, samples),
    )


@pytest.mark.parametrize("path", PATHS)
def test_known_losses(path):
    uniform = ft.zeros((1, 3, 4), ft.float64)
    assert losses(path, uniform, [[0, 1]]).item() == pytest.approx(-math.log(5 / 64))
    sure = ft.asarray([[[0, 99, 0], [0, 0, 99.0]]], ft.float64)
    assert losses(path, sure, [[1]]).item() == pytest.approx(0.0, abs=1e-12)
    assert losses(path, uniform, [[-1, -1]]).item() == pytest.approx(3 * math.log(4))
    assert losses(path, uniform, np.empty((1, 0), np.int64)).item() == pytest.approx(
        3 * math.log(4)
    )


@pytest.mark.parametrize("path", PATHS)
def test_loss_is_that_of_all_paths(path):
    for k in range(CASES):
        x, targets, lengths = random_case(k)
        found = losses(path, ft.asarray(x, ft.float64), targets, lengths).numpy()
        for b, n in enumerate(lengths):
            expected, _ = brute_force(x[b, :n], targets[b][targets[b] >= 0])
            assert found[b] == pytest.approx(expected, rel=1e-9, abs=1e-9), (k, b)


def test_kernels_and_tensor_operations_have_one_gradient():
    for k in range(CASES):
        x, targets, lengths = random_case(k)
        v = ag.Variable(ft.asarray(x, ft.float64), requires_grad=True)
        grads = []
        for path in PATHS:
            found = losses(path, v, targets, lengths)
            found = ft.where(ft.isinf(found), 0.0, found)
            grads.append(ag.grad((found * found).sum(), v).numpy())
        assert np.allclose(*grads, rtol=1e-7, atol=1e-7), k


@pytest.mark.parametrize("path", PATHS)
def test_jacobians(path):
    x = ft.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)), ft.float64)
    ag.check_grads(lambda v: losses(path, v, [[0, 0], [2, 1], [-1, -1]], [5, 4, 2]), [x])


def test_gradients_of_long_and_of_overconfident_emissions():
    """The scaled kernel gives up for the second, and the wide one computes it."""
    rng = np.random.default_rng(1)
    for factor, wide in ((1.0, 0), (900.0, 2)):
        x = ft.asarray(rng.normal(size=(2, 60, 8)) * factor, ft.float64)
        targets = rng.integers(0, 7, (2, 25))
        batch = check_batch("x", x, targets, blank=7)
        assert fallbacks(x, batch) == wide
        v = ag.Variable(x, requires_grad=True)
        both = [losses(path, v, targets) for path in PATHS]
        assert np.allclose(both[0].numpy(), both[1].numpy(), rtol=1e-12)
        grads = [ag.grad(found.sum(), v).numpy() for found in both]
        assert np.allclose(*grads, rtol=0, atol=1e-9)


def fallbacks(x, batch):
    count = []

    def spy(*arguments):
        count.append(ctc_samples(*arguments))

    from fl_speech.criteria import ctc_host

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctc_host, "ctc_samples", spy)
        ctc_on_host(x.numpy(), batch, x.shape[2] - 1, None)
    return sum(count)


def test_paths_that_both_passes_of_a_scaled_kernel_would_lose():
    """The likely path is 1e-400 of the best at its beginning and at its end, and 1e800 times better
    between. Forward and backward totals of what is left agree, and are wrong."""
    x = np.full((1, 12, 4), -2000.0)
    x[0, :4, 3], x[0, 8:, 3] = 0.0, 0.0  # blank
    x[0, :4, 0], x[0, 8:, 0] = -230.0, -230.0
    x[0, 4:8, 0], x[0, 4:8, 3] = 0.0, -500.0
    found = [losses(path, ft.asarray(x, ft.float64), [[0]]).item() for path in PATHS]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_kernels_stay_within_their_arrays(monkeypatch):
    from fl_speech.criteria import ctc_host

    monkeypatch.setattr(ctc_host, "ctc_samples", ctc_samples.interpret)
    for k in range(12):
        x, targets, lengths = random_case(k)
        batch = check_batch("x", ft.asarray(x, ft.float64), targets, lengths)
        grads = np.empty_like(x)
        found = ctc_on_host(x, batch, x.shape[2] - 1, grads)
        compiled = losses("kernel", ft.asarray(x, ft.float64), targets, lengths).numpy()
        assert np.allclose(found, compiled, rtol=1e-12) and np.isfinite(grads).all()


def test_a_batch_is_its_samples():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 9, 5)).astype(np.float32)
    targets = np.array([[0, 1, 1], [2, -1, -1], [-1, -1, -1], [3, 3, 3]])
    lengths = np.array([9, 6, 4, 7])
    v = ag.Variable(ft.asarray(x), requires_grad=True)
    found = ctc_loss(v, targets, lengths, reduction="none")
    grad = ag.grad(found.sum(), v).numpy()
    for b, n in enumerate(lengths):
        one = ag.Variable(ft.asarray(x[b : b + 1, :n]), requires_grad=True)
        loss = ctc_loss(one, targets[b : b + 1])
        assert loss.item() == pytest.approx(found.tolist()[b], rel=1e-6)
        assert np.allclose(ag.grad(loss, one).numpy()[0], grad[b, :n], atol=1e-6)
        assert not grad[b, n:].any()
    assert ctc_loss(v, targets, lengths).item() == pytest.approx(np.mean(found.numpy()))
    assert found.dtype == ft.float32


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr("fl_speech.criteria.ctc_host.WORTH", 1)
    rng = np.random.default_rng(3)
    x, targets = rng.normal(size=(6, 30, 20)).astype(np.float32), rng.integers(0, 19, (6, 9))
    batch = check_batch("x", ft.asarray(x), targets)
    results = []
    for threads in (1, 3):
        before = ft.get_num_threads()
        ft.set_num_threads(threads)
        try:
            grads = np.empty_like(x)
            results.append((ctc_on_host(x, batch, 19, grads), grads))
        finally:
            ft.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("composed", [False, True])
def test_targets_that_need_more_frames(composed):
    v = ag.Variable(ft.zeros((2, 3, 4), ft.float64), requires_grad=True)
    targets = [[0, 0, 1, 2], [0, 1, -1, -1]]

    def of(infeasible):
        found = ctc_loss(v, targets, infeasible=infeasible, reduction="none", composed=composed)
        finite = ft.where(ft.isinf(found), 0.0, found)
        return found.tolist(), ag.grad(finite.sum(), v).numpy()[0]

    fits = -math.log(5 / 64)
    assert of("inf")[0] == pytest.approx([math.inf, fits])
    assert of("zero")[0] == pytest.approx([0.0, fits])
    # L + R = 5, so that L becomes min(5, 3) - 1 = 2: the target 0 0, in the one path 0 blank 0
    assert of("truncate")[0] == pytest.approx([3 * math.log(4), fits])
    for infeasible in ("inf", "zero"):
        assert not of(infeasible)[1].any()
    assert of("truncate")[1].any()


def test_truncation_is_that_of_flashlight():
    x = ft.zeros((3, 2, 4))
    batch = truncated(check_batch("x", x, [[0, 0, 0, 0], [0, 1, 2, -1], [1, -1, -1, -1]]))
    assert batch.target_lengths.tolist() == [0, 2, 1]
    assert batch.targets.tolist() == [[-1] * 4, [0, 1, -1, -1], [1, -1, -1, -1]]


@pytest.mark.parametrize("composed", [False, True])
def test_what_is_no_number_is_no_number(composed):
    x = np.zeros((3, 2, 3), np.float32)
    x[0, 1, 0], x[1, :, 0] = np.nan, -np.inf
    v = ag.Variable(ft.asarray(x), requires_grad=True)
    found = ctc_loss(v, [[1], [0], [1]], reduction="none", composed=composed)
    assert [math.isnan(f) for f in found.tolist()] == [True, False, False]
    assert found.tolist()[1] == math.inf
    grad = ag.grad(found[2], v).numpy()
    assert np.isfinite(grad[1:]).all()


def test_align_is_the_best_path_of_the_target():
    for k in range(CASES):
        x, targets, lengths = random_case(k)
        for b, n in enumerate(lengths):
            target = targets[b][targets[b] >= 0]
            _, best = brute_force(x[b, :n], target)
            one = ft.asarray(x[b : b + 1, :n], ft.float64)
            if best is None:
                with pytest.raises(TargetError, match="sample 0: no path"):
                    CTC(infeasible="inf").align(one, target[None])
            else:
                (path,) = CTC(infeasible="inf").align(one, target[None])
                assert path.dtype == np.int64 and path.tolist() == list(best), k


def test_equal_paths_stay_where_they_are():
    assert CTC().align(ft.zeros((1, 5, 3)), [[0, 1]])[0].tolist() == [0, 1, 2, 2, 2]


def test_best_path_keeps_blanks_and_repetitions():
    classes = [[0, 0, 3, 1], [3, 3, 2, 2]]
    x = ft.one_hot(ft.asarray(classes), 4).astype(ft.float32)
    assert [p.tolist() for p in CTC().best_path(x)] == classes
    assert [p.tolist() for p in CTC().best_path(x, [4, 0])] == [classes[0], []]


def test_the_criterion_scales_with_what_is_left_of_a_target():
    x, targets = ft.zeros((1, 3, 4)), [[0, 0, 1, 2]]
    whole = CTC()((x, None), targets).item()
    assert CTC("target")((x, [3]), targets).item() == pytest.approx(whole / 2)
    assert CTC("input_sqrt", "none")(x, targets).tolist() == pytest.approx([whole / math.sqrt(3)])
    assert CTC().decoding == "ctc" and "infeasible=inf" in repr(CTC(infeasible="inf"))


def test_low_precision_emissions_have_losses_in_float32():
    x = ag.Variable(ft.zeros((1, 3, 4), ft.float16), requires_grad=True)
    loss = ctc_loss(x, [[0, 1]])
    assert loss.dtype == ft.float32 and loss.item() == pytest.approx(-math.log(5 / 64))
    assert ag.grad(loss, x).dtype == ft.float16


def test_a_compiled_step_with_ctc_runs_as_it_is_and_says_why():
    layer = nn.Linear(3, 4)
    optimizer = nn.SGD(layer.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = CTC()((layer(x), None), y)
        loss.backward()
        optimizer.step()
        return loss

    compiled = nn.compile(step)
    x, y = ft.ones((2, 5, 3)), ft.asarray([[0, 1], [2, -1]])
    found = [compiled(x, y).item() for _ in range(4)]
    assert found == sorted(found, reverse=True) and found[0] > found[3]
    assert "criteria read them on the host" in compiled.explain()


def test_arguments_are_checked():
    x = ft.zeros((2, 3, 4))
    wrong = [
        ({"infeasible": "cut"}, ft.ArgumentError),
        ({"blank": 4}, ft.IndexingError),
        ({"reduction": "max"}, nn.ModuleError),
    ]
    for options, error in wrong:
        with pytest.raises(error):
            ctc_loss(x, [[0], [1]], **options)
    with pytest.raises(ft.IndexingError, match="sample 1: its target holds the blank, 0"):
        ctc_loss(x, [[1], [0]], blank=0)
    with pytest.raises(ft.ArgumentError, match="infeasible"):
        CTC(infeasible="cut")
