"""Observers of running plans and traces, such as profilers. Without observers, a run costs one
test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan, Step
    from fl_jit.traces.failure_isolation import Subtrace
    from fl_jit.traces.lazy import Trace


class Observer(Protocol):
    """The loop that runs steps or calls iterates through an observer, which yields what it is
    given."""

    def steps(self, plan: Plan, steps: Iterable[Step]) -> Iterable[Step]: ...

    def calls(self, trace: Trace | Subtrace, numbers: Iterable[int]) -> Iterable[int]: ...


#: The observers of the whole process.
watchers: tuple[Observer, ...] = ()


def steps(plan: Plan) -> Iterable[Step]:
    """The steps of ``plan``, which the caller runs one by one."""
    observed: Iterable[Step] = plan.steps
    for observer in watchers:
        observed = observer.steps(plan, observed)
    return observed


def calls(trace: Trace | Subtrace, numbers: Iterable[int]) -> Iterable[int]:
    """The numbers of calls that the caller runs one by one without a plan."""
    for observer in watchers:
        numbers = observer.calls(trace, numbers)
    return numbers


def add(observer: Observer) -> None:
    global watchers
    watchers = (*watchers, observer)


def remove(observer: Observer) -> None:
    global watchers
    watchers = tuple(w for w in watchers if w is not observer)
