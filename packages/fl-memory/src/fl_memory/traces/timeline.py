"""``timeline``: the state of a manager after each row of a trace, for plots and exports."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from fl_memory.block import Block
from fl_memory.traces.addresses import AddressMemory
from fl_memory.traces.replay import AnyManager, replay
from fl_memory.traces.trace import FREE, Trace

__all__ = ["Range", "Timeline", "timeline"]


@dataclass
class Range:
    """Bytes that belong to a block, or that the device gave, from row ``begin`` up to ``end``.

    nbytes: what was requested, capacity: what was granted; they are equal for the device's.
    tag, operation, module, phase: of the request.
    """

    address: int
    nbytes: int
    capacity: int
    begin: int
    end: int
    tag: str = ""
    operation: str = ""
    module: str = ""
    phase: str = ""


@dataclass
class Timeline:
    """Bytes live, used and reserved after each row, all blocks, and all ranges of the device."""

    live: array[int] = field(default_factory=lambda: array("q"))
    used: array[int] = field(default_factory=lambda: array("q"))
    reserved: array[int] = field(default_factory=lambda: array("q"))
    blocks: list[Range] = field(default_factory=list)
    segments: list[Range] = field(default_factory=list)

    @property
    def peak(self) -> int:
        """The first row at which the most bytes were used."""
        return self.used.index(max(self.used)) if self.used else 0

    def blocks_at(self, row: int) -> list[Range]:
        """The blocks that were live after this row, by address."""
        return _at(self.blocks, row)

    def free_chunks(self, row: int) -> list[int]:
        """Sizes of the gaps between live blocks in the device's ranges after this row."""
        gaps = []
        blocks = self.blocks_at(row)
        place = 0
        for segment in _at(self.segments, row):
            at, end = segment.address, segment.address + segment.capacity
            while place < len(blocks) and blocks[place].address < end:
                gaps.append(blocks[place].address - at)
                at = blocks[place].address + blocks[place].capacity
                place += 1
            gaps.append(end - at)
        return [gap for gap in gaps if gap > 0]


def timeline(trace: Trace, manager: AnyManager, *, hints: bool = True) -> Timeline:
    """``replay`` on a device without a bound, with the state after each row. Raises as it does."""
    found = Timeline()
    memory = _LoggedMemory(found, len(trace), trace.device)
    numbers, kinds = trace.columns["block"], trace.columns["kind"]
    names = {table: trace.tables[table] for table in ("tag", "operation", "module", "phase")}
    live: dict[int, Range] = {}
    live_bytes = used_bytes = 0

    def each(row: int, block: Block | None) -> None:
        nonlocal live_bytes, used_bytes
        if block is not None:
            made = Range(
                block.address,
                block.nbytes,
                block.capacity,
                row,
                len(trace),
                *(names[table][trace.columns[table][row]] for table in names),
            )
            live[numbers[row]] = made
            found.blocks.append(made)
            live_bytes += made.nbytes
            used_bytes += made.capacity
        elif kinds[row] == FREE:
            gone = live.pop(numbers[row])
            gone.end = row
            live_bytes -= gone.nbytes
            used_bytes -= gone.capacity
        found.live.append(live_bytes)
        found.used.append(used_bytes)
        found.reserved.append(memory.reserved_bytes)

    replay(trace, manager, memory, hints=hints, each=each)
    return found


class _LoggedMemory(AddressMemory):
    """Notes in a timeline from which row to which a range was out."""

    def __init__(self, timeline: Timeline, rows: int, device: str) -> None:
        super().__init__(device=device)
        self._timeline = timeline
        self._rows = rows
        self._out: dict[int, Range] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        address = super().allocate(nbytes, alignment)
        row = len(self._timeline.live)
        made = self._out[address] = Range(address, nbytes, nbytes, row, self._rows)
        self._timeline.segments.append(made)
        return address

    def release(self, address: int, nbytes: int) -> None:
        super().release(address, nbytes)
        self._out.pop(address).end = min(len(self._timeline.live), self._rows)


def _at(ranges: list[Range], row: int) -> list[Range]:
    return sorted((r for r in ranges if r.begin <= row < r.end), key=lambda r: r.address)
