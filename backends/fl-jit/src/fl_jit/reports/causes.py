"""The causes of memory requests of deferred calls (``fl_memory.observe``).

A call runs later than it was recorded. So the trace notes the cause of each recording, and what
runs the calls sets it again: for each interpreted call, and for each step of a plan. A step that
computes several calls has the cause of the last one. Of a call that was recorded while nobody
observed, the operation alone is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fl_memory.causes import CURRENT, Cause

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step
    from fl_jit.traces.failure_isolation import Subtrace
    from fl_jit.traces.lazy import Trace

#: Of calls that were recorded while nobody observed.
NO_CAUSES: Mapping[int, Cause] = MappingProxyType({})


def named_calls(trace: Trace | Subtrace, numbers: Iterable[int]) -> Iterator[int]:
    """The numbers of calls to interpret. While one is interpreted, its cause is set."""
    causes = getattr(trace, "causes", NO_CAUSES)  # a Subtrace has none
    for number in numbers:
        CURRENT.set(causes.get(number) or Cause(trace.calls[number].op))
        yield number


def named_steps(plan: Plan, steps: Iterable[Step], causes: Mapping[int, Cause]) -> Iterator[Step]:
    """The steps to run. While one runs, the cause of its last call is set."""
    for step, number in zip(steps, plan.last_calls, strict=True):
        CURRENT.set(causes.get(number) or Cause(step.nodes[-1].op))
        yield step


def last_calls(plan: Plan) -> list[int]:
    """The number of the last call that each step computes. A step of values that passes have made
    is given to the step before; -1 at the beginning."""
    first, number, found = plan.first_result, -1, []
    for step in plan.steps:
        calls = [value.id - first for node in step.nodes for value in node.outputs]
        number = max((i for i in calls if 0 <= i < plan.call_count), default=number)
        found.append(number)
    return found
