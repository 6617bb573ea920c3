"""Recordings: the call sequences of traces, matched and reused across steps.

A training program records the same calls in every step. So a new trace is compared with a recording
that has the same first call. As long as the calls are equal, the trace shares that recording's
calls, and makes none of its own. At its end it has the recording itself as structure: there is no
further hash or comparison. Python's garbage collector also has a few thousand objects less to
visit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from fl_tensor.dtypes import DType


class Call(NamedTuple):
    """One deferred operation: ``op(*operands, *parameters)``. An operand is the number of an
    earlier call, or ``~i`` for leaf i."""

    op: str
    operands: tuple[int, ...]
    parameters: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: DType


class Recording:
    """All calls of a trace. Equal to recordings of equal calls; the hash is cached.

    ends_before: for a period of a loop, or the calls before one (``loop_detection.py``), the head
    of the call that begins the next period: there the trace ends
    """

    __slots__ = ("_hash", "calls", "ends_before", "latest", "operations")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        #: The last cache entry that was found for it.
        self.latest: Any = None
        self.ends_before: Any = None
        self._hash = hash(self.calls)
        #: Equal for recordings of the same operations on other shapes.
        self.operations = hash(tuple([(op, operands) for op, operands, *_ in self.calls]))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Recording) and self.calls == other.calls


#: The capacity for recordings, LRU; and for periods of loops that begin with the same call.
MOST, MOST_ALIKE = 16, 4


class Recordings:
    """The latest recording for each first call."""

    def __init__(self) -> None:
        self._by_first_call: OrderedDict[Any, Recording] = OrderedDict()
        self._latest: Recording | None = None
        self._periods: OrderedDict[Any, list[Recording]] = OrderedDict()

    def beginning(self, call: Any) -> Recording | None:
        """The recording with this first call, preferably a period of a loop; None without one."""
        periods = self._periods.get(call) if self._periods else None
        if periods:
            return periods[-1]
        latest = self._latest  # a repeated recording needs no hash
        if latest is not None and latest.calls[0] == call:
            return latest
        return self._by_first_call.get(call)

    def other(
        self, match: Recording, calls: Sequence[Call], more: Sequence[Call]
    ) -> Recording | None:
        """Another recording than ``begun`` that begins with these calls, and goes on with ``more``
        if that is not empty."""
        first, count = match.calls[0], len(calls) + len(more)
        for recording in (self._by_first_call.get(first), *reversed(self._periods.get(first, ()))):
            if recording is None or recording is match:
                continue
            if len(recording.calls) > count - bool(more):
                if recording.calls[:count] == (*calls, *more):
                    return recording
        return None

    def of(self, calls: list[Call], match: Recording | None) -> Recording:
        """The recording of these calls, which becomes the latest with its first call. ``begun``:
        one with the same calls, and perhaps more."""
        if match is None or len(match.calls) != len(calls):
            match = Recording(calls)
        if match is not self._latest:
            self._latest = match
            if match.ends_before is None:
                first = match.calls[0]
                self._by_first_call[first] = match
                self._by_first_call.move_to_end(first)
                if len(self._by_first_call) > MOST:
                    self._by_first_call.popitem(last=False)
        return match

    def add_period(self, period: Recording, ends_before: Any) -> None:
        """Mark a recording as a period of a loop, or as the calls before one."""
        first = period.calls[0]
        if period.ends_before is None:
            self._by_first_call.pop(first, None)
        period.ends_before = ends_before
        known = self._periods.setdefault(first, [])
        self._periods.move_to_end(first)
        if period not in known:
            known.append(period)
            del known[:-MOST_ALIKE]
        if len(self._periods) > MOST:
            self._periods.popitem(last=False)

    def forget_periods(self) -> None:
        """Forget all periods: traces that begin like one do not end with it any more."""
        self._periods.clear()
        if self._latest is not None and self._latest.ends_before is not None:
            self._latest = None
