"""``replay``: a trace through any manager, without the program that it came from."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from fl_memory.block import Block
from fl_memory.errors import BlockError, OutOfMemoryError
from fl_memory.manager import DeviceMemory, MemoryManager
from fl_memory.selection import REGISTRY
from fl_memory.traces.addresses import AddressMemory
from fl_memory.traces.trace import ALLOC, FREE, MARK, RESERVE_HINT, Trace

__all__ = ["AnyManager", "Replay", "replay"]

#: A manager for a replay: a registered name, or what makes one of a device's memory (a class).
AnyManager: TypeAlias = "str | Callable[[DeviceMemory], MemoryManager]"


@dataclass(frozen=True)
class Replay:
    """What a manager made of a trace. Sizes are in bytes, peaks are over the whole replay.

    live: requested by the blocks that are live; used: granted to them; reserved: taken from the
    device.
    """

    rows: int
    allocs: int
    device_allocs: int
    peak_live_bytes: int
    peak_used_bytes: int
    live_bytes_at_peak_used: int
    peak_reserved_bytes: int
    #: Why the replay ended before the trace did, at row ``rows``; None where it did not.
    out_of_memory: OutOfMemoryError | None = None

    @property
    def internal(self) -> float:
        """Internal fragmentation: ``1 - live / used`` when ``used`` is at its peak."""
        return _share_lost(self.live_bytes_at_peak_used, self.peak_used_bytes)

    @property
    def external(self) -> float:
        """External fragmentation: ``1 - peak used / peak reserved``."""
        return _share_lost(self.peak_used_bytes, self.peak_reserved_bytes)

    @property
    def over(self) -> float:
        """``peak reserved / peak live``; 1 for a trace without live bytes."""
        if not self.peak_live_bytes:
            return 1.0
        return self.peak_reserved_bytes / self.peak_live_bytes


def replay(
    trace: Trace,
    manager: AnyManager,
    memory: AddressMemory | None = None,
    *,
    hints: bool = True,
    each: Callable[[int, Block | None], object] | None = None,
) -> Replay:
    """Ask a new manager for everything that ``trace`` asks for, in its order.

    memory: the device, by default one without a bound. Sizes, alignments, streams, tags, marks and
    (with ``hints``) reservations are those of the trace. each: called after each row with its
    number, and the block that was allocated there.

    The replay ends early where the manager is out of memory; the result says so. Raises BlockError
    for a manager whose blocks are too small, misaligned, outside of its memory, or overlap, and
    TraceError for a trace that ``Trace.check`` rejects.
    """
    if trace.checked_rows != len(trace):
        trace.check()
    if memory is None:
        memory = AddressMemory(device=trace.device)
    make: Any = REGISTRY.load(manager) if isinstance(manager, str) else manager
    served: MemoryManager = make(memory)
    occupied = _Occupied(memory, served.name)
    streams = [None, *trace.tables["stream"][1:]]
    tags = [None, *trace.tables["tag"][1:]]
    device = memory.device
    blocks: dict[int, Block] = {}
    block: Block | None
    failure = None
    allocs = live = used = peak_live = peak_used = live_at_peak_used = rows = 0
    try:
        columns = ("kind", "block", "nbytes", "alignment", "stream", "tag")
        for kind, number, nbytes, alignment, stream, tag in trace.rows(*columns):
            block = None
            if kind == ALLOC:
                block = served.alloc(
                    nbytes,
                    device=device,
                    alignment=alignment,
                    stream=streams[stream],
                    tag=tags[tag],
                )
                blocks[number] = block
                occupied.add(block, alignment)
                allocs += 1
                live += nbytes
                used += block.capacity
                peak_live = max(peak_live, live)
                if used > peak_used:
                    peak_used, live_at_peak_used = used, live
            elif kind == FREE:
                freed = blocks.pop(number)
                occupied.remove(freed)
                live -= freed.nbytes
                used -= freed.capacity
                served.free(freed)
            elif kind == MARK:
                served.mark(tags[tag] or "", nbytes)
            elif kind == RESERVE_HINT and hints:
                served.reserve_hint(nbytes, device=device, stream=streams[stream])
            if each is not None:
                each(rows, block)
            rows += 1
    except OutOfMemoryError as error:
        failure = error
    except BaseException:
        memory.strict = False  # else a manager with wrong addresses fails in finalisers, too
        for block in blocks.values():
            with suppress(BlockError):
                served.free(block)
        raise
    for block in blocks.values():
        served.free(block)
    return Replay(
        rows=rows,
        allocs=allocs,
        device_allocs=memory.allocs,
        peak_live_bytes=peak_live,
        peak_used_bytes=peak_used,
        live_bytes_at_peak_used=live_at_peak_used,
        peak_reserved_bytes=memory.peak_reserved_bytes,
        out_of_memory=failure,
    )


class _Occupied:
    """The bytes of the live blocks, to which no other block may be given."""

    def __init__(self, memory: AddressMemory, manager: str) -> None:
        self._memory = memory
        self._manager = manager
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, block: Block, alignment: int) -> None:
        start, end = block.address, block.address + max(block.capacity, 1)
        place = bisect_left(self._starts, start)
        wrong = ""
        if block.capacity < block.nbytes:
            wrong = f"has a capacity of {block.capacity} bytes"
        elif start % alignment:
            wrong = f"is not aligned to {alignment} bytes"
        elif not self._memory.holds(start, block.capacity):
            wrong = f"lies outside of the memory of {self._memory.device}"
        elif (place and self._ends[place - 1] > start) or (
            place < len(self._starts) and self._starts[place] < end
        ):
            wrong = "overlaps another live block"
        if wrong:
            raise BlockError(
                f"[replay] manager {self._manager!r}: the block of {block.nbytes} bytes at "
                f"{start:#x} {wrong}"
            )
        self._starts.insert(place, start)
        self._ends.insert(place, end)

    def remove(self, block: Block) -> None:
        place = bisect_left(self._starts, block.address)
        del self._starts[place], self._ends[place]


def _share_lost(part: int, whole: int) -> float:
    return 1 - part / whole if whole else 0.0
