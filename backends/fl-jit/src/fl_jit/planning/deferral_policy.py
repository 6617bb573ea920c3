"""The deferral policy: operations run eagerly while deferral does not make them faster.

Recording an operation, and interpreting it because its structure is new, takes about 3 us more than
running it eagerly. That is negligible for a large operation. For a small one whose structure is
never repeated, it exceeds the savings of a plan. So the policy counts light traces that no plan
made faster. After ``patience`` of them in a row, operations run eagerly. The eager phase lasts for
``REST`` times the work of these traces, and at least for ``LEAST``. Then recording is tried again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from fl_jit.traces.recording import Call
from fl_tensor.extend import is_reproducible
from fl_tensor.graph.cost import CONTRACTIONS, contraction

#: A trace is light if its operations have fewer elements than this on average: 20 us in NumPy.
LIGHT = 1 << 17
#: A trace is heavy if its operations have at least ``HEAVY`` elements together (half a second in
#: NumPy), and at least ``HEAVY_CALL`` on average. Planning a call takes 0.3 ms, and halves the time
#: of most.
HEAVY, HEAVY_CALL = 1 << 28, 1 << 22
#: A plan makes a light trace faster if it has at least this many steps less than operations.
SAVED = 6
#: See above. Recording without a gain then takes a few percent of the time at most
#: (small_graphs.py). With twice as much, a network trained after light work runs without plans for
#: seconds.
REST = 32
#: The least elements of an eager phase, some 10 ms in NumPy. The loss of plans is not noticeable
#: for so short a time. Where each result is read, the overhead of recording is largest relative to
#: the work.
LEAST = 1 << 26
#: The rule where results must not depend on earlier runs. A trace of at least this many elements
#: (2 ms in NumPy) is planned, and others are not.
REPRODUCIBLY = 1 << 21


class DeferralPolicy:
    """The counters of the policy, shared by all threads. ``patience`` 0: always defer."""

    __slots__ = ("_elements", "_without_gain", "patience", "rest")

    def __init__(self, patience: int = 8) -> None:
        self.patience = patience
        self.rest = 0  # elements of operations that will run eagerly
        self._without_gain = 0
        self._elements = 0

    def records(self, size: int) -> bool:
        """Whether to defer an operation on this many elements."""
        if self.rest > 0 and not is_reproducible():
            self.rest -= size
            return False
        return True

    def record_gain(self) -> None:
        """Record that a plan was faster."""
        self._without_gain = self._elements = 0

    def record_no_gain(self, calls: int, size: int) -> None:
        """Record that deferral of ``calls`` operations on ``size`` elements made them no faster."""
        if not self.patience or size >= LIGHT * calls or is_reproducible():
            return
        self._without_gain += 1
        self._elements += size
        if self._without_gain >= self.patience:
            self.rest = max(REST * self._elements, LEAST)
            self._without_gain = self._elements = 0


def is_heavy(calls: int, size: int) -> bool:
    """Whether a trace of this size is planned even if its structure is not repeated."""
    return size >= max(HEAVY, HEAVY_CALL * calls)


def is_planned_by_rule(size: int) -> bool:
    """Whether a trace of this size is planned where results must not depend on earlier runs."""
    return size >= REPRODUCIBLY


def elements(calls: list[Call], leaves: list[Any], among: Iterable[int] | None = None) -> int:
    """The elements of an elementwise operation that takes roughly as long in NumPy as these calls,
    or as those with the numbers ``among``. 5 multiplications of a contraction take as long as 1
    element, random bits 64 times as long."""
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
