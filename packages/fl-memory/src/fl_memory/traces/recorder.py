"""``Recorder``: an observer of managers that makes a ``Trace``."""

from __future__ import annotations

import platform
import sys
from array import array
from collections.abc import Callable, Hashable, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fl_memory._version import __version__
from fl_memory.selection import current
from fl_memory.traces.file import MAX_ROWS
from fl_memory.traces.trace import ALLOC, COLUMNS, FREE, MARK, REFUSE, RESERVE_HINT, Trace

if TYPE_CHECKING:
    from fl_memory.events import Event
    from fl_memory.manager import MemoryManager

__all__ = ["Recorder"]

_OTHER_KINDS = {"reserve_hint": RESERVE_HINT, "out_of_memory": REFUSE}
_MOST = (1 << 63) - 1


class Recorder:
    """Records what managers are asked for, within ``with Recorder() as recorder:``.

    managers: those that are observed; without any, the one that is current when the block begins.
    device: events of other devices are left out. max_rows: the recording ends after so many rows,
    and the fact "truncated" says so; a row takes 104 bytes of memory. facts: added to the versions
    of Python and of the packages, and to ``device``.

    Blocks that were allocated before are left out, and so are their frees. Blocks that live when
    the recording ends are freed nowhere in the trace.
    """

    def __init__(
        self,
        *managers: MemoryManager,
        device: str = "cpu",
        max_rows: int = MAX_ROWS,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._managers = managers
        self._device = device
        self._cells_left = max_rows * len(COLUMNS)
        self._given = dict(facts or {})
        self._names = Trace()  # only its tables
        self._cells = array("q")  # row after row
        self._live: set[int] = set()
        self._threads: dict[int, int] = {}
        self._streams: dict[Hashable, int] = {None: 0}
        self._causes: dict[tuple[str, ...] | None, tuple[int, int, int]] = {None: (0, 0, 0)}
        self._step = 0
        self._stops: list[Callable[[], None]] = []
        self._truncated = False
        self._start = 0

    def __enter__(self) -> Recorder:
        managers = self._managers or (current(),)
        self._start = self._start or perf_counter_ns()
        for place, manager in enumerate(managers):
            self._stops.append(manager.on_event(self._observer(place, len(managers))))
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def __len__(self) -> int:
        """Rows so far."""
        return len(self._cells) // len(COLUMNS)

    @property
    def trace(self) -> Trace:
        """What has been recorded so far."""
        cells = self._cells[:]
        columns = {name: cells[i :: len(COLUMNS)] for i, name in enumerate(COLUMNS)}
        facts = {"device": self._device, "versions": _versions(), **self._given}
        if self._truncated:
            facts["truncated"] = True
        return Trace(columns, self._names.tables, facts)

    # ------------------------------------------------------------------ inside

    def _observer(self, place: int, managers: int) -> Callable[[Event], None]:
        """The observer of one of several managers, each of which numbers its own blocks."""
        device, live, threads = self._device, self._live, self._threads
        tables, streams, causes = self._names, self._streams, self._causes
        add = self._cells.extend

        def observe(event: Event) -> None:
            kind = event.kind
            if event.device != device and kind != "mark":
                return
            cause = event.cause and event.cause[:3]
            operation, module, phase = causes.get(cause) or self._cause(cause)
            thread = threads.get(event.thread)
            if thread is None:
                thread = threads[event.thread] = len(threads)
            ns = event.ns - self._start
            if kind == "alloc":
                block = event.number * managers + place
                live.add(block)
                tag, stream = event.tag, event.stream
                add(
                    (
                        ALLOC,
                        block,
                        event.nbytes,
                        event.capacity,
                        event.alignment,
                        ns,
                        self._step,
                        thread,
                        0 if stream is None else self._stream(stream),
                        0 if tag is None else tables.number("tag", _word(tag)),
                        operation,
                        module,
                        phase,
                    )
                )
            elif kind == "free":
                block = event.number * managers + place
                if block not in live:  # older than the recording
                    return
                live.remove(block)
                add((FREE, block, 0, 0, 0, ns, self._step, thread, 0, 0, operation, module, phase))
            elif kind == "mark" or kind in _OTHER_KINDS:
                stream, tag, nbytes = 0, tables.number("tag", _word(event.tag or "")), event.nbytes
                if kind == "mark":
                    number, nbytes = MARK, event.number
                    if event.tag == "step":
                        self._step = min(max(event.number, 0), _MOST)
                else:
                    number = _OTHER_KINDS[kind]
                    stream = self._stream(event.stream)
                nbytes = min(max(nbytes, -_MOST), _MOST)
                cells = (number, 0, nbytes, 0, 0, ns, self._step, thread, stream, tag)
                add((*cells, operation, module, phase))
            else:
                return
            if len(self._cells) >= self._cells_left:
                self._truncated = True
                self._stop()

        return observe

    def _cause(self, cause: tuple[Any, ...] | None) -> tuple[int, int, int]:
        """The numbers of operation, module and phase."""
        if len(self._causes) >= 1 << 16:
            self._causes.clear()
        number = self._names.number
        operation, module, phase = cause or ("", "", "")
        found = number("operation", operation), number("module", module), number("phase", phase)
        self._causes[cause] = found
        return found

    def _stream(self, stream: Hashable) -> int:
        """Streams are named by the order in which they appear."""
        found = self._streams.get(stream)
        if found is None:
            found = self._names.number("stream", f"stream {len(self._streams)}")
            self._streams[stream] = found
        return found

    def _stop(self) -> None:
        while self._stops:
            self._stops.pop()()


def _word(tag: object) -> str:
    return tag if isinstance(tag, str) else type(tag).__name__


def _versions() -> dict[str, str]:
    """Python's version, and those of our packages and of NumPy where they are loaded."""
    found = {"python": platform.python_version(), "fl_memory": __version__}
    for name, module in sorted(sys.modules.items()):
        if (name.startswith("fl_") or name == "numpy") and "." not in name:
            version = getattr(module, "__version__", None)
            if isinstance(version, str):
                found[name] = version
    return found
