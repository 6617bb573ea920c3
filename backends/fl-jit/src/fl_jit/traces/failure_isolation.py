"""Isolation of failures: a value whose computation failed is recomputed alone when it is read.

A trace computes many values together. If that fails, usually for lack of memory, each missing value
keeps the calls that it depends on, and leaves the trace. Values that do not depend on the failed
call are then computed. For the others the computation is tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from fl_jit.traces.recording import Call
from fl_memory import free_after_fork, selection
from fl_tensor import reproducible

if TYPE_CHECKING:
    from fl_jit.traces.lazy import Lazy


class Subtrace(NamedTuple):
    """The calls that a result depends on, the last of which computes it; otherwise as in a
    trace."""

    calls: list[Call]
    leaves: list[Any]
    results: list[Lazy | None]


class IsolatedValue:
    """The pending computation of an isolated value (``Lazy.trace``). ``interpret(part, live)`` runs
    calls one by one. ``failed``: the value depends on the failed call. The object refers to no
    value, so that unused values are freed at once."""

    def __init__(
        self,
        part: Subtrace,
        interpret: Callable[[Subtrace, list[bool]], None],
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
        """Store the array of ``x``. Raises the exception of the computation, which may be tried
        again."""
        with self._lock:
            if x.trace is not self:
                return
            earlier = len(self._calls) - 1
            part = Subtrace(self._calls, self._leaves, [*[None] * earlier, x])
            try:
                with selection.use(self._manager), reproducible(self._reproducible):
                    self._interpret(part, [*[False] * earlier, True])
            except MemoryError:
                x.trace = self
                raise
            x.trace = None


class Failed:
    """The state of values that depend on a call that failed with ``error``."""

    failed = True

    def __init__(self, error: Exception) -> None:
        self._error, self._traceback = error, error.__traceback__

    def compute(self, x: Lazy) -> NoReturn:
        """Raise the error with its first traceback."""
        raise self._error.with_traceback(self._traceback)


def fail(results: Sequence[Lazy | None], numbers: Iterable[int], error: Exception) -> None:
    """Mark these results as dependent on a call that failed with ``error``."""
    failed = Failed(error)
    for number in numbers:
        x = results[number]
        if x is not None:
            x.trace = failed


def subtrace_of(number: int, calls: Sequence[Call], leaves: Sequence[Any]) -> Subtrace:
    """The calls that result ``number`` depends on, with their leaves."""
    needed, stack = {number}, [number]
    while stack:
        for i in calls[stack.pop()].operands:
            if i >= 0 and i not in needed:
                needed.add(i)
                stack.append(i)
    numbers: dict[int, int] = {}
    needed_calls: list[Call] = []
    needed_leaves: list[Any] = []
    for old in sorted(needed):
        for i in calls[old].operands:
            if i < 0 and i not in numbers:
                numbers[i] = ~len(needed_leaves)
                needed_leaves.append(leaves[~i])
        numbers[old] = len(needed_calls)
        needed_calls.append(
            calls[old]._replace(operands=tuple([numbers[i] for i in calls[old].operands]))
        )
    return Subtrace(needed_calls, needed_leaves, [])
