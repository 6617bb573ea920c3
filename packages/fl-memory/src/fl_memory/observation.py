"""``observe``: which operation of which module allocated how much, and what is still alive."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from fl_memory.call_site import call_site
from fl_memory.causes import Cause
from fl_memory.errors import AllocationError
from fl_memory.instrumentation import instrumented
from fl_memory.selection import current, manager_of, on_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import ExitStack
    from types import TracebackType

    from fl_memory.events import Event
    from fl_memory.manager import MemoryManager

__all__ = ["Usage", "observe", "origin_of"]

#: What blocks can be grouped by.
FIELDS = ("operation", "module", "phase", "tag", "site")
#: The observers that are active, in the order of entering.
_active: list[observe] = []
_UNKNOWN = Cause()


class Origin(NamedTuple):
    """Where a block comes from."""

    operation: str
    module: str
    phase: str
    tag: str
    #: ``train.py:12``, the line of the user's program; "" if sites are not observed.
    site: str


class Usage(NamedTuple):
    """Blocks that have the same values of the fields by which they were grouped."""

    key: tuple[str, ...]
    blocks: int
    nbytes: int


class observe:
    """Within ``with observe() as seen:`` every event carries its cause, and is counted by it.

    Instrumentation is switched on for this context, and threads that run in a copy of it: events
    name the operation, the path of the module, the phase and the step. Blocks nest.

    manager: the one that is observed, or its name. Without it, it is the current one, and each that
    is chosen later. sites: whether the line of the user's program is noted too; that takes some
    microseconds for each allocation. max_events: how many of the latest events are kept in
    ``events``; the figures count all of them. Raises AllocationError for a negative ``max_events``,
    PluginError for what is no manager.
    """

    #: The latest events, oldest first.
    events: deque[Event]

    def __init__(
        self,
        manager: MemoryManager | str | None = None,
        *,
        sites: bool = False,
        max_events: int = 100_000,
    ) -> None:
        if type(max_events) is not int or max_events < 0:
            raise AllocationError(f"observe(max_events={max_events!r}): expected an int from 0")
        self.events = deque(maxlen=max_events)
        self._manager = None if manager is None else manager_of(manager)
        self._sites = sites
        self._totals: dict[int, dict[Origin, list[int]]] = {}  # by manager: each has its own lock
        self._live: dict[int, dict[int, tuple[Event, Origin]]] = {}  # by manager, number of block
        self._managers: dict[int, MemoryManager] = {}  # kept, so that an id is of one manager
        self._stops: list[Callable[[], None]] = []
        self._layers: ExitStack | None = None

    def __enter__(self) -> observe:
        if self._layers is not None:
            raise AllocationError("observe: this object is active; make one for each block")
        self._layers = instrumented()
        if self._manager is None:
            self._stops.append(on_use(self._watch))
        self._watch(self._manager or current())
        _active.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _active.remove(self)
        while self._stops:
            self._stops.pop()()
        layers, self._layers = self._layers, None
        if layers is not None:
            layers.close()

    def allocated(self, *by: str) -> list[Usage]:
        """All that was allocated in the block, freed or not, the largest sum of bytes first.

        by: fields to group by, of "operation", "module", "phase", "tag", "site"; without any the
        one sum. Raises AllocationError for another field.
        """
        return _grouped(
            by,
            (
                (origin, blocks, nbytes)
                for totals in self._totals.values()
                for origin, (blocks, nbytes) in list(totals.items())
            ),
        )

    def live(self, *by: str) -> list[Usage]:
        """What was allocated in the block and is alive now, or was at its end: as ``allocated``.

        ``live("site")`` is the report to find a leak with, if sites are observed.
        """
        return _grouped(
            by,
            (
                (origin, 1, event.nbytes)
                for blocks in self._live.values()
                for event, origin in list(blocks.values())
            ),
        )

    # ------------------------------------------------------------------ inside

    def _watch(self, manager: MemoryManager) -> None:
        if id(manager) not in self._managers:
            self._managers[id(manager)] = manager
            self._stops.append(manager.on_event(self._observer(manager)))

    def _observer(self, manager: MemoryManager) -> Callable[[Event], None]:
        totals = self._totals.setdefault(id(manager), {})
        live = self._live.setdefault(id(manager), {})
        keep, sites = self.events.append, self._sites

        def note(event: Event) -> None:
            keep(event)
            if event.kind == "alloc":
                operation, module, phase, _ = event.cause or _UNKNOWN
                tag = "" if event.tag is None else str(event.tag)
                site = call_site() if sites else ""
                origin = Origin(operation, module, phase, tag, site)
                live[event.number] = event, origin
                total = totals.setdefault(origin, [0, 0])
                total[0] += 1
                total[1] += event.nbytes
            elif event.kind == "free":
                live.pop(event.number, None)

        return note


def origin_of(manager: Any, number: int) -> tuple[Cause | None, str] | None:
    """(cause, site) of a live block, if an active observer saw its allocation."""
    for observer in _active:
        found = observer._live.get(id(manager), {}).get(number)
        if found is not None:
            event, origin = found
            return event.cause, origin.site
    return None


def _grouped(by: tuple[str, ...], found: Iterable[tuple[Origin, int, int]]) -> list[Usage]:
    unknown = [field for field in by if field not in FIELDS]
    if unknown:
        raise AllocationError(f"[observe] {unknown[0]!r} is no field; known: {', '.join(FIELDS)}")
    sums: dict[tuple[str, ...], list[int]] = {}
    for origin, blocks, nbytes in found:
        key = tuple([getattr(origin, field) for field in by])
        total = sums.setdefault(key, [0, 0])
        total[0] += blocks
        total[1] += nbytes
    usages = [Usage(key, blocks, nbytes) for key, (blocks, nbytes) in sums.items()]
    return sorted(usages, key=lambda usage: (-usage.nbytes, usage.key))
