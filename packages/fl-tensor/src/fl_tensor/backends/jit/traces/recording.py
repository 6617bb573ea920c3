"""What a trace says, as it was recorded: calls in order.

A program that trains records the same calls in every step. So a trace begins by comparing: as long
as its calls are those of a recording that began likewise, it takes that one's calls, and makes none
of its own. At the end it *is* that recording: its structure is neither hashed nor compared again,
and Python's garbage collector has a few thousand objects less to look at.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from fl_tensor.dtypes import DType


class Call(NamedTuple):
    """One operation that was put off: ``op(*operands, *parameters)``. An operand is the number of
    an earlier call, or ``~i`` for leaf i."""

    op: str
    operands: tuple[int, ...]
    parameters: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: DType


class Recording:
    """All calls of a trace. Equal to others of equal calls, and hashed once.

    ends_before: where it is a period of a loop, or what comes before one (``loops.py``), the head
    of the call that begins the next period: there the trace ends
    """

    __slots__ = ("_hash", "calls", "ends_before", "latest")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        #: What was found for it last, by whoever looks something up for recordings.
        self.latest: Any = None
        self.ends_before: Any = None
        self._hash = hash(self.calls)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Recording) and self.calls == other.calls


#: Recordings that a trace remembers, least recently used first forgotten.
MOST = 16


class Recordings:
    """The latest recording for each call that one began with."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, Recording] = OrderedDict()
        self._latest: Recording | None = None
        self._periods: OrderedDict[Any, Recording] = OrderedDict()

    def beginning(self, call: Any) -> Recording | None:
        """The recording that began so, a period of a loop first; None where none did."""
        period = self._periods.get(call) if self._periods else None
        if period is not None:
            return period
        latest = self._latest  # no hashing where the same comes again and again
        if latest is not None and latest.calls[0] == call:
            return latest
        return self._found.get(call)

    def longer(self, calls: list[Call]) -> Recording | None:
        """The latest recording that begins with these calls and goes on."""
        found, count = self._found.get(calls[0]), len(calls)
        if found is None or len(found.calls) <= count or found.calls[:count] != tuple(calls):
            return None
        return found

    def of(self, calls: list[Call], begun: Recording | None) -> Recording:
        """The recording of these calls, from now on the latest that begins so; ``begun``: one that
        has the same calls and perhaps more."""
        if begun is None or len(begun.calls) != len(calls):
            begun = Recording(calls)
        if begun is not self._latest:
            self._latest = begun
            if begun.ends_before is None:
                _put(self._found, begun)
        return begun

    def keep(self, period: Recording, ends_before: Any) -> None:
        """Remember that this is a period of a loop, or what comes before one."""
        if period.ends_before is None:
            self._found.pop(period.calls[0], None)
        period.ends_before = ends_before
        _put(self._periods, period)

    def forget_periods(self) -> None:
        """Whatever begins like a period is none."""
        self._periods.clear()


def _put(found: OrderedDict[Any, Recording], recording: Recording) -> None:
    first = recording.calls[0]
    found[first] = recording
    found.move_to_end(first)
    if len(found) > MOST:
        found.popitem(last=False)
