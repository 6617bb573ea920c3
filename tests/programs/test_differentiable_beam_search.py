"""Losses and gradients of `examples/differentiable_beam_search` are those of a sum over paths."""

from __future__ import annotations

import itertools
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "differentiable_beam_search"
sys.path.insert(0, str(FOLDER))

import graphs  # noqa: E402 - found on the path above
import numbers_tape  # noqa: E402
import search as dbs  # noqa: E402
import train  # noqa: E402

#: Words 1 and 3 begin with word 0; words 2 and 4 are spelled alike.
SPELLINGS = [[0], [0, 1], [1, 2], [0, 2, 1], [1, 2]]
TARGET = [1, 2]
TRIE = dbs.Trie(SPELLINGS)


def drawn(frames: int = 5, seed: int = 0, scale: float = 1.0) -> dbs.Scores:
    """Leaves in float64, of normal values."""
    draw = ft.Generator(seed)
    words = len(SPELLINGS)
    shapes: list[tuple[int, ...]] = [(frames, 3), (3, 3), (words + 1, words), (), ()]
    values = [draw.normal(shape, dtype=ft.float64) * scale for shape in shapes]
    return dbs.Scores(*[ag.Variable(value, requires_grad=True) for value in values])


def all_paths(scores: dbs.Scores) -> dict[tuple[int, ...], list[float]]:
    """The scores of all paths of every sequence of words, one by one: each way to cut the frames
    into as many runs as there are letters."""
    emissions, transitions, words = (x.tolist() for x in scores[:3])
    lm_weight, word_score = scores.lm_weight.item(), scores.word_score.item()
    frames = len(emissions)
    found: dict[tuple[int, ...], list[float]] = {}
    for count in range(1, frames + 1):
        for sequence in itertools.product(range(len(SPELLINGS)), repeat=count):
            letters = [letter for word in sequence for letter in SPELLINGS[word]]
            said = zip((len(SPELLINGS), *sequence), sequence)
            fixed = sum(lm_weight * words[u][w] + word_score for u, w in said)
            for cuts in itertools.combinations(range(1, frames), len(letters) - 1):
                edges = (0, *cuts, frames)
                runs = [b - a for a, b in itertools.pairwise(edges)]
                path = [letter for letter, run in zip(letters, runs) for _ in range(run)]
                score = fixed + sum(emissions[t][n] for t, n in enumerate(path))
                score += sum(transitions[a][b] for a, b in itertools.pairwise(path))
                found.setdefault(sequence, []).append(score)
    return found


def log_sum(numbers: Any) -> float:
    numbers = list(numbers)
    most = max(numbers)
    return most + math.log(math.fsum(math.exp(number - most) for number in numbers))


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    return bool(ft.allclose(ft.asarray(a), ft.asarray(b), rtol=tolerance, atol=tolerance))


GRAPHS = [graphs.Plain, graphs.Released, graphs.Fused, numbers_tape.Numbers]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("frames", [1, 2, 5, 6])
def test_the_total_is_the_log_sum_of_all_paths(graph: Any, frames: int) -> None:
    scores = drawn(frames, seed=frames)
    paths = all_paths(scores)
    target = max((s for s in paths if len(s) <= 2), key=len)
    found = dbs.search(graph(), TRIE, scores, beam=10**6, target=target)
    assert close(found.total.item(), log_sum(itertools.chain(*paths.values())))
    assert close(found.target.item(), log_sum(paths[target]))
    without = dbs.search(graph(), TRIE, scores, beam=10**6)
    assert close(without.total.item(), found.total.item()) and without.target is None


def loss(*inputs: Any, graph: Any = None, **options: Any) -> Any:
    scores = dbs.Scores(*inputs)
    return dbs.search(graph or graphs.Fused(), TRIE, scores, **{"beam": 10**6, **options}).loss


@pytest.mark.parametrize("graph", GRAPHS)
def test_gradients_of_all_inputs(graph: Any) -> None:
    ag.check_grads(lambda *inputs: loss(*inputs, graph=graph(), target=TARGET), list(drawn()))


@pytest.mark.parametrize("graph", GRAPHS)
def test_gradients_of_a_narrow_beam(graph: Any) -> None:
    ag.check_grads(
        lambda *inputs: loss(*inputs, graph=graph(), target=TARGET, beam=3, threshold=4.0),
        list(drawn(8)),
    )


def test_second_derivatives_need_the_plain_graph() -> None:
    inputs = list(drawn(3))
    ag.check_grads(lambda *some: loss(*some, graph=graphs.Plain(), target=[1]), inputs, order=2)
    for graph in GRAPHS[2:]:
        with pytest.raises(ag.GradError, match="has no second derivative"):
            ag.grad(loss(*inputs, graph=graph(), target=[1]), inputs, create_graph=True)


class Paths(graphs.Plain):
    """A score is the list of the scores of all its paths, one by one."""

    def start(self, emission: Any) -> Any:
        return [emission]

    def merge(self, paths: Any, emission: Any) -> Any:
        found = [one + arc for score, arc in paths for one in score]
        return found if emission is None else [one + emission for one in found]

    def value(self, score: Any) -> float:
        return log_sum(one.item() for one in score)


@pytest.mark.parametrize("beam, threshold", [(1, math.inf), (4, math.inf), (10**6, 2.0)])
def test_gradients_of_a_pruned_search_are_those_of_the_surviving_paths(
    beam: int, threshold: float
) -> None:
    inputs = drawn(7, seed=3)
    options: dict[str, Any] = {"beam": beam, "threshold": threshold, "target": TARGET}
    found = dbs.search(Paths(), TRIE, inputs, **options)
    assert len(found.total) < len(dbs.search(Paths(), TRIE, inputs, beam=10**6).total) / 2
    total, target = (ft.logsumexp(ft.stack(paths)) for paths in found)
    want = ag.grad(total - target, list(inputs))
    for graph in GRAPHS:
        short = loss(*inputs, graph=graph(), **options)
        assert close(short.item(), (total.item() - target.item()))
        for a, b in zip(ag.grad(short, list(inputs)), want):
            assert close(a.tensor, b.tensor)


def test_the_target_never_leaves_the_beam() -> None:
    scores = drawn(6)
    emissions = scores.emissions.tensor - ft.asarray([0.0, 50.0, 0.0])
    scores = scores._replace(emissions=ag.Variable(emissions, requires_grad=True))
    found = dbs.search(graphs.Fused(), TRIE, scores, beam=1, target=TARGET)
    paths = all_paths(scores)[tuple(TARGET)]
    assert close(found.target.item(), log_sum(paths))
    assert found.total.item() >= found.target.item()


def test_the_best_path_and_its_words() -> None:
    for seed in range(5):
        scores = drawn(6, seed=seed)
        best = {words: max(paths) for words, paths in all_paths(scores).items()}
        words = max(best, key=best.__getitem__)
        found, _ = dbs.search(graphs.Best(), TRIE, scores, beam=10**6)
        assert found[1] == words and close(found[0], best[words])


# ---- the graph -----------------------------------------------------------------------------------


def names(result: Any) -> list[str]:
    """The operations of all nodes behind a variable."""
    seen, stack = set(), [result.grad_fn]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [n for n in node.ins if n is not None]
    return [node.name for node in seen]


def test_fused_graphs_have_a_node_for_each_hypothesis() -> None:
    inputs = drawn(30)
    plain = names(loss(*inputs, graph=graphs.Plain(), target=TARGET))
    fused = names(loss(*inputs, target=TARGET))
    assert len(fused) < 0.5 * len(plain)
    assert "log_add" in plain and "hypothesis" not in plain
    assert "hypothesis" in fused and "log_add" not in fused


def test_weak_branches_are_left_out_of_the_graph() -> None:
    inputs = drawn(30, scale=4.0)
    exact = loss(*inputs, graph=graphs.Plain(), target=TARGET)
    slopes = ag.grad(exact, list(inputs), retain_graph=True)
    with graphs.Prune(12.0) as prune:
        pruned = loss(*inputs, graph=graphs.Plain(), target=TARGET)
    assert prune.pruned > 100
    fused, numbers = (loss(*inputs, graph=graph(below=12.0), target=TARGET) for graph in GRAPHS[2:])
    for found in (pruned, fused, numbers):
        assert close(found.item(), exact.item())
        assert len(names(found)) < 0.9 * len(names(exact))
        for a, b in zip(ag.grad(found, list(inputs)), slopes):
            assert ft.max(ft.absolute(a.tensor - b.tensor)).item() < 1e-3


def test_the_best_path_is_never_left_out() -> None:
    inputs = drawn(6)
    for graph in GRAPHS[2:]:
        found = loss(*inputs, graph=graph(below=0.0), target=TARGET)
        assert close(found.item(), loss(*inputs, target=TARGET).item())
        found.backward()


class Counted(extend.Node):
    """A node that is counted while it lives."""

    __slots__ = ()
    living = 0

    def __del__(self) -> None:
        Counted.living -= 1


class Count(extend.Recorder):
    def __init__(self) -> None:
        self.made = self.most = Counted.living = 0

    def recorded(self, node: Any, result: Any) -> Any:
        self.made += 1
        Counted.living += 1
        self.most = max(self.most, Counted.living)
        return node.copy(Counted)


def test_nodes_outside_the_beam_are_freed_while_the_graph_grows() -> None:
    inputs = drawn(60, scale=4.0)
    with Count() as wide:
        found = loss(*inputs, graph=graphs.Plain(), target=TARGET)
    del found
    with Count() as narrow:
        found = loss(*inputs, graph=graphs.Plain(), target=TARGET, beam=2)
        living = Counted.living
    assert narrow.most < 0.5 * wide.most
    assert narrow.most < 0.6 * narrow.made
    found.backward()
    del found
    assert Counted.living == 0 < living


class Hoarding(graphs.Released):
    """Keeps every score that it makes, as a debugger would."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: list[Any] = []

    def merge(self, paths: Any, emission: Any) -> Any:
        self.scores.append(super().merge(paths, emission))
        return self.scores[-1]


def test_the_lifetime_of_nodes_does_not_depend_on_who_holds_scores() -> None:
    inputs = drawn(30)
    options: dict[str, Any] = {"target": TARGET, "beam": 3}
    graph = Hoarding()
    found = loss(*inputs, graph=graph, **options)
    freed = [score for score in graph.scores if score.grad_fn.ins is None]
    made, released = graph.lifetime.made, graph.lifetime.released
    assert made > released >= len(freed) > 0.3 * len(graph.scores)
    with pytest.raises(ag.GraphFreedError):
        freed[0].backward()
    slopes = ag.grad(found, list(inputs))
    for a, b in zip(slopes, ag.grad(loss(*inputs, graph=graphs.Plain(), **options), list(inputs))):
        assert a.tolist() == b.tolist()


def test_fused_graphs_have_no_node_outside_the_beam() -> None:
    inputs = drawn(30)
    with Count() as count:
        found = loss(*inputs, target=TARGET, beam=3)
    shared = count.made - names(found).count("hypothesis")
    assert names(found).count("hypothesis") <= 30 * (3 + len(TARGET) * 2) + 2
    assert shared < 400


def test_the_page_runs() -> None:
    page = (FOLDER.parents[1] / "docs" / "differentiable-beam-search.md").read_text()
    blocks = re.findall(r"^```python notest\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), "differentiable-beam-search.md", "exec"), {})


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, options, message",
    [
        ({}, {"target": [5]}, r"target \[5\]: expected words from 0 to 4"),
        ({}, {"target": []}, r"target \[\]"),
        ({}, {"target": [3, 3]}, "the target does not fit in 5 frames"),
        ({}, {"beam": 0}, "beam 0"),
        ({}, {"threshold": math.nan}, "threshold nan"),
        ({"emissions": ft.zeros((5, 2))}, {}, r"emissions \(5, 2\).*3 tokens"),
        ({"emissions": ft.zeros((0, 3))}, {}, r"emissions \(0, 3\)"),
        ({"emissions": ft.full((5, 3), math.nan)}, {}, "frame 0: a score is not finite"),
        ({"transitions": ft.zeros((3, 4))}, {}, r"transitions \(3, 4\): expected \(3, 3\)"),
        ({"words": ft.zeros((5, 5))}, {}, r"words \(5, 5\): expected \(6, 5\)"),
        ({"lm_weight": ft.zeros(1)}, {}, r"lm_weight \(1,\)"),
    ],
)
def test_mistakes_are_reported(change: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dbs.search(graphs.Fused(), TRIE, drawn()._replace(**change), **{"beam": 50, **options})


def test_a_beam_without_a_whole_word_is_reported() -> None:
    scores = drawn(1)._replace(emissions=ft.asarray([[0.0, 50.0, 0.0]]))
    with pytest.raises(ValueError, match="no hypothesis in the beam ends with a word"):
        dbs.search(graphs.Fused(), TRIE, scores, beam=1)


def test_words_need_a_spelling() -> None:
    with pytest.raises(ValueError, match="word 1 has an empty spelling"):
        dbs.Trie([[0], []])


# ---- training ------------------------------------------------------------------------------------


def test_training_through_the_search_lowers_the_loss_and_the_error_rate() -> None:
    losses, (before, after) = train.run(count=40, epochs=3, tried=40)
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.8 * losses[0]
    assert after < 0.85 * before


def test_word_errors_are_edits() -> None:
    assert train.distance([1, 2, 3], [1, 2, 3]) == 0
    assert train.distance([1, 3], [1, 2, 3]) == 1
    assert train.distance([3, 1], [1, 2, 3]) == 3
    assert train.distance([], [1, 2]) == 2
