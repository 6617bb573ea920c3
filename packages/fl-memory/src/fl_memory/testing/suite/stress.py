"""Long random runs compared with a ledger."""

from __future__ import annotations

import random

import pytest

from fl_memory.block import Block
from fl_memory.manager import MemoryManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import BlockLedger, LedgerMemory, has_pattern, write_pattern
from fl_memory.testing.suite.base import MIB, ManagerSuite

__tracebackhide__ = hide


class StressTests(ManagerSuite, official=True):
    """Long runs against a ledger."""

    @pytest.mark.parametrize("seed", range(4))
    def test_random_walk(self, seed: int, mm: MemoryManager, memory: LedgerMemory) -> None:
        """2000 random steps: no overlap, no damage, all bytes from the device, exact figures."""
        dice = random.Random(seed)
        books = BlockLedger()
        live: list[tuple[Block, int]] = []
        for step in range(2000):
            # The target number of live blocks swings, so that pools fill and drain.
            if len(live) < dice.choice((5, 60)):
                nbytes = 0 if dice.random() < 0.02 else int(2 ** dice.uniform(0, 19))
                if dice.random() < 0.01:
                    nbytes = dice.randrange(MIB, 12 * MIB)
                alignment = dice.choice((1, 64, 64, 64, 256, 1024))
                block = mm.alloc(nbytes, alignment=alignment, stream=dice.choice((None, None, 1)))
                assert block.address % alignment == 0
                assert block.nbytes == nbytes <= block.capacity
                assert memory.home_of(block.address, block.capacity), (
                    f"{block} does not lie in the device memory of its manager"
                )
                books.add(block.address, nbytes, block.capacity)
                if nbytes <= 1 << 16:
                    write_pattern(block, step, memory)
                live.append((block, step))
            else:
                block, written = live.pop(dice.randrange(len(live)))
                if block.nbytes <= 1 << 16:
                    assert has_pattern(block, written), "somebody else wrote into a live block"
                books.remove(block.address, block.nbytes)
                if dice.random() < 0.5:
                    mm.free(block)
                del block
            if step % 20 == 10:
                mm.mark("step", step // 20)
                self.exercise(mm)
            if step % 100 == 0:
                self.check_statistics(mm, books, memory)
        self.check_statistics(mm, books, memory)
        for block, written in live:
            assert block.nbytes > 1 << 16 or has_pattern(block, written)
            books.remove(block.address, block.nbytes)
        live.clear()
        del block
        self.check_statistics(mm, books, memory)
        mm.release_cached()
        assert memory.bytes_out == 0, "everything was freed, and yet the device is owed memory"
        assert mm.stats().reserved_bytes == 0

    def test_many_small_blocks(self, mm: MemoryManager) -> None:
        blocks = []
        for i in range(4000):
            if i % 1000 == 500:
                self.exercise(mm)
            blocks.append(mm.alloc(i % 300))
        self.assert_disjoint(blocks)
        assert mm.stats().live_blocks == 4000
        blocks.clear()
        assert mm.stats().live_blocks == 0 and mm.stats().live_bytes == 0

    def test_steady_loop_does_not_grow(self, mm: MemoryManager) -> None:
        """The same requests again and again settle on a fixed amount of device memory."""

        def step() -> None:
            kept = [mm.alloc(n) for n in (100, 5000, 70_000, 1_300_000, 5000)]
            kept.pop(1)
            kept.append(mm.alloc(30_000))

        for number in range(60):  # a manager may hold freed blocks back for a while
            mm.mark("step", number)
            step()
        reserved = mm.stats().reserved_bytes
        for number in range(200):
            mm.mark("step", 60 + number)
            step()
        assert mm.stats().reserved_bytes <= reserved

    def test_equal_steps(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Steps that ask for the same, with one that does not: nothing overlaps, no byte is lost.

        A manager that plans has a plan for these steps. The step that differs breaks it.
        """
        sizes = (100, 5000, 70_000, 1_300_000, 5000, 0, 3 * MIB, 64)
        kept: list[Block] = []
        for number in range(12):
            mm.mark("step", number)
            self.exercise(mm)
            live: list[Block] = []
            for i, nbytes in enumerate(sizes if number != 8 else sizes[::-1] + (12_345,)):
                alignment = 64 if number < 6 or i % 2 else 1024
                live.append(mm.alloc(nbytes, alignment=alignment, stream=None if i % 3 else "s"))
                assert live[-1].address % alignment == 0
                assert memory.home_of(live[-1].address, live[-1].capacity)
                write_pattern(live[-1], number + i, memory)
                if i == 4:
                    mm.free(live.pop(2))
            self.assert_disjoint([*live, *kept])
            kept = [live.pop(3)]
        kept.clear()
        live.clear()
        mm.release_cached()
        assert memory.bytes_out == 0
