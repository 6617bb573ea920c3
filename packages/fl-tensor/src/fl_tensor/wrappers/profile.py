"""``ft.profile``: times and memory per operation, as a Chrome trace and a table."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import fl_memory
from fl_memory.forks import free_after_fork
from fl_tensor.dispatch import calls
from fl_tensor.dispatch.stack import Operation, Wrapper, active
from fl_tensor.errors import ArgumentError
from fl_tensor.wrappers import table

if TYPE_CHECKING:
    from typing_extensions import Self

_clock = time.perf_counter_ns


class Record(NamedTuple):
    """One call, or one range of the user's. Times in nanoseconds of ``time.perf_counter_ns``."""

    name: str
    kind: str  # "operation", "composition" (of operations inside) or "range"
    thread: int
    start: int
    duration: int
    alone: int  # duration without that of calls inside
    operands: tuple[tuple[str, tuple[int, ...]], ...]  # (dtype, shape) of each array
    backend: str
    error: str  # name of the exception that ended it, or ""


class Row(NamedTuple):
    """One line of the summary; share is of the time of all operations, in percent."""

    operation: str
    calls: int
    total_ms: float
    self_ms: float
    share: float


class Summary(list[Row]):
    """The operations by the time that they took themselves; prints as a table."""

    def __str__(self) -> str:
        head = ("operation", "calls", "total ms", "self ms", "share %")
        return table.render(head, [(*row[:-1], f"{row.share:.1f}") for row in self])


class profile(Wrapper):
    """``with ft.profile("trace.json") as p:`` records every operation of the block, backward and
    optimizers included. Open the file in chrome://tracing or ui.perfetto.dev: spans per thread
    (a composition contains its pieces), and the bytes in use of every memory manager that served
    in the block.

    path         written when the block ends, also by an exception; None: nothing is written
    synchronize  wait for the device after each operation, so that spans of an asynchronous backend
                 are computation and not only its start; this takes the overlap away
    memory       record the memory track

        with p.range("forward"):        # or ft.profile.range("forward"), where p is out of reach
            ...
        print(p.summary())              # operation, calls, total ms, self ms, share

    Raises ArgumentError where the folder of ``path`` does not exist.
    """

    watches = True

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        synchronize: bool = False,
        memory: bool = True,
    ) -> None:
        self.path = None if path is None else os.path.abspath(path)
        self.synchronize = synchronize
        self.memory = memory
        self.records: list[Record] = []
        #: (time, manager, bytes in use) at every change.
        self.in_use: list[tuple[int, str, int]] = []
        self._thread = _Thread()
        self._lock = free_after_fork(threading.Lock())
        self._entered = 0
        self._watched: dict[int, tuple[Any, Callable[[], None]]] = {}

    def __enter__(self) -> Self:
        if self.path is not None and not os.path.isdir(os.path.dirname(self.path)):
            raise ArgumentError(f"[profile] {self.path}: its folder does not exist; make it first")
        with self._lock:
            self._entered += 1
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        with self._lock:
            self._entered -= 1
            if self._entered:
                return
            for _, stop in self._watched.values():
                stop()
            self._watched.clear()
        if self.path is not None:
            self.save(self.path)

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if self.memory and self._entered:
            manager = fl_memory.current()
            if id(manager) not in self._watched:
                self._watch(manager)
        thread = self._thread
        thread.inside.append(0)
        failure = ""
        start = _clock()
        try:
            result = operation.run(*arguments, **options)
            if self.synchronize:
                _wait(operation.backend, result)
            return result
        except BaseException as error:
            failure = type(error).__name__
            raise
        finally:
            took = _clock() - start
            alone = took - thread.inside.pop()
            if thread.inside:
                thread.inside[-1] += took
            given = calls.adapters((*arguments, *options.values()) if options else arguments)
            self.records.append(
                Record(
                    operation.name,
                    "composition" if operation.composed else "operation",
                    thread.number,
                    start,
                    took,
                    alone,
                    tuple([(x.dtype.name, x.shape) for x in given]),
                    operation.backend.name,
                    failure,
                )
            )

    @staticmethod
    def range(name: str) -> AbstractContextManager[None]:
        """``with ft.profile.range("forward"):`` a named span in every profile that is active here;
        nothing where none is."""
        return _Range(name)

    def summary(self) -> Summary:
        """What each operation took: in total, and without the operations inside it."""
        sums: dict[str, list[int]] = {}
        for record in self.records:
            if record.kind != "range":
                line = sums.setdefault(record.name, [0, 0, 0])
                line[0] += 1
                line[1] += record.duration
                line[2] += record.alone
        whole = sum(line[2] for line in sums.values()) or 1
        rows = [
            Row(name, calls, total / 1e6, alone / 1e6, 100.0 * alone / whole)
            for name, (calls, total, alone) in sums.items()
        ]
        return Summary(sorted(rows, key=lambda row: -row.self_ms))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON in the Trace Event Format. Raises FileError where that cannot be
        written."""
        import json

        from fl_tensor.files import replacing
        from fl_tensor.wrappers import chrome

        text = json.dumps(chrome.events(self.records, self.in_use))
        with replacing(path) as file:
            file.write(text.encode())

    def _watch(self, manager: fl_memory.MemoryManager) -> None:
        with self._lock:
            if id(manager) in self._watched or not self._entered:
                return
            name, live = manager.name, manager.stats().live_bytes
            seen = self.in_use
            seen.append((_clock(), name, live))

            def observe(event: fl_memory.Event) -> None:
                nonlocal live
                if event.kind == "alloc":
                    live += event.nbytes
                elif event.kind == "free":
                    live -= event.nbytes
                else:
                    return
                seen.append((_clock(), name, live))

            self._watched[id(manager)] = (manager, manager.on_event(observe))


class _Range:
    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.profiles = list(active(profile))
        self.start = _clock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        took = _clock() - self.start
        failure = "" if kind is None else kind.__name__
        for p in self.profiles:
            number = p._thread.number
            p.records.append(
                Record(self.name, "range", number, self.start, took, took, (), "", failure)
            )


class _Thread(threading.local):
    def __init__(self) -> None:
        self.number = threading.get_ident()
        self.inside: list[int] = []  # time of the calls inside each one that is running


def _wait(backend: Any, result: Any) -> None:
    for device in {x.device for x in calls.adapters((result,))}:
        backend.synchronize(device)
