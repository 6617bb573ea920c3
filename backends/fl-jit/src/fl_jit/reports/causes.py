"""The causes of memory requests of deferred calls (``fl_memory.observe``).

A call runs later than it was recorded. So the trace notes the cause of each recording, and what
runs the calls sets it again: for each interpreted call, and for each step of a plan. A step that
computes several calls has the cause of its largest result. Of a call that was recorded while nobody
observed, the operation alone is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fl_memory.causes import CURRENT, Cause
from fl_tensor.graph.cost import size

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step
    from fl_jit.traces.failure_isolation import Subtrace
    from fl_jit.traces.lazy import Trace
    from fl_tensor.graph import Value

#: Of calls that were recorded while nobody observed.
NO_CAUSES: Mapping[int, Cause] = MappingProxyType({})


def named_calls(trace: Trace | Subtrace, numbers: Iterable[int]) -> Iterator[int]:
    """The numbers of calls to interpret. While one is interpreted, its cause is set."""
    causes = getattr(trace, "causes", NO_CAUSES)  # a Subtrace has none
    for number in numbers:
        CURRENT.set(causes.get(number) or Cause(trace.calls[number].op))
        yield number


def named_steps(plan: Plan, steps: Iterable[Step], causes: Mapping[int, Cause]) -> Iterator[Step]:
    """The steps to run. While one runs, the cause of its call is set."""
    for step, number in zip(steps, plan.naming_calls, strict=True):
        CURRENT.set(causes.get(number) or Cause(step.nodes[-1].op))
        yield step


def calls_of(plan: Plan) -> list[int]:
    """The number of the call that names each step: that of the largest result, the last one of
    equals. -1 where it belongs to no call."""
    numbers = _numbers(plan)
    found = []
    for step in plan.steps:
        written = set(step.roots)
        made = [v for node in step.nodes for v in node.outputs if v in written]
        _, number = max(((size(v), numbers.get(v, -1)) for v in made), default=(0, -1))
        found.append(number)
    return found


def _numbers(plan: Plan) -> dict[Value, int]:
    """The number of the call to which each value belongs. Passes make new values, in another layout
    for example: these belong to the first call that needs them."""
    found: dict[Value, int] = {}
    for node in reversed(plan.graph.nodes):
        for value in node.outputs:
            number = value.id - plan.first_result
            if 0 <= number < plan.call_count:
                found[value] = number
        of_node = min((found[v] for v in node.outputs if v in found), default=-1)
        if of_node >= 0:
            for value in node.operands:
                found[value] = min(of_node, found.get(value, of_node))
    return found
