"""Plans under compilation, in the foreground or in the background."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fl_jit.eager.views import outline
from fl_jit.planning import background
from fl_jit.planning.deferral_policy import SAVED
from fl_jit.planning.translate import Translation
from fl_jit.traces.lazy import Stream
from fl_jit.traces.prepacked import storage_of
from fl_tensor.extend.numpy import NumpyAdapter

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan
    from fl_jit.traces.lazy import Trace


class JitWarning(RuntimeWarning):
    """A warning that a computation is correct but slower, since its plan could not be made."""


class PlanFuture:
    """The plan of a trace, finished or under compilation. Until it is finished it holds no data:
    only shape, dtype and strides of operand arrays.

    plan, error  one of them, when it is finished
    pays         whether the plan is faster even where operations are light (deferral policy)
    grace        how many more times the trace is interpreted, so that no run waits
    elements     of its operations (deferral policy)
    used         the time of the last request, by the clock of the plan cache
    reported     whether a warning about the error was issued
    """

    plan: Plan | None = None
    error: Exception | None = None
    pays = False
    grace = 0
    used = 0
    reported = False

    def __init__(
        self,
        trace: Trace,
        seen: list[bool],
        make: Callable[[Translation, list[Any]], Plan],
        elements: int,
    ) -> None:
        self.elements = elements
        leaves = [_outlined(leaf) for leaf in trace.leaves]
        self._request: Any = trace.calls, leaves, seen, make
        self._done = threading.Event()
        self._process = os.getpid()

    def run(self) -> None:
        """Compile the plan now. Raises only interrupts, such as KeyboardInterrupt."""
        calls, leaves, seen, make = self._request
        try:
            plan = make(Translation(calls, leaves, seen), leaves)
            own = any("." in call.op for call in calls)  # their kernel is used in any case
            self.pays = own or len(calls) - len(plan.steps) >= SAVED
            self.plan = plan
        except Exception as error:
            self.error = error
        self._done.set()
        self._request = None

    def submit(self, grace: int) -> None:
        """Compile the plan in the background."""
        self.grace = grace
        self._process = os.getpid()
        try:
            background.submit(self._run_alone)
        except RuntimeError as error:  # no more threads
            self.error = error
            self._done.set()

    def _run_alone(self) -> None:
        # An exception that would end the thread, such as SystemExit of a kernel factory, ends only
        # this compilation.
        try:
            self.run()
        except BaseException:
            self.interrupted()

    def interrupted(self) -> None:
        """Mark the compilation as interrupted, so that waiting threads continue."""
        self.error = RuntimeError("interrupted")
        self._done.set()

    def wait(self) -> None:
        """Return when the plan is finished."""
        if not self._done.is_set() and self._process != os.getpid():
            # The compiling thread belongs to the process before a fork, and so may the lock inside
            # the event.
            self._process, self._done = os.getpid(), threading.Event()
            self.run()
        self._done.wait()


def _outlined(leaf: Any) -> Any:
    if leaf.__class__ is Stream or not leaf.shape:
        return leaf
    return NumpyAdapter(outline(storage_of(leaf)), leaf.dtype)
