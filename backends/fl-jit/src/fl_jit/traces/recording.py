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


#: Recordings that a trace remembers, least recently used first forgotten; and periods of loops
#: that begin with the same call.
MOST, MOST_ALIKE = 16, 4


class Recordings:
    """The latest recording for each call that one began with."""

    def __init__(self) -> None:
        self._found: OrderedDict[Any, Recording] = OrderedDict()
        self._latest: Recording | None = None
        self._periods: OrderedDict[Any, list[Recording]] = OrderedDict()

    def beginning(self, call: Any) -> Recording | None:
        """The recording that began so, a period of a loop first; None where none did."""
        periods = self._periods.get(call) if self._periods else None
        if periods:
            return periods[-1]
        latest = self._latest  # no hashing where the same comes again and again
        if latest is not None and latest.calls[0] == call:
            return latest
        return self._found.get(call)

    def other(
        self, begun: Recording, calls: Sequence[Call], more: Sequence[Call]
    ) -> Recording | None:
        """Another recording than ``begun`` that begins with these calls and goes on, with ``more``
        where that is known."""
        first = begun.calls[0]
        known = [*self._periods.get(first, ()), self._found.get(first)]
        for found in reversed(known):
            if found is None or found is begun:
                continue
            count = len(calls) + len(more)
            if len(found.calls) > count - bool(more) and found.calls[:count] == (*calls, *more):
                return found
        return None

    def of(self, calls: list[Call], begun: Recording | None) -> Recording:
        """The recording of these calls, from now on the latest that begins so; ``begun``: one that
        has the same calls and perhaps more."""
        if begun is None or len(begun.calls) != len(calls):
            begun = Recording(calls)
        if begun is not self._latest:
            self._latest = begun
            if begun.ends_before is None:
                first = begun.calls[0]
                self._found[first] = begun
                self._found.move_to_end(first)
                if len(self._found) > MOST:
                    self._found.popitem(last=False)
        return begun

    def keep(self, period: Recording, ends_before: Any) -> None:
        """Remember that this is a period of a loop, or what comes before one."""
        first = period.calls[0]
        if period.ends_before is None:
            self._found.pop(first, None)
        period.ends_before = ends_before
        known = self._periods.setdefault(first, [])
        self._periods.move_to_end(first)
        if period not in known:
            known.append(period)
            del known[:-MOST_ALIKE]
        if len(self._periods) > MOST:
            self._periods.popitem(last=False)

    def forget_periods(self) -> None:
        """What begins like a period is none from now on."""
        self._periods.clear()
        if self._latest is not None and self._latest.ends_before is not None:
            self._latest = None
