"""Execution of a detected loop (``loop_detection.py``), period by period.

Each period is recorded again as a trace of its own. Results that later periods read become leaves
of those, as if the program had evaluated them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_jit.traces.loop_detection import Loop, head_of
from fl_tensor.graph import interrupts

if TYPE_CHECKING:
    from fl_jit.traces.lazy import Trace


def run(trace: Trace, loop: Loop) -> None:
    """Run the calls before the loop and all whole periods. The rest stays in the trace. On an error
    the missing values are isolated, as by ``Trace.run``. Control-C is delayed."""
    interrupts.hold()
    try:
        _run(trace, loop)
    finally:
        interrupts.release()


def _run(trace: Trace, loop: Loop) -> None:
    periods = _Periods(trace)
    count, begin = len(periods.calls), 0
    head = head_of(periods.calls[loop.start])
    for end in range(loop.start or loop.period, count + 1, loop.period):
        periods.record(begin, end, begin)
        try:
            error = trace.close(head)
        except BaseException:  # a second Control-C
            periods.record(end, count, begin if trace.calls else end)
            raise
        begin = end
        if error is not None:
            periods.record(begin, count, begin)
            trace.isolate(error)
            return
    periods.record(begin, count, begin)


class _Periods:
    """The calls of a trace, to be recorded again. References to operands are dropped as soon as the
    last reader is recorded, so that results may reuse their memory."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._causes = trace.causes
        self.calls, self._results, self._leaves, templates = trace.take()
        self._carried: dict[int, Any] = {}  # results that later periods read
        self._last_readers: dict[int, int] = {}  # the last call that reads an operand
        for number, call in enumerate(self.calls):
            for i in call.operands:
                self._last_readers[i] = number
        self._template_operands = {first: given for first, _, given in templates}
        for _, end, given in templates:
            for i in given:
                self._last_readers[i] = max(self._last_readers.get(i, 0), end - 1)

    def record(self, begin: int, end: int, base: int) -> None:
        """Record these calls; call ``base`` is the first one in the trace."""
        for number in range(begin, end):
            for i in self._template_operands.get(number, ()):  # operands are numbered as there
                self._number(i, base)
            call = self.calls[number]
            operands = tuple([self._number(i, base) for i in call.operands])
            is_read = self._last_readers.get(number, 0) >= end
            if number in self._causes:
                self._trace.causes[len(self._trace.calls)] = self._causes[number]
            made = self._trace.append(call._replace(operands=operands), self._take(number), is_read)
            if is_read:
                self._carried[number] = made
        for i in [i for i in self._carried if self._last_readers[i] < end]:
            del self._carried[i]
        for leaf in range(len(self._leaves)):
            if self._last_readers.get(~leaf, 0) < end:
                self._leaves[leaf] = None

    def _take(self, number: int) -> Any:
        made, self._results[number] = self._results[number], None
        return made

    def _number(self, i: int, base: int) -> int:
        if i >= base:
            return i - base
        return self._trace.leaf(self._carried[i] if i >= 0 else self._leaves[~i])
