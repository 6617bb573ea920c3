"""Tests of statistics."""

from __future__ import annotations

from fl_memory.manager import MemoryManager
from fl_memory.stats import Stats
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import LedgerMemory, has_pattern, write_pattern
from fl_memory.testing.suite.base import MIB, ManagerSuite

__tracebackhide__ = hide


class StatisticsTests(ManagerSuite, official=True):
    """Statistics."""

    def test_stats_of_one_block(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        assert mm.stats() == Stats(), "a fresh manager holds nothing"
        block = mm.alloc(5000)
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks) == (5000, 1)
        assert stats.used_bytes == block.capacity
        assert (stats.allocs, stats.frees, stats.peak_live_bytes) == (1, 0, 5000)
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes == memory.bytes_out
        block.free()
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks, stats.used_bytes) == (0, 0, 0)
        assert (stats.allocs, stats.frees, stats.peak_live_bytes) == (1, 1, 5000)
        assert mm.stats("cpu") == stats

    def test_peak_stays(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(10_000) for _ in range(5)]
        blocks.clear()
        mm.alloc(100)
        assert mm.stats().peak_live_bytes == 50_000
        assert mm.stats().peak_used_bytes >= 50_000
        assert mm.stats().peak_reserved_bytes >= 50_000

    def test_release_cached(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        kept = [mm.alloc(n) for n in (600, 40_000, 3 * MIB)]
        for i, block in enumerate(kept):
            write_pattern(block, i, memory)
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
