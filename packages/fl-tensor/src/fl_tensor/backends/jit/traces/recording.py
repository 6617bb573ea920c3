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
    """All calls of a trace. Equal to others of equal calls, and hashed once."""

    __slots__ = ("_hash", "calls", "latest")

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        #: What was found for it last, by whoever looks something up for recordings.
        self.latest: Any = None
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

    def beginning(self, call: Any) -> Recording | None:
        """The recording that began so; None where none did."""
        latest = self._latest  # no hashing where the same comes again and again
        if latest is not None and latest.calls[0] == call:
            return latest
        return self._found.get(call)

    def of(self, calls: list[Call], begun: Recording | None) -> Recording:
        """The recording of these calls, from now on the latest that begins so; ``begun``: one that
        has the same calls and perhaps more."""
        if begun is None or len(begun.calls) != len(calls):
            begun = Recording(calls)
        if begun is self._latest:
            return begun
        self._latest = begun
        first = begun.calls[0]
        self._found[first] = begun
        self._found.move_to_end(first)
        if len(self._found) > MOST:
            self._found.popitem(last=False)
        return begun
