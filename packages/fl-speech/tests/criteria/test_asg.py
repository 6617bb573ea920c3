"""ASG, its scores and paths against sums over all paths; targets without a path; both ways."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from asg_reference import Case, Sum, alignments, all_paths, random_case, summed

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import (
    ASG,
    ForceAlignment,
    FullConnection,
    LinearSegmentation,
    asg_loss,
    force_alignment_score,
    forced_path,
    forced_places,
    full_connection_score,
    stretch_targets,
    viterbi_path,
)
from fl_speech.errors import TargetError

# Without a compiler kernels run in the interpreter, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:kernels run in the interpreter")

CASES = int(os.environ.get("FL_CRITERIA_CASES", "25"))
WAYS = pytest.mark.parametrize("composed", [False, True], ids=["kernels", "composed"])
Make = Callable[[Case, int], list[list[int]]]


def free(case: Case, b: int) -> list[list[int]]:
    return all_paths(case.lengths[b], case.emissions.shape[2])


def forced(case: Case, b: int) -> list[list[int]]:
    return alignments(case.lengths[b], case.targets[b, : case.target_lengths[b]].tolist())


def cut(case: Case, b: int) -> list[list[int]]:
    """Alignments of a target that is cut to its frames."""
    target = case.targets[b, : min(case.target_lengths[b], case.lengths[b])].tolist()
    return alignments(case.lengths[b], target)


def linear(case: Case, b: int) -> list[list[int]]:
    """The one alignment in equal parts."""
    size, length = case.target_lengths[b], case.lengths[b]
    if size > length or (not size and length):
        return []
    return [[case.targets[b, t * size // length] for t in range(length)]]


def sums(case: Case, make: Make) -> list[Sum]:
    return [
        summed(x[:length], case.transitions, make(case, b))
        for b, (x, length) in enumerate(zip(case.emissions, case.lengths, strict=True))
    ]


def check(
    case: Case, loss: Callable[[Any, Any], Any], parts: list[tuple[float, list[Sum]]]
) -> None:
    """Values and gradients of `loss` are those of the sum of `parts`, a factor and its scores.

    A sample where a part has no path has gradient 0.
    """
    x, transitions = (
        ag.Variable(v, requires_grad=True) for v in (case.emissions, case.transitions)
    )
    found = loss(x, transitions)
    factors = np.random.default_rng(0).normal(size=found.shape)
    finite = [all(math.isfinite(part[b].score) for _, part in parts) for b in range(len(x))]
    some = np.array(finite, bool)
    wanted = sum(factor * np.array([s.score for s in part]) for factor, part in parts)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-9)
    ft.sum(ft.where(ft.asarray(some), found, 0.0) * ft.asarray(factors)).backward()
    to_x, to_transitions = np.zeros_like(case.emissions), np.zeros_like(case.transitions)
    for b in np.flatnonzero(some):
        for factor, part in parts:
            to_x[b, : case.lengths[b]] += factors[b] * factor * part[b].to_emissions
            to_transitions += factors[b] * factor * part[b].to_transitions
    for operand, wanted in ((x, to_x), (transitions, to_transitions)):
        gradient = 0.0 if operand.grad is None else operand.grad.numpy()
        np.testing.assert_allclose(gradient + 0.0 * wanted, wanted, atol=1e-9)


@WAYS
@pytest.mark.parametrize("seed", range(CASES))
def test_scores_losses_and_gradients_are_sums_over_all_paths(seed: int, composed: bool) -> None:
    case = random_case(seed)
    lengths, targets = case.lengths, case.targets
    every, one = sums(case, free), sums(case, forced)
    options = {"infeasible": "inf", "composed": composed}
    check(
        case, lambda x, r: full_connection_score(x, r, lengths, composed=composed), [(1.0, every)]
    )
    check(case, lambda x, r: force_alignment_score(x, targets, r, lengths, **options), [(1.0, one)])
    check(
        case,
        lambda x, r: asg_loss(x, targets, r, lengths, reduction="none", **options),
        [(1.0, every), (-1.0, one)],
    )


@pytest.mark.parametrize("backend", ["numpy", "jit"])
def test_every_backend_computes_losses_and_gradients(backend: str) -> None:
    if backend not in ft.available_backends():
        pytest.skip("not installed")
    rng = np.random.default_rng(6)
    scores, table = rng.normal(size=(3, 5, 4)), rng.normal(size=(4, 4))
    targets, lengths = [[0, 2, 1], [3, -1, -1], [1, 0, 1]], [5, 4, 2]  # the last is too long
    results = []
    for composed in (False, True):
        x, transitions = (
            ag.Variable(ft.asarray(v, backend=backend), requires_grad=True) for v in (scores, table)
        )
        options = {"infeasible": "zero", "composed": composed}
        loss = asg_loss(x, targets, transitions, lengths, **options)
        assert loss.backend.name == backend
        loss.backward()
        results.append([loss.numpy(), x.grad.numpy(), transitions.grad.numpy()])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORTH", "WORTH_ALIGNED"):
        monkeypatch.setattr(f"fl_speech.criteria.asg_host.{name}", 1)
    rng = np.random.default_rng(5)
    x, transitions = rng.normal(size=(21, 9, 4)), rng.normal(size=(4, 4))
    targets = rng.integers(0, 4, (21, 3))
    results, before = [], ft.get_num_threads()
    for threads in (1, 3):
        ft.set_num_threads(threads)
        try:
            values = [ag.Variable(ft.asarray(v), requires_grad=True) for v in (x, transitions)]
            loss = asg_loss(values[0], targets, values[1], reduction="none", composed=False)
            ft.sum(loss).backward()
            results.append([loss.numpy(), *(v.grad.numpy() for v in values)])
        finally:
            ft.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("seed", range(CASES))
def test_linear_segmentation_is_the_asg_loss_of_equal_parts(seed: int) -> None:
    case = random_case(seed)
    some = case.target_lengths <= case.lengths
    case = Case(*(part if part is case.transitions else part[some] for part in case))
    samples, frames, classes = case.emissions.shape
    stretched = np.full((samples, frames), -1)
    ours = stretch_targets(case.targets, case.lengths)
    stretched[:, : ours.shape[1]] = ours

    def loss(x: Any, transitions: Any) -> Any:
        options = {"infeasible": "inf", "reduction": "none"}
        return asg_loss(x, stretched, transitions, case.lengths, **options)

    check(case, loss, [(1.0, sums(case, free)), (-1.0, sums(case, linear))])
    criterion = LinearSegmentation(classes, reduction="none", infeasible="inf")
    criterion.transitions = nn.Parameter(ft.asarray(case.transitions))
    x = ft.asarray(case.emissions)
    wanted = loss(x, criterion.transitions).numpy()
    np.testing.assert_array_equal(criterion((x, case.lengths), case.targets).numpy(), wanted)


@pytest.mark.parametrize("seed", range(CASES))
def test_paths_are_the_best_of_all(seed: int) -> None:
    case = random_case(seed)
    x, transitions = ft.asarray(case.emissions), ft.asarray(case.transitions)
    found = [path.tolist() for path in viterbi_path(x, transitions, case.lengths)]
    assert found == [s.best for s in sums(case, free)]
    some = [s.best is not None for s in sums(case, forced)]
    if any(some):
        arguments = x[ft.asarray(some)], case.targets[some], transitions, case.lengths[some]
        best = [s.best for s in sums(case, forced) if s.best is not None]
        assert [path.tolist() for path in forced_path(*arguments)] == best
        places = forced_places(*arguments)
        assert [case.targets[some][b][p].tolist() for b, p in enumerate(places)] == best
        assert all((np.diff(p) >= 0).all() and (np.diff(p) <= 1).all() for p in places)


@WAYS
@pytest.mark.parametrize("seed", range(10))
def test_truncated_targets_are_cut_to_their_frames(seed: int, composed: bool) -> None:
    case = random_case(seed)
    some = (case.target_lengths > 0) | (case.lengths == 0)
    case = Case(*(part if part is case.transitions else part[some] for part in case))
    check(
        case,
        lambda x, r: asg_loss(
            x, case.targets, r, case.lengths, reduction="none", composed=composed
        ),
        [(1.0, sums(case, free)), (-1.0, sums(case, cut))],
    )


def test_a_target_without_a_path_costs_what_was_asked_and_has_no_gradient() -> None:
    x = ag.Variable(np.ones((3, 2, 3)), requires_grad=True)
    targets = [[0, 1, 2], [-1, -1, -1], [1, 2, -1]]
    transitions = ft.zeros((3, 3), ft.float64)
    for infeasible, costs in (("inf", math.inf), ("zero", 0.0)):
        x.grad = None
        loss = asg_loss(x, targets, transitions, infeasible=infeasible, reduction="none")
        assert loss.tolist()[:2] == [costs, costs]
        assert loss[2].item() == pytest.approx(2 * math.log(3))
        ft.sum(loss).backward()
        assert (x.grad.numpy()[:2] == 0.0).all() and (x.grad.numpy()[2] != 0.0).any()


def test_truncation_cannot_help_an_empty_target() -> None:
    x, transitions = ft.zeros((2, 3, 4)), ft.zeros((4, 4))
    for loss in (asg_loss, force_alignment_score):
        with pytest.raises(TargetError, match=r'sample 1: its target is empty.*"zero"') as error:
            loss(x, [[1], [-1]], transitions)
        assert error.value.sample == 1
    # No frames and no labels: one path, which has no step.
    assert asg_loss(x, [[1], [-1]], transitions, [3, 0], reduction="none").tolist()[1] == 0.0


def test_alignment_asks_for_targets_that_fit() -> None:
    x, transitions = ft.zeros((2, 3, 4)), ft.zeros((4, 4))
    assert ASG(4).align(x, [[1, -1, -1, -1], [0, 1, 2, 3]])[1].tolist() == [0, 1, 2]
    for target in ([0, 1, 2, 3], [-1, -1, -1, -1]):
        with pytest.raises(TargetError, match=r"sample 1: . labels cannot be aligned with 3"):
            forced_path(x, [[1, -1, -1, -1], target], transitions)


def test_the_best_path_follows_transitions() -> None:
    x = ft.asarray([[[0.0, 0.0, 1.0], [0.0, 2.0, 0.0], [1.5, 1.0, 0.0], [2.0, 0.0, 0.0]]])
    assert viterbi_path(x, ft.zeros((3, 3)))[0].tolist() == [2, 1, 0, 0]
    stays = ft.eye(3) * 0.5
    assert viterbi_path(x, stays)[0].tolist() == [2, 1, 0, 0]
    after_1 = ft.asarray([[0.0, 0.0, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 0.0]])
    assert viterbi_path(x, after_1)[0].tolist() == [2, 1, 1, 0]


def test_forced_alignments_stay_where_nothing_matters() -> None:
    assert forced_path(ft.zeros((1, 5, 3)), [[2, 0]], ft.zeros((3, 3)))[0].tolist() == [
        2,
        0,
        0,
        0,
        0,
    ]


@WAYS
def test_frames_after_a_sample_do_not_matter(composed: bool) -> None:
    rng = np.random.default_rng(0)
    x, transitions = rng.normal(size=(2, 5, 3)), ft.asarray(rng.normal(size=(3, 3)))
    spoilt = x.copy()
    spoilt[0, 3:] = 1e30
    options = {"infeasible": "inf", "reduction": "none", "composed": composed}
    one, two = (
        asg_loss(ft.asarray(v), [[0, 1, -1], [2, 0, 1]], transitions, [3, 5], **options)
        for v in (x, spoilt)
    )
    assert one.tolist() == two.tolist()


@pytest.mark.parametrize("wide", [False, True], ids=["probabilities", "logarithms"])
def test_masked_classes_and_transitions_have_probability_zero(wide: bool) -> None:
    """The blank of CTC, or a pair of classes, is forbidden by -inf."""
    rng = np.random.default_rng(1)
    x, transitions = rng.normal(size=(1, 4, 3)), rng.normal(size=(3, 3))
    x[..., 2] = -math.inf
    if wide:
        transitions[0, 1] = -math.inf
    case = Case(
        x,
        np.array([[1, 0]])[:, : 1 if wide else 2],
        transitions,
        np.array([4]),
        np.array([2 - wide]),
    )
    check(
        case,
        lambda e, r: asg_loss(e, case.targets, r, reduction="none", composed=False),
        [(1.0, sums(case, free)), (-1.0, sums(case, forced))],
    )


@pytest.mark.parametrize("where", ["emissions", "transitions"])
def test_nan_is_not_hidden(where: str) -> None:
    x, transitions = np.zeros((2, 3, 2)), np.zeros((2, 2))
    (x if where == "emissions" else transitions)[..., 0, 0] = math.nan
    if where == "emissions":
        x[1] = 0.0
    loss = asg_loss(
        ft.asarray(x), [[0], [1]], ft.asarray(transitions), reduction="none", composed=False
    )
    assert math.isnan(loss[0].item())
    assert math.isnan(loss[1].item()) == (where == "transitions")
    with pytest.raises(ft.NonFiniteError, match="NaN"):
        viterbi_path(ft.asarray(x), ft.asarray(transitions))


def test_long_utterances_keep_the_precision_of_float64() -> None:
    """Both ways agree where sums over all paths cannot be written down; the kernels also in float32
    emissions."""
    rng = np.random.default_rng(2)
    x, transitions = rng.normal(size=(2, 150, 7)) * 4, rng.normal(size=(7, 7))
    targets = np.array([[0, 1, 2, 3, 4, 5, 6, 0, 2], [5, 1, 0, -1, -1, -1, -1, -1, -1]])
    found = []
    for composed in (False, True):
        values = [ag.Variable(v, requires_grad=True) for v in (x, transitions)]
        loss = asg_loss(values[0], targets, values[1], [150, 90], composed=composed)
        loss.backward()
        found.append([loss.numpy(), *(v.grad.numpy() for v in values)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    narrow = asg_loss(
        ft.asarray(x, ft.float32), targets, ft.asarray(transitions, ft.float32), [150, 90]
    )
    assert narrow.dtype == ft.float32
    halves = asg_loss(ft.asarray(x, ft.float16), targets, ft.asarray(transitions, ft.float16))
    assert halves.dtype == ft.float32
    assert narrow.item() == pytest.approx(found[0][0].item(), rel=1e-6)


def test_the_composed_way_has_second_derivatives_and_kernels_say_that_they_have_none() -> None:
    rng = np.random.default_rng(3)
    arguments = [ft.asarray(rng.normal(size=shape)) for shape in ((1, 3, 2), (2, 2))]

    def loss(x: Any, transitions: Any) -> Any:
        return asg_loss(x, [[0, 1]], transitions, composed=True)

    ag.check_grads(loss, arguments, order=2)
    x = ag.Variable(arguments[0], requires_grad=True)
    value = asg_loss(x, [[0, 1]], arguments[1], composed=False)
    with pytest.raises(ag.GradError, match="second derivative"):
        ag.grad(value, x, create_graph=True)


@pytest.mark.parametrize(
    ("mode", "divisors"),
    [("none", [1, 1]), ("input", [4, 3]), ("target", [2, 1]), ("target_sqrt", [2**0.5, 1])],
)
def test_modules_scale_what_the_functions_compute(mode: str, divisors: list[float]) -> None:
    rng = np.random.default_rng(4)
    x, targets, lengths = ft.asarray(rng.normal(size=(2, 4, 3))), [[1, 2], [0, -1]], [4, 3]
    transitions = ft.eye(3, dtype=ft.float64) * 0.5
    options: dict[str, Any] = {"transdiag": 0.5, "scale_mode": mode, "reduction": "none"}
    asg, full, force, line = (
        kind(3, **options).astype(ft.float64)
        for kind in (ASG, FullConnection, ForceAlignment, LinearSegmentation)
    )
    every = full_connection_score(x, transitions, lengths)
    one = force_alignment_score(x, targets, transitions, lengths)
    flat = force_alignment_score(x, stretch_targets(targets, lengths), transitions, lengths)
    for criterion, wanted in (
        (asg, every - one),
        (full, every),
        (force, one),
        (line, every - flat),
    ):
        found = criterion((x, lengths), targets).numpy()
        np.testing.assert_allclose(found, wanted.numpy() / divisors, rtol=1e-6)
    assert asg.decoding == "asg"
    assert [p.tolist() for p in asg.best_path(x, lengths)] == [
        p.tolist() for p in viterbi_path(x, transitions, lengths)
    ]
    assert [p.tolist() for p in asg.align(x, targets, lengths)] == [
        p.tolist() for p in forced_path(x, targets, transitions, lengths)
    ]


def test_criteria_share_transitions_and_learn_them() -> None:
    asg, line = ASG(3), LinearSegmentation(3)
    line.transitions = asg.transitions
    line((ft.asarray(np.ones((1, 4, 3), np.float32)), None), [[0, 1]]).backward()
    # Path 0 0 1 1: 0 after 0, 1 after 0 and 1 after 1 are one of three steps, all others too often.
    gradient = asg.transitions.grad.numpy()
    assert gradient[0, 0] == pytest.approx(3 / 9 - 1) and gradient[2, 2] == pytest.approx(3 / 9)


def test_stretched_targets_have_equal_parts() -> None:
    found = stretch_targets([[3, 1], [5, -1], [-1, -1], [4, 6]], [5, 2, 3, 1])
    assert found.tolist() == [[3, 3, 3, 1, 1], [5, 5, -1, -1, -1], [-1] * 5, [4, -1, -1, -1, -1]]


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ({"transitions": ft.zeros((3, 4))}, "transitions .3, 4. for emissions"),
        ({"transitions": ft.zeros((3, 3), ft.int64)}, "transitions are int64"),
        ({"targets": [[7]]}, "sample 0: its target holds 7"),
        ({"input_lengths": [9]}, "sample 0: input_lengths say 9"),
        ({"infeasible": "skip"}, "infeasible"),
    ],
)
def test_what_does_not_fit_is_refused(problem: dict[str, Any], error: str) -> None:
    arguments = {
        "emissions": ft.zeros((1, 4, 3)),
        "targets": [[0]],
        "transitions": ft.zeros((3, 3)),
    }
    with pytest.raises(ft.FlError, match=error):
        asg_loss(**arguments | problem)


def test_nan_reaches_the_gradient_and_every_score() -> None:
    x = ag.Variable(np.zeros((2, 2, 2)), requires_grad=True)
    bad = np.zeros((2, 2, 2))
    bad[0, 0] = math.nan
    transitions = ft.zeros((2, 2), ft.float64)
    shifted = x + ft.asarray(bad)
    every = full_connection_score(shifted, transitions, composed=False)
    one = force_alignment_score(shifted, [[0, 1], [0, 1]], transitions, composed=False)
    for scores in (every, one):
        assert math.isnan(scores[0].item()) and math.isfinite(scores[1].item())
    gradient = ag.grad(ft.sum(every), x).numpy()
    assert np.isnan(gradient[0]).all() and np.isfinite(gradient[1]).all()


def test_a_class_that_nothing_leads_to_begins_paths_only() -> None:
    transitions = np.zeros((2, 2))
    transitions[1] = -math.inf
    case = Case(np.ones((1, 3, 2)), np.array([[1, 0]]), transitions, np.array([3]), np.array([2]))
    found = full_connection_score(
        ft.asarray(case.emissions), ft.asarray(transitions), composed=False
    )
    assert found.item() == pytest.approx(sums(case, free)[0].score) == 3 + math.log(2)


def test_an_alignment_of_probability_zero_is_still_an_alignment() -> None:
    x = ft.full((1, 3, 2), -math.inf)
    assert forced_path(x, [[0, 1, 0]], ft.zeros((2, 2)))[0].tolist() == [0, 1, 0]
