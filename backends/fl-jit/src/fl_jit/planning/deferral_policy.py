"""Whether putting off pays, judged by what came of it.

To record an operation, and to run it call by call when its structure is new, takes about 3 us more
than to run it at once. That is nothing beside a large operation and more than a plan saves of a
small one whose structure never comes again. So light traces that no plan made faster are counted;
after ``patience`` of them in a row operations run at once, for ``REST`` times the work that was
recorded in vain, ``LEAST`` at least; then recording is tried again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fl_jit.traces.recording import Call
from fl_tensor.graph.cost import CONTRACTIONS, contraction
from fl_tensor.reproducible import is_reproducible

#: A trace is light if its operations have fewer elements than this on average: 20 us in NumPy.
LIGHT = 1 << 17
#: A trace is heavy if its operations have so many elements together, half a second in NumPy, and so
#: many on average: to plan a call takes 0.3 ms, and saves half of the time of most.
HEAVY, HEAVY_CALL = 1 << 28, 1 << 22
#: A plan of a light trace pays if it has so many steps less than there were operations.
SAVED = 6
#: See above. Recording in vain then takes a few percent of the time at most (small_graphs.py). With
#: twice as much a network that is trained after light work runs without plans for seconds.
REST = 32
#: A rest is of so many elements at least, some 10 ms in NumPy: nobody misses plans for so short a
#: while, and where each result is looked at, recording in vain takes longest beside the work.
LEAST = 1 << 26
#: Where results must not depend on what came before, a trace of so many elements, 2 ms in NumPy, is
#: planned, and others are not.
REPRODUCIBLY = 1 << 21


class DeferralPolicy:
    """The count, of all threads together. ``patience`` 0: putting off always pays."""

    __slots__ = ("_elements", "_vain", "patience", "rest")

    def __init__(self, patience: int = 8) -> None:
        self.patience = patience
        self.rest = 0  # elements of operations that will run at once
        self._vain = 0
        self._elements = 0

    def records(self, size: int) -> bool:
        """Whether an operation on so many elements is to be put off."""
        if self.rest > 0 and not is_reproducible():
            self.rest -= size
            return False
        return True

    def paid(self) -> None:
        """A plan was faster."""
        self._vain = self._elements = 0

    def in_vain(self, calls: int, size: int) -> None:
        """So many calls, on so many ``elements``, were no faster for having been put off."""
        if not self.patience or size >= LIGHT * calls or is_reproducible():
            return
        self._vain += 1
        self._elements += size
        if self._vain >= self.patience:
            self.rest = max(REST * self._elements, LEAST)
            self._vain = self._elements = 0


def is_heavy(calls: int, size: int) -> bool:
    """Whether so many calls on so many ``elements`` are planned even if they never come again."""
    return size >= max(HEAVY, HEAVY_CALL * calls)


def is_planned_by_rule(size: int) -> bool:
    """Whether calls on so many ``elements`` are planned where results must not depend on what came
    before."""
    return size >= REPRODUCIBLY


def elements(calls: list[Call], leaves: list[Any], among: Iterable[int] | None = None) -> int:
    """How many elements an elementwise operation would have that takes as long in NumPy as these
    calls do, or those with the numbers ``among``, roughly: 5 products of a contraction take as long
    as 1 element, random bits 64 times as long."""
    total = 0
    for op, operands, _, shape, _ in calls if among is None else [calls[i] for i in among]:
        size = math.prod(shape)
        if op in CONTRACTIONS and size:
            shapes = [calls[i].shape if i >= 0 else leaves[~i].shape for i in operands]
            size *= 1 + contraction(op, shapes, size) // (10 * size)
        elif op == "random_bits":
            size *= 64
        total += size
    return total
