"""The kit on our own managers, as strangers run it on theirs."""

from __future__ import annotations

from fl_memory import MemoryManager
from fl_memory.host import HostMemory
from fl_memory.managers.arena import ArenaManager
from fl_memory.managers.best_fit import BestFitManager
from fl_memory.managers.buddy import BuddyManager
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.exact import ExactManager
from fl_memory.managers.planned import Plan, PlannedManager, Request
from fl_memory.managers.system import SystemManager
from fl_memory.testing import (
    CheckedManager,
    DeviceMemorySuite,
    LedgerMemory,
    MemoryManagerSuite,
)

MIB = 1 << 20
#: Of many sizes, alive one after the other: their places overlap.
WRONG_PLAN = Plan.of(
    [Request(64 * n, 64, None, t, t + 2) for t, n in enumerate([*range(1, 400), *range(1, 400)])]
)


class TestSystem(MemoryManagerSuite):
    manager = SystemManager


class TestCaching(MemoryManagerSuite):
    manager = CachingManager


class TestCachingWithSplitLimit(MemoryManagerSuite):
    manager = CachingManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return CachingManager(memory, split_limit=24 * MIB)


class TestCachingAsFlashlight(MemoryManagerSuite):
    manager = CachingManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return CachingManager(
            memory, split_limit=24 * MIB, split_rule="chunk", recycling_limit=24 * MIB
        )


class TestCachingThatReleases(MemoryManagerSuite):
    manager = CachingManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return CachingManager(memory, recycling_limit=20 * MIB, recycling_rule="release")


class TestBestFit(MemoryManagerSuite):
    manager = BestFitManager


class TestBuddy(MemoryManagerSuite):
    manager = BuddyManager


class TestExact(MemoryManagerSuite):
    manager = ExactManager


class TestExactThatCollects(MemoryManagerSuite):
    manager = ExactManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return ExactManager(memory, max_buffers=8)


class TestExactDebug(MemoryManagerSuite):
    manager = ExactManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return ExactManager(memory, debug=True)


class TestArena(MemoryManagerSuite):
    manager = ArenaManager


class TestPlanned(MemoryManagerSuite):
    manager = PlannedManager


class TestPlannedBeforehand(MemoryManagerSuite):
    """A plan of another program: it is wrong for every test."""

    manager = PlannedManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return PlannedManager(memory, plan=WRONG_PLAN)


class TestChecked(MemoryManagerSuite):
    manager = CheckedManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return CheckedManager(CachingManager(memory))


class TestHost(DeviceMemorySuite):
    memory = HostMemory


class TestLedger(DeviceMemorySuite):
    memory = LedgerMemory
