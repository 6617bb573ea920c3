"""The flight recorder: the last collectives of a rank, printed when an operation times out."""

from __future__ import annotations

import time
from collections import deque

from fl_dist.call import Call, Signature, describe
from fl_dist.errors import DistTimeoutError

LENGTH = 100


class Entry:
    """One collective: ``number``, ``description``, and when it ``started`` and ``ended`` (seconds
    since 1970; None while it is under way)."""

    __slots__ = ("ended", "number", "signature", "started")

    def __init__(self, number: int, signature: Signature) -> None:
        self.number = number
        self.signature = signature
        self.started = time.time()
        self.ended: float | None = None

    @property
    def description(self) -> str:
        return describe(self.signature, self.number)

    def end(self) -> None:
        self.ended = time.time()

    def __str__(self) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(self.started))
        clock += f"{self.started % 1:.3f}"[1:]
        if self.ended is None:
            return f"{clock}  under way {time.time() - self.started:9.3f} s  {self.description}"
        return f"{clock}  took {self.ended - self.started:14.3f} s  {self.description}"


class FlightRecorder:
    """The last ``LENGTH`` collectives of one rank, in the order of their calls."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._entries: deque[Entry] = deque(maxlen=LENGTH)

    def begin(self, call: Call) -> Entry | None:
        """The entry of a collective; messages have none."""
        if not call.number:
            return None
        entry = Entry(call.number, call.signature)
        self._entries.append(entry)
        return entry

    def entries(self) -> list[Entry]:
        return list(self._entries)

    def __str__(self) -> str:
        lines = "".join(f"\n  {entry}" for entry in self.entries())
        return f"rank {self.rank}: the last collectives{lines or ': none'}"

    def report(self, error: DistTimeoutError) -> None:
        """Print the record, once per error."""
        import logging  # late: only a timeout needs it

        logging.getLogger("fl_dist").warning("%s\n%s", error, self)
