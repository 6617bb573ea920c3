"""Tests of statistics and events."""

from __future__ import annotations

import random

import pytest

from fl_memory.block import Block
from fl_memory.errors import (
    OutOfMemoryError,
)
from fl_memory.manager import Event, MemoryManager, Stats
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import BlockLedger, LedgerMemory, has_pattern, write_pattern
from fl_memory.testing.suite.base import MIB, ManagerSuite, within

__tracebackhide__ = hide


class FigureTests(ManagerSuite, official=True):
    """Statistics and events."""

    def test_stats_of_one_block(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        assert mm.stats() == Stats(), "a fresh manager holds nothing"
        block = mm.alloc(5000)
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks) == (5000, 1)
        assert stats.used_bytes == block.capacity
        assert (stats.allocs, stats.frees, stats.peak_bytes) == (1, 0, 5000)
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes == memory.bytes_out
        block.free()
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks, stats.used_bytes) == (0, 0, 0)
        assert (stats.allocs, stats.frees, stats.peak_bytes) == (1, 1, 5000)
        assert mm.stats("cpu") == stats

    def test_peak_stays(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(10_000) for _ in range(5)]
        blocks.clear()
        mm.alloc(100)
        assert mm.stats().peak_bytes == 50_000
        assert mm.stats().peak_reserved_bytes >= 50_000

    def test_release_cached(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        kept = [mm.alloc(n) for n in (600, 40_000, 3 * MIB)]
        for i, block in enumerate(kept):
            write_pattern(block, i)
        freed = [mm.alloc(n) for n in (600, 40_000, 3 * MIB, 24 * MIB)]
        for block in freed:
            mm.free(block)
        before = memory.bytes_out
        released = mm.release_cached()
        assert before - memory.bytes_out == released, "the result is what the device got back"
        assert mm.release_cached() == 0, "a second call finds nothing"
        assert all(has_pattern(block, i) for i, block in enumerate(kept))
        stats = mm.stats()
        assert stats.reserved_bytes == memory.bytes_out
        assert stats.live_blocks == 3
        kept.clear()
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_memory_of_a_stream_stays_with_it(
        self, mm: MemoryManager, memory: LedgerMemory
    ) -> None:
        """What one stream freed goes to another stream only by way of the device."""
        for nbytes in (600, 40_000, 3 * MIB):
            block = mm.alloc(nbytes, stream="compute")
            address = block.address
            home = memory.home_of(address, nbytes)
            block.free()
            other = mm.alloc(nbytes, stream="copy")
            if other.address < address + nbytes and address < other.address + nbytes:
                assert memory.home_of(other.address, nbytes) != home, (
                    "memory was lent to another stream although its own may still be working on it"
                )

    def test_events_tell_the_whole_story(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Whoever replays the events arrives at the manager's own figures."""
        books, native = BlockLedger(), dict[int, int]()
        seen: list[Event] = []

        def observe(event: Event) -> None:
            seen.append(event)
            if event.kind == "alloc":
                books.add(event.address, event.nbytes, event.nbytes, event.tag)
            elif event.kind == "free":
                books.remove(event.address, event.nbytes)
            elif event.kind == "native_alloc":
                native[event.address] = event.nbytes
            elif event.kind == "native_free":
                assert native.pop(event.address) == event.nbytes
            assert event.kind in Event.KINDS and event.device == "cpu"

        stop = mm.on_event(observe)
        dice = random.Random(3)
        live: list[Block] = []
        for i in range(300):
            if len(live) < 12:
                live.append(mm.alloc(int(2 ** dice.uniform(0, 21)), tag=i))
            else:
                del live[dice.randrange(len(live))]
        stats = mm.stats()
        assert books.live_bytes == stats.live_bytes and books.allocs == stats.allocs
        assert books.frees == stats.frees and books.peak_bytes == stats.peak_bytes
        tags = {address: tag for address, (_, tag) in books.blocks.items()}
        assert tags == {block.address: block.tag for block in live}
        assert sum(native.values()) == memory.bytes_out
        live.clear()
        mm.release_cached()
        assert seen[-1].kind == "release_cached"
        assert not native and books.live_bytes == 0
        count = len(seen)
        stop()
        mm.alloc(5000).free()
        assert len(seen) == count, "an observer that left still hears events"

    def test_event_of_exhausted_memory(self) -> None:
        mm = self.make(LedgerMemory(limit=MIB))
        seen: list[Event] = []
        mm.on_event(seen.append)
        with pytest.raises(OutOfMemoryError):
            mm.alloc(2 * MIB, tag="too much")
        told = [(event.kind, event.nbytes, event.tag) for event in seen[-1:]]
        assert told == [("out_of_memory", 2 * MIB, "too much")]

    def test_observer_may_allocate(self, mm: MemoryManager) -> None:
        kinds: list[str] = []
        own: list[Block] = []

        def observe(event: Event) -> None:
            kinds.append(event.kind)
            if event.tag == "user" and event.kind == "alloc":
                own.append(mm.alloc(50, tag="observer"))

        mm.on_event(observe)

        def run() -> None:
            mm.alloc(5000, tag="user").free()

        within(self.patience, run)
        assert kinds.count("alloc") == 2 and kinds.count("free") == 1
        assert mm.stats().live_blocks == 1

    def test_observer_that_fails(self, mm: MemoryManager) -> None:
        """Its error reaches the caller; the books stay right."""

        def observe(event: Event) -> None:
            raise RuntimeError("observer")

        mm.alloc(100).free()
        stop = mm.on_event(observe)
        with pytest.raises(RuntimeError, match="observer"):
            mm.release_cached()
        stop()
        block = mm.alloc(5000)
        assert mm.stats().live_blocks == 1
        block.free()
        assert mm.stats().live_blocks == 0

    def test_two_observers_leave_separately(self, mm: MemoryManager) -> None:
        mm.alloc(100).free()
        first: list[str] = []

        def observe(event: Event) -> None:
            if event.kind == "release_cached":
                first.append(event.kind)

        stop_one, stop_two = mm.on_event(observe), mm.on_event(observe)
        mm.release_cached()
        assert len(first) == 2
        stop_one()
        mm.release_cached()
        assert len(first) == 3
        stop_two()
        stop_two()
        mm.release_cached()
        assert len(first) == 3
