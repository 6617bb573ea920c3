"""Tests of limits, and of the return of blocks to their manager."""

from __future__ import annotations

import gc

import pytest

import fl_memory
from fl_memory.errors import (
    DoubleFreeError,
    OutOfMemoryError,
    WrongManagerError,
)
from fl_memory.manager import MemoryManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import LedgerMemory, has_pattern, write_pattern
from fl_memory.testing.suite.base import MIB, Cycle, ManagerSuite

__tracebackhide__ = hide


class LifetimeTests(ManagerSuite, official=True):
    """Limits, and the ends of blocks."""

    def test_limit_is_kept_and_the_error_says_how_things_stand(self) -> None:
        memory = LedgerMemory(limit=8 * MIB)
        mm = self.make(memory)
        blocks = []
        with pytest.raises(OutOfMemoryError) as caught:
            for _ in range(100):
                blocks.append(mm.alloc(MIB // 2))
                assert memory.bytes_out <= 8 * MIB
        error = caught.value
        assert error.limit == 8 * MIB and error.live_bytes == len(blocks) * MIB // 2
        assert str(MIB // 2) in str(error) and "cpu" in str(error)
        count = len(blocks)
        assert count >= 4, f"of 8 MiB only {count} x 0.5 MiB could be lent"
        blocks.clear()
        blocks = [mm.alloc(MIB // 2) for _ in range(count)]
        assert len(blocks) == count, "what was freed can be lent again"

    def test_small_limit_leaves_room_for_small_blocks(self) -> None:
        mm = self.make(LedgerMemory(limit=64 * 1024))
        assert mm.alloc(4096).address, "a manager takes less when its usual buffer is too large"

    def test_cached_memory_is_released_before_giving_up(self) -> None:
        memory = LedgerMemory(limit=32 * MIB)
        mm = self.make(memory)
        blocks = [mm.alloc(MIB // 4) for _ in range(40)]
        for block in blocks:
            mm.free(block)
        large = mm.alloc(29 * MIB)
        assert large.capacity >= 29 * MIB

    def test_free_twice(self, mm: MemoryManager) -> None:
        block, other = mm.alloc(5000), mm.alloc(5000)
        mm.free(block)
        before = mm.stats()
        with pytest.raises(DoubleFreeError):
            mm.free(block)
        assert mm.stats() == before
        again = [mm.alloc(5000), mm.alloc(5000), other]
        self.assert_disjoint(again)

    def test_free_through_the_wrong_manager(self, mm: MemoryManager) -> None:
        stranger = SystemManager(LedgerMemory())
        mine, theirs = mm.alloc(5000), stranger.alloc(5000)
        with pytest.raises(WrongManagerError):
            mm.free(theirs)
        with pytest.raises(WrongManagerError):
            stranger.free(mine)
        assert mm.stats().live_blocks == 1 and stranger.stats().live_blocks == 1
        mine.free()
        theirs.free()
        assert mm.stats().live_blocks == 0 and stranger.stats().live_blocks == 0

    def test_dying_block_goes_home_once(self, mm: MemoryManager) -> None:
        block = mm.alloc(5000)
        assert mm.stats().live_blocks == 1
        del block
        assert mm.stats().live_blocks == 0 and mm.stats().frees == 1
        freed = mm.alloc(5000)
        freed.free()
        del freed
        assert mm.stats().frees == 2

    def test_swap_while_live(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        other = SystemManager(LedgerMemory())
        with fl_memory.use(mm):
            early = fl_memory.current().alloc(9000, tag="early")
            doomed = fl_memory.current().alloc(100)
            write_pattern(early, 7, memory)
            with fl_memory.use(other):
                late = fl_memory.current().alloc(9000, tag="late")
                assert late.manager is other and other.stats().live_blocks == 1
                assert mm.stats().live_blocks == 2, "statistics survive the swap"
                assert has_pattern(early, 7), "blocks survive the swap"
                del doomed
                early.free()
                assert mm.stats().live_blocks == 0 and mm.stats().frees == 2
                assert other.stats().frees == 0, "the manager that made a block frees it"
                mm.release_cached()
                assert memory.bytes_out == 0
        late.free()
        assert other.stats().live_blocks == 0

    def test_managers_are_independent(self) -> None:
        first_memory, second_memory = LedgerMemory(), LedgerMemory()
        first, second = self.make(first_memory), self.make(second_memory)
        a, b = first.alloc(5000), second.alloc(7000)
        assert first.stats().live_bytes == 5000 and second.stats().live_bytes == 7000
        assert first_memory.home_of(a.address, 5000) and second_memory.home_of(b.address, 7000)
        assert second_memory.home_of(a.address, 5000) is None

    def test_dying_manager_leaves_nothing(self, memory: LedgerMemory) -> None:
        mm = self.make(memory)
        blocks = [mm.alloc(n) for n in (0, 100, 5000, 2 * MIB)]
        mm.free(blocks.pop())
        del mm, blocks
        gc.collect()
        assert memory.bytes_out == 0, "cached memory outlived its manager"

    def test_manager_and_blocks_die_in_one_collection(self, memory: LedgerMemory) -> None:
        """Their finalisers run in no particular order then."""
        Cycle(self.make(memory).alloc(5000))
        Cycle(self.make(memory).alloc(3 * MIB))
        gc.collect()
        assert memory.bytes_out == 0, "memory outlived its manager"
