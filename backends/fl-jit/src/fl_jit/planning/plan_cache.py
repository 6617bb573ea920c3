"""The plan cache, and the choice between interpreting a trace and running its plan.

A trace is interpreted, call by call, when its structure is new. It runs by a plan when it is heavy
or its structure was repeated. A plan rounds differently from single calls. So the switch depends on
the number of runs, and not on compile time: a program returns the same bits in every run. Under
``ft.reproducible`` results must not depend on earlier runs either. There the work in a trace alone
decides.
"""

from __future__ import annotations

import itertools
import operator
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from fl_jit.eager.views import strides_of
from fl_jit.extensions import registry
from fl_jit.passes import layout_assignment
from fl_jit.planning.deferral_policy import DeferralPolicy, elements, is_heavy, is_planned_by_rule
from fl_jit.planning.plan import Plan
from fl_jit.planning.plan_future import JitWarning, PlanFuture
from fl_jit.planning.translate import Translation
from fl_jit.steps import lower
from fl_jit.steps.interpret import interpret, last_uses
from fl_jit.traces.lazy import Lazy, Stream, Trace
from fl_jit.traces.prepacked import storage_of
from fl_jit.traces.recording import Recording
from fl_memory import free_after_fork
from fl_tensor.extend import is_reproducible, settings
from fl_tensor.extend.numpy import Number, NumpyAdapter, memory
from fl_tensor.graph import Node

#: Capacities of the plan cache and of the counts of structures, both LRU. With more alternating
#: structures than plans, each run would find its plan evicted. So a plan is evicted only for a
#: structure that was counted since the plan last ran. The other structures are interpreted.
CAPACITY = 256
COUNTED = 4096
#: How many times a trace is interpreted while its plan is compiled in the background.
WARMUP_RUNS = 8
#: Operations counted more often than this, over all shapes, are planned in the background again.
RECURRING = 64


class Structure(NamedTuple):
    """The key of the plan cache: the calls, the live results, the layouts of leaves, the version of
    the registered extensions, and the ``reproducible`` setting. Under ``reproducible`` weights stay
    in C order."""

    recording: Recording
    seen: tuple[bool, ...]
    leaves: tuple[Any, ...]
    version: int
    reproducible: bool


class PlanCache:
    """The plans of a backend.

    compile_after  the plan is made at this run of a structure (1: at the first run). Strides do not
                   count here: weights with another layout after a step are not a new structure
    background     plans are compiled in the background, while traces are interpreted
                   ``WARMUP_RUNS`` times; False: at once. Plans of heavy traces are always made at
                   once, and so are those of operations that recur with other shapes: interpreting
                   takes longer than compiling
    policy         receives the outcome of each trace
    """

    def __init__(
        self,
        eager: Any,
        fusible: Callable[[Node], bool] | None = None,
        policy: DeferralPolicy | None = None,
    ) -> None:
        self.eager = eager
        self.fusible = fusible or lower.fusible
        self.compile_after = settings.number(
            "FL_JIT_COMPILE_AFTER", 2, 1, former="FL_JIT_SIGHTINGS"
        )
        self.background = settings.switch("FL_JIT_BACKGROUND", True) and self.compile_after > 1
        self.policy = policy or DeferralPolicy()
        if self.compile_after == 1:
            self.policy.patience = 0
        self._lock = free_after_fork(threading.Lock())
        self._plans: dict[Structure, PlanFuture] = {}
        self._clock = itertools.count(1)
        self._counts: OrderedDict[int, tuple[int, int]] = OrderedDict()  # count, last run
        self._operations: OrderedDict[int, int] = OrderedDict()  # counts, by Recording.operations

    def execute(self, trace: Trace, seen: list[bool]) -> None:
        """Compute the live results of ``trace``, marked by ``seen``."""
        future = self._plan_future(trace, seen)
        if future is None:
            interpret(self.eager, trace, seen)
            return
        if future.plan is None:
            future.wait()
        plan = future.plan
        if plan is None:
            interpret(self.eager, trace, seen)
            self.policy.record_no_gain(len(trace.calls), future.elements)
            self._report(future, trace)
            return
        plan.run(trace.leaves, trace.results, trace.causes)
        if future.pays or plan.reads_prepacked:
            self.policy.record_gain()
        else:
            self.policy.record_no_gain(len(trace.calls), future.elements)

    def _plan_future(self, trace: Trace, seen: list[bool]) -> PlanFuture | None:
        # The plan that computes this trace, or None where it is interpreted.
        by_rule = is_reproducible() and self.compile_after > 1
        if by_rule:
            # Only live calls count: a resumed model has drawn weights that nothing reads.
            needed = last_uses(trace.calls, seen)
            if not is_planned_by_rule(elements(trace.calls, trace.leaves, needed)):
                return None
            trace.leaves = [_in_order(leaf) for leaf in trace.leaves]
        key = structure(trace, seen)
        future = self._planned(key)
        if future is None:
            return self._count(key, trace, seen, by_rule)
        future.used = next(self._clock)
        if future.grace and not by_rule:
            future.grace -= 1
            return None
        return future

    def _planned(self, key: Structure) -> PlanFuture | None:
        # A comparison with the last structure of the recording is cheaper than a hash.
        recording = key.recording
        latest = recording.latest
        if latest is not None and latest[:-1] == key[1:]:
            return latest[-1]
        with self._lock:
            found = self._plans.get(key)
        if found is not None:
            recording.latest = *key[1:], found
        elif latest is not None and recording.ends_before is not None and not key.reproducible:
            # The last iteration of a loop: variables of its body are dead.
            seen, *rest, future = latest
            if tuple(rest) == key[2:] and not any(map(operator.gt, key.seen, seen)):
                return future
        return found

    def _count(
        self, key: Structure, trace: Trace, seen: list[bool], at_once: bool
    ) -> PlanFuture | None:
        # Count a structure without a plan; its plan is started when the count suffices.
        size = elements(trace.calls, trace.leaves)
        at_once = at_once or self.compile_after == 1 or is_heavy(len(trace.calls), size)
        if trace.is_once and not at_once:
            return None
        counted = hash((key.recording, key.seen, key.version))
        with self._lock:
            count, before = self._counts.get(counted, (0, 0))
            self._counts[counted] = count + 1, next(self._clock)
            self._counts.move_to_end(counted)
            if len(self._counts) > COUNTED:
                self._counts.popitem(last=False)
            varies = self._count_operations(key.recording.operations)
            full = len(self._plans) >= CAPACITY
            since = min(self._plans.values(), key=_used).used if full else 0
        if not at_once and (count + 1 < self.compile_after or before < since):
            self.policy.record_no_gain(len(trace.calls), size)
            return None
        future = PlanFuture(trace, seen, self._make, size)
        future.used = next(self._clock)
        try:
            with self._lock:
                self._plans[key] = future
                if len(self._plans) > CAPACITY:
                    self._forget(min(self._plans, key=lambda key: self._plans[key].used))
            if at_once or varies or not self.background:
                future.run()
                return future
            future.submit(WARMUP_RUNS - 1)
        except BaseException:  # it is made at the next run
            future.interrupted()
            with self._lock:
                self._forget(key)
            raise
        return None

    def _count_operations(self, operations: int) -> bool:
        # Whether the same operations were counted for several structures before: shapes change from
        # run to run, and come again. Kernels of other shapes serve a new plan, so compiling takes
        # less than interpreting the trace ``WARMUP_RUNS`` times. With many shapes each one is rare,
        # and its plan is made in the background. The caller has the lock.
        count = self._operations[operations] = self._operations.get(operations, 0) + 1
        self._operations.move_to_end(operations)
        if len(self._operations) > COUNTED:
            self._operations.popitem(last=False)
        return WARMUP_RUNS < count <= RECURRING

    def _forget(self, key: Structure) -> None:
        self._plans.pop(key, None)
        key.recording.latest = None

    def _make(self, translation: Translation, leaves: list[Any]) -> Plan:
        return Plan(translation, leaves, self.eager, self.fusible)

    def _report(self, future: PlanFuture, trace: Trace) -> None:
        # Warns once that there is no plan.
        error = future.error
        if not future.reported:
            future.reported = True
            warnings.warn(
                f"a computation of {len(trace.calls)} operations runs one by one from now on, "
                f"because its plan could not be made: {type(error).__name__}: {error}",
                JitWarning,
                stacklevel=2,
            )

    def wait(self) -> None:
        """Return when no plan is being compiled. All plans are used from then on."""
        for future in self._all():
            future.wait()
            future.grace = 0

    def entries(self) -> list[Plan]:
        """The plans in the cache, least recently used first."""
        return [future.plan for future in self._all() if future.plan is not None]

    def _all(self) -> list[PlanFuture]:
        with self._lock:
            return sorted(self._plans.values(), key=_used)


def _used(future: PlanFuture) -> int:
    return future.used


def structure(trace: Trace, seen: list[bool]) -> Structure:
    """The structure of ``trace`` in its current state."""
    kinds: list[Any] = []
    for leaf in trace.leaves:
        kind = leaf.__class__
        if kind is Number:
            kinds.append(leaf.dtype)
        elif kind is Stream:
            kinds.append(None)
        else:
            packed = kind is Lazy and leaf.trace is not None
            array = storage_of(leaf) if packed else leaf.array
            shape = array.shape
            kinds.append((leaf.dtype, shape, array.strides) if shape else leaf.dtype)
    version = registry.current().version
    found = trace.recording(), tuple(seen), tuple(kinds), version, is_reproducible()
    return tuple.__new__(Structure, found)  # faster than the constructor


def _in_order(leaf: Any) -> Any:
    # Weights have C order when read from a file, but perhaps not after a step.
    if leaf.__class__ is Stream or not leaf.shape:
        return leaf
    array = leaf.array
    if (
        array.flags.c_contiguous
        or layout_assignment.order_of(leaf.shape, strides_of(array)) is None
    ):
        return leaf
    return NumpyAdapter(memory.cast(array, array.dtype), leaf.dtype)
