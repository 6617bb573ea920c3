"""The kit on our own managers, as strangers run it on theirs."""

from __future__ import annotations

from fl_memory import MemoryManager
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing import (
    CheckedManager,
    DeviceMemorySuite,
    LedgerMemory,
    MemoryManagerSuite,
)


class TestSystem(MemoryManagerSuite):
    manager = SystemManager


class TestCaching(MemoryManagerSuite):
    manager = CachingManager


class TestChecked(MemoryManagerSuite):
    manager = CheckedManager

    def make(self, memory: LedgerMemory) -> MemoryManager:
        return CheckedManager(CachingManager(memory))


class TestHost(DeviceMemorySuite):
    memory = HostMemory


class TestLedger(DeviceMemorySuite):
    memory = LedgerMemory
