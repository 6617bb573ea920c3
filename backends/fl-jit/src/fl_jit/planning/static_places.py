"""Where the results of a plan on fixed memory are (``static_program``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fl_jit.planning.memory_assignment import Interval, assign_offsets
from fl_jit.steps.native import NativeStep
from fl_tensor.extend.numpy import TO_NUMPY
from fl_tensor.graph import Value

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan

#: Of results in the block, in bytes.
ALIGNMENT = 64


class Places:
    """Where results are.

    offsets   of those in the block, and ``size``
    fresh     those that are new arrays at every run, as the results of the program are
    in_place  results of the program that take the memory of an input
    """

    def __init__(
        self,
        plan: Plan,
        leaves: list[Any],
        may_overwrite: list[bool],
        native: list[NativeStep | None],
    ) -> None:
        results = {plan.layouts[v].root for v in plan.results}
        last = {root: number for number, step in enumerate(plan.steps) for root in step.roots}
        free_inputs = {
            value
            for leaf, donates, (value, is_number, prepack) in zip(
                leaves, may_overwrite, plan._leaves, strict=True
            )
            if not is_number and prepack is None and donates and is_writable(leaf.array)
        }
        self._numpy = {
            root
            for step, bound in zip(plan.steps, native, strict=True)
            if bound is None
            for root in step.roots
        }
        self._results = results
        self.fresh: list[tuple[Value, Any]] = []
        self.in_place: dict[Value, Value] = {}
        self._aliases: dict[Value, Value] = {}  # of a result in the place of another one
        intervals: dict[Value, Interval] = {}
        taken: set[Value] = set()
        for number, bound in enumerate(native):
            if bound is None:
                continue
            for root, candidates in bound.writes:
                fitting = [c for c in candidates if c.shape == root.shape and c not in taken]
                if root in results:
                    over = next((c for c in fitting if c in free_inputs), None)
                    if over is None:
                        self.fresh.append((root, TO_NUMPY[root.dtype]))
                        continue
                    self.in_place[root] = over
                else:
                    over = next((c for c in fitting if c in intervals), None)
                    end = last.get(root, number)
                    if over is None:
                        intervals[root] = Interval(number, end, _nbytes(root))
                        continue
                    self._aliases[root] = over
                    home = self._home(over)
                    intervals[home] = intervals[home]._replace(end=end)
                    intervals[root] = Interval(number, end, 0)
                taken.add(over)
        self.offsets, self.size = assign_offsets(
            {root: interval for root, interval in intervals.items() if interval.nbytes}
        )
        for root in self._aliases:
            self.offsets[root] = self.offsets[self._home(root)]

    def _home(self, root: Value) -> Value:
        while root in self._aliases:
            root = self._aliases[root]
        return root

    def is_read_by_numpy(self, root: Value) -> bool:
        """Whether its array must be known, beside its address."""
        return root in self._numpy or root in self._results


def _nbytes(root: Value) -> int:
    nbytes = max(math.prod(root.shape), 1) * root.dtype.itemsize
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def is_writable(array: Any) -> bool:
    return bool(array.flags.carray) and array.base.__class__ is not np.ndarray
