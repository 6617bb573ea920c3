"""``Recorder``: an observer of managers that makes a ``Trace``."""

from __future__ import annotations

import platform
import sys
from array import array
from collections.abc import Callable, Hashable, Mapping
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fl_memory._version import __version__
from fl_memory.instrumentation import instrumented
from fl_memory.selection import current, on_use
from fl_memory.traces.file import MAX_ROWS
from fl_memory.traces.trace import ALLOC, COLUMNS, FREE, MARK, REFUSE, RESERVE_HINT, Trace

if TYPE_CHECKING:
    from contextlib import ExitStack

    from fl_memory.events import Event
    from fl_memory.manager import MemoryManager

__all__ = ["Recorder"]

#: The kinds of events that are recorded.
KIND_OF = {
    "alloc": ALLOC,
    "free": FREE,
    "reserve_hint": RESERVE_HINT,
    "mark": MARK,
    "out_of_memory": REFUSE,
}
_MOST = (1 << 62) - 1


class Recorder:
    """Records what managers are asked for, within ``with Recorder() as recorder:``. As in
    ``with observe():``, the rows name operation, module and phase.

    managers: those that are observed. Without any, it is the current one, and each that is chosen
    later. device: events of other devices are left out. max_rows: the recording ends after so many
    rows, and the fact "truncated" says so; a row takes 104 bytes of memory. facts: added to
    ``device`` and to the versions of Python and of the packages.

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
        self._most_cells = max_rows * len(COLUMNS)
        self._facts = dict(facts or {})
        self._names = Trace()  # only its tables
        self._cells = array("q")  # row after row
        self._blocks = count()
        self._threads: dict[int, int] = {}
        self._streams: dict[Hashable, int] = {None: 0}
        self._causes: dict[tuple[str, ...] | None, tuple[int, int, int]] = {}
        self._step = 0
        self._start = perf_counter_ns()
        self._observed: set[int] = set()
        self._stops: list[Callable[[], None]] = []
        self._layers: ExitStack | None = None
        self._truncated = False

    def __enter__(self) -> Recorder:
        if not len(self):
            self._start = perf_counter_ns()
        self._layers = instrumented()
        if not self._managers:
            self._stops.append(on_use(self._observe))
        for manager in self._managers or (current(),):
            self._observe(manager)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        if self._layers is not None:
            self._layers.close()

    def __len__(self) -> int:
        """Rows so far."""
        return len(self._cells) // len(COLUMNS)

    @property
    def trace(self) -> Trace:
        """What has been recorded so far."""
        cells = self._cells[:]
        columns = {name: cells[i :: len(COLUMNS)] for i, name in enumerate(COLUMNS)}
        facts = {"device": self._device, "versions": _versions(), **self._facts}
        if self._truncated:
            facts["truncated"] = True
        return Trace(columns, self._names.tables, facts)

    # ------------------------------------------------------------------ inside

    def _observe(self, manager: MemoryManager) -> None:
        if id(manager) not in self._observed:
            self._observed.add(id(manager))
            self._stops.append(manager.on_event(self._observer()))

    def _stop(self) -> None:
        while self._stops:
            self._stops.pop()()
        self._observed.clear()

    def _observer(self) -> Callable[[Event], None]:
        """The observer of one manager, which numbers its blocks on its own."""
        device, cells, most, threads = self._device, self._cells, self._most_cells, self._threads
        blocks: dict[int, int] = {}  # those that are live, by the manager's number

        def observe(event: Event) -> None:
            kind = event.kind
            number = KIND_OF.get(kind)
            if number is None or (event.device != device and number != MARK):
                return
            block = stream = tag = capacity = 0
            nbytes = event.nbytes
            if number == FREE:
                found = blocks.pop(event.number, None)
                if found is None:  # older than the recording
                    return
                block, nbytes = found, 0
            elif number == ALLOC:
                block = blocks[event.number] = next(self._blocks)
                capacity = event.capacity
                tag, stream = self._tag(event.tag), self._stream(event.stream)
            elif number == MARK:
                nbytes, tag = _bounded(event.number), self._tag(event.tag)
                if event.tag == "step":
                    self._step = nbytes
            else:
                nbytes = _bounded(nbytes)
                tag, stream = self._tag(event.tag), self._stream(event.stream)
            if len(cells) >= most:
                self._truncated = True
                self._stop()
                return
            cause = event.cause and event.cause[:3]
            thread = threads.get(event.thread)
            if thread is None:
                thread = threads[event.thread] = len(threads)
            cells.extend(
                (
                    number,
                    block,
                    nbytes,
                    capacity,
                    event.alignment if number == ALLOC else 0,
                    event.ns - self._start,
                    self._step,
                    thread,
                    stream,
                    tag,
                    *(self._causes.get(cause) or self._cause(cause)),
                )
            )

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

    def _tag(self, tag: object) -> int:
        if tag is None:
            return 0
        return self._names.number("tag", tag if isinstance(tag, str) else type(tag).__name__)


def _bounded(number: int) -> int:
    """What a column can hold."""
    return min(max(number, -_MOST), _MOST)


def _versions() -> dict[str, str]:
    """Python's version, and those of our packages and of NumPy where they are loaded."""
    found = {"python": platform.python_version(), "fl_memory": __version__}
    for name, module in sorted(sys.modules.items()):
        if (name.startswith("fl_") or name == "numpy") and "." not in name:
            version = getattr(module, "__version__", None)
            if isinstance(version, str):
                found[name] = version
    return found
