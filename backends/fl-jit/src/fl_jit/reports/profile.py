"""The profiler of plans: ``ft.jit.profile``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from fl_jit.kernels import registry
from fl_jit.kernels.library import Kernel, KernelLibrary
from fl_jit.reports import describe, drawing, observers
from fl_jit.reports.describe import Facts
from fl_tensor import CPU
from fl_tensor.extend import render_table
from fl_tensor.graph import Node, Value

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step
    from fl_jit.traces.failure_isolation import Subtrace
    from fl_jit.traces.lazy import Trace

_clock = time.perf_counter_ns
#: Lines of the table that ``print`` shows.
_PRINTED_ROWS = 24


class Row(NamedTuple):
    """Equal steps. ``share`` is in percent of the time of the block. Rates are the bytes and
    operations of ``graph.cost`` per measured time."""

    kind: str
    work: str
    shape: str
    calls: int
    ms: float
    share: float
    gb_per_s: float
    gflop_per_s: float


class _Times:
    """Measurements of the steps of one plan: nanoseconds, calls, and the kernel library that served
    each."""

    def __init__(self, count: int) -> None:
        self.runs = 0
        self.ns = [0] * count
        self.calls = [0] * count
        self.libraries: list[str | None] = [None] * count


class profile:
    """``with ft.jit.profile() as report:`` measures the plans and traces that run in the block, in
    all threads of the process. Print the report after the block.

        rows         time by equal steps, longest first: a list of ``Row``
        wall_ms      the time of the block; the time outside of rows is Python, recording, making
                     plans, and operations that are never deferred
        plans        the plans that ran
        to_dot()     their drawing, a box for each step, redder with more time

    Blocks may nest. Times of steps are wall time, all threads of a kernel together.
    """

    def __init__(self) -> None:
        self._plans: dict[Plan, _Times] = {}
        self._calls: dict[Facts, list[int]] = {}
        self._served = threading.local()
        self._ended: int | None = None
        self._began = 0

    def __enter__(self) -> profile:
        self._began, self._ended = _clock(), None
        observers.add(self)
        registry.watchers.append(self._serves)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        observers.remove(self)
        registry.watchers.remove(self._serves)
        self._ended = _clock()

    # ---- what is watched -----------------------------------------------------------------------

    def steps(self, plan: Plan, steps: Iterable[Step]) -> Iterable[Step]:
        times = self._plans.setdefault(plan, _Times(len(plan.steps)))
        times.runs += 1
        for number, step in enumerate(steps):
            self._served.by = None
            start = _clock()
            yield step
            times.ns[number] += _clock() - start
            times.calls[number] += 1
            times.libraries[number] = self._served.by

    def calls(self, trace: Trace | Subtrace, numbers: Iterable[int]) -> Iterable[int]:
        for number in numbers:
            self._served.by = None
            start = _clock()
            yield number
            took = _clock() - start
            kind = f"call {self._served.by}" if self._served.by else "call"
            totals = self._calls.setdefault(_facts(trace, number, kind), [0, 0])
            totals[0] += 1
            totals[1] += took

    def _serves(self, library: KernelLibrary, kernel: Kernel) -> None:
        self._served.by = library.name

    # ---- what is reported ----------------------------------------------------------------------

    @property
    def plans(self) -> list[Plan]:
        """The plans that ran, in the order of their first run."""
        return list(self._plans)

    @property
    def wall_ms(self) -> float:
        """The time of the block, so far or until it ended."""
        return ((self._ended or _clock()) - self._began) / 1e6

    @property
    def rows(self) -> list[Row]:
        """The time by equal steps, longest first."""
        sums: dict[Facts, list[int]] = {k: list(v) for k, v in self._calls.items()}
        for plan, times in self._plans.items():
            for number, step in enumerate(plan.steps):
                facts = describe.of_run(step, plan, times.libraries[number])
                line = sums.setdefault(facts, [0, 0])
                line[0] += times.calls[number]
                line[1] += times.ns[number]
        wall = self.wall_ms
        rows = []
        for facts, (calls, ns) in sums.items():
            kind, work, shape, nbytes, flops = facts
            busy = max(ns, 1)
            rates = calls * nbytes / busy, calls * flops / busy
            rows.append(Row(kind, work, shape, calls, ns / 1e6, ns / 1e4 / wall, *rates))
        return sorted(rows, key=lambda row: -row.ms)

    def to_dot(self, operations: bool = False) -> str:
        """The plans that ran in Graphviz' language, with the mean time of each step.
        ``operations=True`` shows the operations of steps."""
        return drawing.dot(self.plans, [_remark(t) for t in self._plans.values()], operations)

    def __str__(self) -> str:
        rows = self.rows
        steps = sum(row.ms for row in rows)
        runs = sum(times.runs for times in self._plans.values())
        head = (
            f"{self.wall_ms:.1f} ms: {steps:.1f} in steps of {len(self._plans)} plans run {runs} "
            f"times and calls without a plan, {self.wall_ms - steps:.1f} elsewhere (Python, "
            f"recording, making plans, operations that are not deferred)"
        )
        parts = [head, "", _by_kind(rows), "", _table(rows[:_PRINTED_ROWS])]
        if rows[_PRINTED_ROWS:]:
            remaining = sum(row.ms for row in rows[_PRINTED_ROWS:])
            parts.append(f"and {len(rows) - _PRINTED_ROWS} more, {remaining:.3f} ms: see .rows")
        return "\n".join(parts)


def _by_kind(rows: list[Row]) -> str:
    totals: dict[str, tuple[int, float, float]] = {}
    for row in rows:
        calls, ms, share = totals.get(row.kind, (0, 0.0, 0.0))
        totals[row.kind] = calls + row.calls, ms + row.ms, share + row.share
    by_time = sorted(totals.items(), key=lambda item: -item[1][1])
    lines = [(kind, calls, ms, f"{share:.1f}") for kind, (calls, ms, share) in by_time]
    return render_table(("kind", "calls", "ms", "share %"), lines)


def _table(rows: list[Row]) -> str:
    head = ("operations", "kind", "shape", "calls", "ms", "share %", "GB/s", "GFLOP/s")
    cells = [(r.work, r.kind, r.shape, r.calls, r.ms, *(f"{x:.1f}" for x in r[5:])) for r in rows]
    return render_table(head, cells)


def _remark(times: _Times) -> Callable[[int], tuple[str, float]]:
    most = max(times.ns, default=0) or 1

    def remark(number: int) -> tuple[str, float]:
        calls, ns = times.calls[number], times.ns[number]
        by = f" by {times.libraries[number]}" if times.libraries[number] else ""
        return f"{ns / 1e3 / max(calls, 1):.1f} us{by}", ns / most

    return remark


def _facts(trace: Trace | Subtrace, number: int, kind: str) -> Facts:
    # The call as a node, for its cost.
    call = trace.calls[number]
    operands = []
    for i in call.operands:
        source = trace.calls[i] if i >= 0 else trace.leaves[~i]
        if hasattr(source, "dtype"):  # streams of random bits are not arrays
            operands.append(Value(i, source.shape, source.dtype, CPU))
    result = Value(number, call.shape, call.dtype, CPU)
    parameters = {"window": call.parameters[0]} if call.op.endswith("_pool") else {}
    return describe.of_node(Node(call.op, tuple(operands), parameters, (result,)), kind)
