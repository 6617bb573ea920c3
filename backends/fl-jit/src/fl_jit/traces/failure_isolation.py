"""Values whose computation failed: each is tried again alone, when it is read.

A trace computes many values together. Where that fails, for want of memory most often, each value
that is still missing keeps the calls that it needs, and the trace is done with it. Values that do
not depend on what failed are computed so; for the others it is tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from fl_jit.traces.recording import Call
from fl_memory import selection
from fl_memory.forks import free_after_fork
from fl_tensor.reproducible import reproducible

if TYPE_CHECKING:
    from fl_jit.traces.lazy import Lazy


class Part(NamedTuple):
    """The calls that a result needs, of which it is the last; otherwise as in a trace."""

    calls: list[Call]
    leaves: list[Any]
    results: list[Lazy | None]


class Alone:
    """What such a value waits for (``Lazy.trace``). ``interpret(part, seen)`` runs calls one by
    one; ``failed``: the value needs what has failed. It refers to no value, so that values nobody
    needs any more are freed at once."""

    def __init__(
        self,
        part: Part,
        interpret: Callable[[Part, list[bool]], None],
        manager: Any,
        exactly: bool,
        failed: bool,
    ) -> None:
        self.failed = failed
        self._lock = free_after_fork(threading.RLock())
        self._calls, self._leaves = part.calls, part.leaves
        self._interpret = interpret
        self._manager, self._reproducible = manager, exactly

    def compute(self, x: Lazy) -> None:
        """Give ``x`` its array; raises what the computation raises, and may be tried again."""
        with self._lock:
            if x.trace is not self:
                return
            unseen = len(self._calls) - 1
            part = Part(self._calls, self._leaves, [*[None] * unseen, x])
            try:
                with selection.use(self._manager), reproducible(self._reproducible):
                    self._interpret(part, [*[False] * unseen, True])
            except MemoryError:
                x.trace = self
                raise
            x.trace = None


class Failed:
    """What values wait for whose computation has failed with ``error``."""

    failed = True

    def __init__(self, error: Exception) -> None:
        self._error, self._traceback = error, error.__traceback__

    def compute(self, x: Lazy) -> NoReturn:
        """Raise the error, as it was raised first."""
        raise self._error.with_traceback(self._traceback)


def fail(results: Sequence[Lazy | None], numbers: Iterable[int], error: Exception) -> None:
    """Note that these results need what failed with ``error``."""
    failed = Failed(error)
    for number in numbers:
        x = results[number]
        if x is not None:
            x.trace = failed


def part_of(number: int, calls: Sequence[Call], leaves: Sequence[Any]) -> Part:
    """The calls that result ``number`` needs, with their leaves."""
    needed, found = {number}, [number]
    while found:
        for i in calls[found.pop()].operands:
            if i >= 0 and i not in needed:
                needed.add(i)
                found.append(i)
    places: dict[int, int] = {}
    kept: list[Call] = []
    held: list[Any] = []
    for old in sorted(needed):
        for i in calls[old].operands:
            if i < 0 and i not in places:
                places[i] = ~len(held)
                held.append(leaves[~i])
        places[old] = len(kept)
        kept.append(calls[old]._replace(operands=tuple([places[i] for i in calls[old].operands])))
    return Part(kept, held, [])
