"""Tests of threads, and of finalisers in the middle of an operation."""

from __future__ import annotations

import gc
import random
import sys
import threading

from fl_memory.block import Block
from fl_memory.manager import MemoryManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import LedgerMemory, has_pattern, write_pattern
from fl_memory.testing.suite.base import MIB, Cycle, ManagerSuite, in_threads, within

__tracebackhide__ = hide


class ConcurrencyTests(ManagerSuite, official=True):
    """Threads, and finalisers that strike in the middle of a step."""

    def test_threads(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Four threads allocate and free their own blocks and one another's."""
        handed_over: list[tuple[Block, int]] = []

        def work(seed: int) -> None:
            dice = random.Random(seed)
            live: list[tuple[Block, int]] = []
            for step in range(400):
                block = mm.alloc(int(2 ** dice.uniform(3, 15)), tag=seed)
                mark = seed * 1000 + step
                write_pattern(block, mark, memory)
                if step % 50 == 25:
                    mm.mark("step", step // 50)
                    self.exercise(mm)
                (handed_over if dice.random() < 0.3 else live).append((block, mark))
                for source in (live, handed_over):
                    if len(source) > 10:
                        try:
                            block, mark = source.pop(0)
                        except IndexError:  # another thread was faster
                            continue
                        assert has_pattern(block, mark), "two threads share memory"
                        mm.free(block)
            for block, mark in live:
                assert has_pattern(block, mark), "two threads share memory"

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            within(self.patience * 3, lambda: in_threads(work, 4))
        finally:
            sys.setswitchinterval(switch)
        handed_over.clear()
        stats = mm.stats()
        assert (stats.live_blocks, stats.live_bytes) == (0, 0)
        assert stats.allocs == stats.frees == 1600
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_free_inside_alloc(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """A finaliser strikes while the manager waits for the device: it frees, allocates, asks."""
        old = [mm.alloc(5000) for _ in range(6)]
        made: list[Block] = []

        def strike() -> None:
            memory.on_allocate = None
            old.pop().free()
            del old[-1]
            made.append(mm.alloc(3000))
            write_pattern(made[-1], 5, memory)
            mm.alloc(10)
            mm.stats()
            mm.release_cached()

        def run() -> None:
            for _ in range(2):
                memory.on_allocate = strike
                block = mm.alloc(40 * MIB)
                memory.on_allocate = None
                self.assert_disjoint([block, *old, *made])

        within(self.patience, run)
        assert all(has_pattern(block, 5) for block in made)
        stats = mm.stats()
        assert stats.live_blocks == len(old) + len(made)
        assert stats.live_bytes == 5000 * len(old) + 3000 * len(made)
        old.clear()
        made.clear()
        mm.release_cached()
        assert mm.stats().live_blocks == 0 and memory.bytes_out == 0

    def test_free_inside_release(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """The same while memory goes back to the device."""
        old = [mm.alloc(3 * MIB) for _ in range(4)]

        def strike() -> None:
            memory.on_release = None
            if old:
                old.pop().free()
            mm.alloc(64)

        def run() -> None:
            memory.on_release = strike
            old.pop().free()
            mm.release_cached()
            memory.on_release = None

        within(self.patience, run)
        assert mm.stats().live_blocks == len(old)
        old.clear()
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_garbage_collection_anywhere(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Blocks in cycles, and a collector that runs as often as it can."""
        thresholds = gc.get_threshold()

        def run() -> None:
            gc.set_threshold(1, 1, 1)
            try:
                for i in range(150):
                    Cycle(mm.alloc(4096 + i))
                    kept = [mm.alloc(100 * k) for k in range(4)]
                    self.assert_disjoint(kept)
            finally:
                gc.set_threshold(*thresholds)

        within(self.patience * 3, run)
        gc.collect()
        assert mm.stats().live_blocks == 0
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_free_never_waits(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """While one thread is stuck inside the device, another one's ``free`` returns."""
        block = mm.alloc(5000)
        inside, leave = threading.Event(), threading.Event()

        def stall() -> None:
            memory.on_allocate = None
            inside.set()
            leave.wait(self.patience)

        memory.on_allocate = stall
        large: list[Block] = []
        stuck = threading.Thread(target=lambda: large.append(mm.alloc(50 * MIB)), daemon=True)
        stuck.start()
        assert inside.wait(self.patience), "a request of 50 MiB did not reach the device"
        try:
            within(self.patience / 4, block.free)
        finally:
            leave.set()
            stuck.join(self.patience)
        assert mm.stats().live_blocks == 1 and mm.stats().live_bytes == 50 * MIB
