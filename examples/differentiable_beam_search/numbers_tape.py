"""A tape of numbers for ``search.search``: the whole search is one node of the library's tape.

Hypotheses are Python objects that refer to those before them. Their paths come from the frame
before, so the backward pass needs no sorting: it goes back frame by frame. An object outside the
beam is freed by the reference count, with all that leads to it alone.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_autograd import extend


class Cell(NamedTuple):
    """An element of a table."""

    value: float
    row: int
    column: int


class Word(NamedTuple):
    """The score of a finished word, and the element of ``words`` in it."""

    value: float
    cell: Cell


class Arc:
    """The score of an arc: a transition, a finished word, or both."""

    __slots__ = ("transition", "value", "word")

    def __init__(self, transition: Cell | None, word: Word | None) -> None:
        self.transition, self.word = transition, word
        self.value = sum(part.value for part in (transition, word) if part is not None)


class Hypothesis:
    """``value`` is emission + log(sum(exp(score + arc))). Each of ``paths`` is a score, an arc and
    their share in the sum."""

    __slots__ = ("emission", "paths", "value")

    def __init__(
        self, value: float, emission: Cell | None, paths: Sequence[tuple[Hypothesis, Arc, float]]
    ) -> None:
        self.value, self.emission, self.paths = value, emission, paths


class Numbers:
    """A graph for ``search.search``, one for each search. Paths with a share of less than
    ``exp(-below)`` are left out of the gradient."""

    def __init__(self, below: float = math.inf) -> None:
        self.least = math.exp(-below)
        self.tables: list[Any] = []  # emissions, transitions, words: as the search asks for them
        self.factors: tuple[Any, ...] = ()  # lm_weight, word_score

    def cells(self, table: Any) -> Callable[[int, int], Cell]:
        rows = table.tolist()
        self.tables.append(table)
        return lambda i, j: Cell(rows[i][j], i, j)

    def word(self, lm_weight: Any, cell: Cell, word_score: Any) -> Word:
        if not self.factors:
            self.factors = lm_weight, word_score
            self.numbers = lm_weight.item(), word_score.item()
        return Word(self.numbers[0] * cell.value + self.numbers[1], cell)

    def arc(self, transition: Cell | None, said: Word | None, word: int | None) -> Arc:
        return Arc(transition, said)

    def start(self, emission: Cell) -> Hypothesis:
        return Hypothesis(emission.value, emission, ())

    def merge(self, paths: Sequence[tuple[Hypothesis, Arc]], emission: Cell | None) -> Hypothesis:
        said = 0.0 if emission is None else emission.value
        if len(paths) == 1:
            ((score, arc),) = paths
            return Hypothesis(score.value + arc.value + said, emission, ((score, arc, 1.0),))
        values = [score.value + arc.value for score, arc in paths]
        most = max(values)
        parts = [math.exp(value - most) for value in values]
        total = sum(parts)
        least = min(total * self.least, 1.0)  # the best one always
        kept = [(*p, part / total) for p, part in zip(paths, parts) if part >= least]
        return Hypothesis(most + math.log(total) + said, emission, kept)

    def value(self, score: Hypothesis) -> float:
        return score.value

    def end_of_frame(self, survivors: Sequence[Hypothesis]) -> None:
        pass

    def result(self, score: Hypothesis) -> Any:
        inputs = [*self.tables, *self.factors]
        return search_node(score.value, inputs, score, self.numbers[0], [x.shape for x in inputs])


def _gradients(
    ops: Any, g: Any, last: Hypothesis, lm_weight: float, shapes: Sequence[tuple[int, ...]]
) -> list[Any]:
    kind, wide = ("d", ft.float64) if g.dtype is ft.float64 else ("f", ft.float32)
    (slope,) = memoryview(ops.to_host(ops.cast(g, wide))).cast("B").cast(kind)
    return [
        ops.cast(ops.from_host(memoryview(array(kind, numbers)), shape, wide, g.device), g.dtype)
        for numbers, shape in zip(_slopes(last, slope, lm_weight, shapes), shapes)
    ]


#: The node of a search. Its operands are the five inputs.
search_node = extend.defnode("search", _gradients)


def _slopes(
    last: Hypothesis, slope: float, lm_weight: float, shapes: Sequence[tuple[int, ...]]
) -> list[list[float]]:
    """The gradients of the five inputs, row after row."""
    emissions, transitions, words, factor, offset = ([0.0] * math.prod(shape) for shape in shapes)
    arcs: dict[Arc, float] = defaultdict(float)
    frame = {last: slope}
    while frame:
        before: dict[Hypothesis, float] = defaultdict(float)
        for hypothesis, g in frame.items():
            if hypothesis.emission is not None:
                _, row, column = hypothesis.emission
                emissions[row * shapes[0][1] + column] += g
            for score, arc, share in hypothesis.paths:
                part = g * share
                arcs[arc] += part
                before[score] += part
        frame = before
    for arc, g in arcs.items():
        if arc.transition is not None:
            _, row, column = arc.transition
            transitions[row * shapes[1][1] + column] += g
        if arc.word is not None:
            value, row, column = arc.word.cell
            words[row * shapes[2][1] + column] += g * lm_weight
            factor[0] += g * value
            offset[0] += g
    return [emissions, transitions, words, factor, offset]
