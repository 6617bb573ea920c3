"""Tests of what users say of a block: that they touch it, pin it, use it on a second stream."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from fl_memory.errors import BlockError, UseAfterFreeError, WrongManagerError
from fl_memory.events import Event
from fl_memory.manager import MemoryManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import LedgerMemory
from fl_memory.testing.suite.base import MIB, ManagerSuite

__tracebackhide__ = hide


class StreamMemory(LedgerMemory):
    """Memory with streams whose work lasts until ``finish``."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(limit)
        self.working: set[Hashable] = set()
        self.waited: list[Hashable] = []

    def record_event(self, stream: Hashable) -> Any:
        return stream

    def is_complete(self, event: Any, wait: bool = False) -> bool:
        if wait and event in self.working:
            self.waited.append(event)
            self.working.discard(event)
        return event not in self.working


class BlockUseTests(ManagerSuite, official=True):
    """Touches, pins and streams."""

    def test_touch_and_pin_are_told(self, mm: MemoryManager) -> None:
        block = mm.alloc(5000, tag="t")
        block.touch()
        seen: list[Event] = []
        mm.on_event(seen.append)
        block.touch()
        with block.pinned() as same, block.pinned():
            assert same is block
            block.touch()
        told = [(e.kind, e.number, e.address, e.nbytes, e.tag) for e in seen]
        kinds = ("touch", "pin", "touch", "unpin")
        assert told == [(kind, block.number, block.address, 5000, "t") for kind in kinds]

    def test_only_live_blocks_of_its_own_are_used(self, mm: MemoryManager) -> None:
        block, foreign = mm.alloc(5000), SystemManager(LedgerMemory()).alloc(5000)
        block.free()
        for use in (mm.touch, mm.pin, lambda block: mm.record_stream(block, "s")):
            with pytest.raises(UseAfterFreeError):
                use(block)
            with pytest.raises(WrongManagerError):
                use(foreign)
        with pytest.raises(BlockError):
            mm.unpin(block)

    @pytest.mark.parametrize("nbytes", [600, 40_000, 3 * MIB])
    def test_memory_waits_for_a_second_stream(self, nbytes: int) -> None:
        """What two streams used is lent again only when the work of the second is done."""
        memory = StreamMemory()
        mm = self.make(memory)
        block = mm.alloc(nbytes, stream="compute")
        address = block.address
        mm.record_stream(block, "copy")
        memory.working.add("copy")
        block.free()
        others = [mm.alloc(nbytes, stream="compute") for _ in range(3)]
        assert memory.home_of(address, nbytes), "its memory went back while a stream works on it"
        for other in others:
            assert not (address < other.address + nbytes and other.address < address + nbytes), (
                "memory was lent again although the second stream may still be working on it"
            )
        memory.working.clear()
        others.clear()
        del other
        assert mm.stats().live_blocks == 0
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_exhausted_memory_waits_for_streams(self) -> None:
        memory = StreamMemory(limit=32 * MIB)
        mm = self.make(memory)
        block = mm.alloc(20 * MIB)
        mm.record_stream(block, "copy")
        memory.working.add("copy")
        block.free()
        assert mm.alloc(24 * MIB).nbytes == 24 * MIB and memory.waited == ["copy"]
