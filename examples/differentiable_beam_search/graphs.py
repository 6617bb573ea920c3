"""Graphs of scores for ``search.search``: the tape as it is, and the tape adapted to the search.

``Plain`` describes the methods of a graph. ``Released`` ends the lifetime of nodes early. ``Fused``
records one node for each hypothesis in the beam. ``Prune`` is a recorder around a search:

    with Prune(20.0):
        found = search(Plain(), trie, scores, beam=50, target=[3, 1])
    found.loss.backward()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_autograd import extend

Paths = Sequence[tuple[Any, Any]]


# ---- operations with pre-fused gradients ---------------------------------------------------------


def _log_add(ops: Any, x: Any, y: Any) -> Any:
    high, low = ops.maximum(x, y), ops.minimum(x, y)
    return ops.add(high, ops.log1p(ops.exp(ops.subtract(low, high))))


#: log(exp(x) + exp(y)) of finite numbers: one node.
log_add = extend.defop(
    "log_add",
    _log_add,
    x=lambda ops, g, out, x: ops.multiply(g, ops.exp(ops.subtract(x, out))),
    y=lambda ops, g, out, y: ops.multiply(g, ops.exp(ops.subtract(y, out))),
)


def _gradients(ops: Any, g: Any, shares: Sequence[float]) -> list[Any]:
    found: list[Any] = []
    last, part = 1.0, g
    for share in shares:  # the operands of a path follow one another
        if share != last:
            last, part = share, ops.multiply(g, ops.constant(share, g))
        found.append(part)
    return found


#: emission + log(sum(exp(score + arc) for each path)): one node, for any number of paths. The
#: operands are the emission, if any, and for each path its score and the parts of its arc.
hypothesis = extend.defnode("hypothesis", _gradients)


# ---- graphs --------------------------------------------------------------------------------------


class Plain:
    """A node for each addition and each log-addition."""

    def cells(self, table: Any) -> Callable[[int, int], Any]:
        """``cells(table)(i, j)`` is the score ``table[i, j]``, taken once."""
        return cache(lambda i, j: table[i, j])

    def arc(self, transition: Any, said: Any, word: int | None) -> Any:
        """The score of an arc: a transition, that of a finished word, or both."""
        if transition is None or said is None:
            return said if transition is None else transition
        return transition + said

    def word(self, lm_weight: Any, score: Any, word_score: Any) -> Any:
        """The score of a finished word."""
        return lm_weight * score + word_score

    def start(self, emission: Any) -> Any:
        """The score of a path after its first frame."""
        return emission

    def merge(self, paths: Paths, emission: Any) -> Any:
        """The log-sum of paths (score, arc) into one hypothesis, plus its emission if any."""
        total = None
        for score, arc in paths:
            one = score + arc
            total = one if total is None else log_add(total, one)
        return total if emission is None else total + emission

    def value(self, score: Any) -> float:
        """The score as a number."""
        return float(score.item())

    def result(self, score: Any) -> Any:
        """The score as a variable."""
        return score

    def end_of_frame(self, survivors: Sequence[Any]) -> None:
        """Called after each frame with the scores that stay in the beam."""


class Released(Plain):
    """The plain graph, whose nodes live as long as a hypothesis in the beam leads to them, even if
    its scores are kept. ``lifetime`` counts nodes."""

    def __init__(self) -> None:
        self.lifetime = FrameLifetime()

    def merge(self, paths: Paths, emission: Any) -> Any:
        with self.lifetime:
            return super().merge(paths, emission)

    def end_of_frame(self, survivors: Sequence[Any]) -> None:
        self.lifetime.end_of_frame([score.grad_fn for score in survivors])


class Score:
    """A score of a ``Fused`` graph: its value as a number. Its variable has a node with these
    operands and factors of the gradient, and is made when the score enters the beam."""

    __slots__ = ("factors", "operands", "value", "variable")

    def __init__(self, value: float, variable: Any = None) -> None:
        self.value, self.variable = value, variable
        self.operands: list[Any] = []
        self.factors: list[float] = []


class Arc(NamedTuple):
    """An arc of a ``Fused`` graph: its value, and the variables whose sum it is."""

    value: float
    variables: tuple[Any, ...]


class Fused:
    """A node for each hypothesis in the beam. Python computes values and the share of each path, so
    the search needs no node to decide which hypotheses remain.

    Paths with a share of less than ``exp(-below)`` are left out of the graph.
    """

    def __init__(self, below: float = math.inf) -> None:
        self.least = math.exp(-below)

    def cells(self, table: Any) -> Callable[[int, int], Score]:
        values = table.tolist()
        return cache(lambda i, j: Score(values[i][j], table[i, j]))

    def arc(self, transition: Score | None, said: Score | None, word: int | None) -> Arc:
        parts = [part for part in (transition, said) if part is not None]
        return Arc(sum(part.value for part in parts), tuple(part.variable for part in parts))

    def word(self, lm_weight: Any, score: Score, word_score: Any) -> Score:
        made = lm_weight * score.variable + word_score
        return Score(made.item(), made)

    def start(self, emission: Score) -> Score:
        return emission

    def merge(self, paths: Paths, emission: Score | None) -> Score:
        values = [score.value + arc.value for score, arc in paths]
        most = max(values)
        shares = [math.exp(value - most) for value in values]
        total = sum(shares)
        made = Score(most + math.log(total))
        if emission is not None:
            made.value += emission.value
            made.operands, made.factors = [emission.variable], [1.0]
        for (score, arc), share in zip(paths, shares):
            if share >= min(total * self.least, 1.0):  # the best one always
                made.operands += (score.variable, *arc.variables)
                made.factors += [share / total] * (1 + len(arc.variables))
        return made

    def value(self, score: Score) -> float:
        return score.value

    def result(self, score: Score) -> Any:
        if score.variable is None:
            score.variable = hypothesis(score.value, score.operands, score.factors)
            score.operands = score.factors = []
        return score.variable

    def end_of_frame(self, survivors: Sequence[Score]) -> None:
        for score in survivors:
            self.result(score)


class Best(Plain):
    """The best path and its words, without gradients: scores are pairs (number, words)."""

    def cells(self, table: Any) -> Callable[[int, int], Any]:
        rows = table.tolist()
        return lambda i, j: rows[i][j]

    def arc(self, transition: Any, said: Any, word: int | None) -> Any:
        number = (0.0 if transition is None else transition) + (0.0 if said is None else said)
        return number, () if word is None else (word,)

    def word(self, lm_weight: Any, score: Any, word_score: Any) -> float:
        return float(lm_weight.item() * score + word_score.item())

    def start(self, emission: Any) -> Any:
        return emission, ()

    def merge(self, paths: Paths, emission: Any) -> Any:
        number, words = max((s[0] + a[0], (*s[1], *a[1])) for s, a in paths)
        return number + (0.0 if emission is None else emission), words

    def value(self, score: Any) -> float:
        return float(score[0])


# ---- recorders -----------------------------------------------------------------------------------


class Prune(extend.Recorder):
    """Leaves out operands of a log-addition that are ``below`` under its result: their share of the
    gradient is less than ``exp(-below)``. Nodes that lead to them alone are freed at once."""

    def __init__(self, below: float) -> None:
        self.below = below
        self.pruned = 0

    def recorded(self, node: Any, result: Any) -> Any:
        if node.name != "log_add":
            return node
        low = result.item() - self.below
        weak = [name for name in "xy" if _number(node, name, low) < low]
        self.pruned += len(weak)
        return extend.prune(node, *weak)


def _number(node: Any, name: str, default: float) -> float:
    saved = node.saved_value(name)
    return default if saved is None else float(ft.Tensor(saved, node.base).item())


class FrameLifetime(extend.Recorder):
    """At the end of a frame, releases the nodes that it recorded and that lead to no survivor: they
    let go of their values and of the nodes behind them. ``made`` and ``released`` count nodes."""

    def __init__(self) -> None:
        self.made = self.released = 0
        self._frame: set[Any] = set()

    def recorded(self, node: Any, result: Any) -> Any:
        self.made += 1
        self._frame.add(node)
        return node

    def end_of_frame(self, survivors: Sequence[Any]) -> None:
        """``survivors`` are the nodes of the hypotheses in the beam."""
        stack = list(survivors)
        while stack:
            node = stack.pop()
            if node in self._frame:
                self._frame.discard(node)
                stack += [n for n in node.ins if n is not None]
        for node in self._frame:
            node.release()
        self.released += len(self._frame)
        self._frame.clear()
