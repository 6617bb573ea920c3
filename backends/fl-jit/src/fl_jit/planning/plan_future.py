"""Plans that are being made, now or in the background."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fl_jit.eager.prepacked import storage_of
from fl_jit.planning import background
from fl_jit.planning.deferral_policy import SAVED
from fl_jit.planning.translate import Translation
from fl_jit.traces.lazy import Stream
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.backends.numpy.views import outline

if TYPE_CHECKING:
    from fl_jit.planning.plan import Plan
    from fl_jit.traces.lazy import Trace


class JitWarning(RuntimeWarning):
    """Something is computed as it should be, but slower, since a plan could not be made."""


class PlanFuture:
    """The plan of a trace, made or being made. Until it is, it keeps no data: of arrays that are
    operands only shape, dtype and strides.

    plan, error  one of them, when it is done
    pays         whether the plan is faster even where operations are light (``worth``)
    grace        how many more times the trace is run without it, so that nobody waits
    elements     of its operations (``worth``)
    used         when it was asked for last, by a clock of whoever keeps it
    reported     whether a user was told of the error
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
        made: Callable[[Translation, list[Any]], Plan],
        elements: int,
    ) -> None:
        self.elements = elements
        leaves = [_outlined(leaf) for leaf in trace.leaves]
        self._given: Any = trace.calls, leaves, seen, made
        self._done = threading.Event()
        self._process = os.getpid()

    def run(self) -> None:
        """Make it now; raises nothing but what interrupts it."""
        calls, leaves, seen, made = self._given
        try:
            plan = made(Translation(calls, leaves, seen), leaves)
            own = any("." in call.op for call in calls)  # whose kernel is wanted anyway
            self.pays = own or len(calls) - len(plan.steps) >= SAVED
            self.plan = plan
        except Exception as error:
            self.error = error
        self._done.set()
        self._given = None

    def submit(self, grace: int) -> None:
        """Make it in the background."""
        self.grace = grace
        self._process = os.getpid()
        try:
            background.submit(self._run_alone)
        except RuntimeError as error:  # no more threads
            self.error = error
            self._done.set()

    def _run_alone(self) -> None:
        # What would end the thread, as SystemExit from a maker of kernels, ends the making alone.
        try:
            self.run()
        except BaseException:
            self.interrupted()

    def interrupted(self) -> None:
        """Whoever was to make it was interrupted: nobody waits for it any more."""
        self.error = RuntimeError("interrupted")
        self._done.set()

    def wait(self) -> None:
        """Return when it is done."""
        if not self._done.is_set() and self._process != os.getpid():
            # The thread that was making it belongs to the process before a fork, and so may the
            # lock inside the event.
            self._process, self._done = os.getpid(), threading.Event()
            self.run()
        self._done.wait()


def _outlined(leaf: Any) -> Any:
    if leaf.__class__ is Stream or not leaf.shape:
        return leaf
    return NumpyAdapter(outline(storage_of(leaf)), leaf.dtype)
