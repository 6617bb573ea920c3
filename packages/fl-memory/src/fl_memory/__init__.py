"""Memory managers: allocation, caching, statistics.

import fl_memory as mem

block = mem.current().alloc(1 << 20, tag="weights")
with mem.use("system"):
    ...                     # every tensor made here is a native allocation
mem.current().stats()
"""

from __future__ import annotations

from fl_memory._version import __version__
from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.block import Block
from fl_memory.causes import Cause, cause, current_cause
from fl_memory.device import device_memory, register_device
from fl_memory.errors import (
    AllocationError,
    BlockError,
    ContractError,
    DeviceError,
    DoubleFreeError,
    FlError,
    MissingError,
    OutOfMemoryError,
    PluginError,
    TraceError,
    UseAfterFreeError,
    WrongManagerError,
)
from fl_memory.events import Event
from fl_memory.forks import free_after_fork
from fl_memory.instrumentation import register_instrumentation
from fl_memory.manager import HOST, SMALL_BYTES, DeviceMemory, MemoryManager
from fl_memory.observation import Usage, observe
from fl_memory.plugins import Registry
from fl_memory.selection import REGISTRY, available, current, get, limit, mark, use
from fl_memory.snapshot import memory_snapshot
from fl_memory.stats import Stats
from fl_memory.tags import TAGS, current_tag, tagged
from fl_memory.usage import on_usage

__all__ = [
    "Account",
    "AccountingManager",
    "AllocationError",
    "Block",
    "BlockError",
    "Cause",
    "ContractError",
    "DeviceError",
    "DeviceMemory",
    "DoubleFreeError",
    "Event",
    "FlError",
    "HOST",
    "MemoryManager",
    "MissingError",
    "OutOfMemoryError",
    "PluginError",
    "REGISTRY",
    "Registry",
    "SMALL_BYTES",
    "Stats",
    "TAGS",
    "TraceError",
    "Usage",
    "UseAfterFreeError",
    "WrongManagerError",
    "__version__",
    "available",
    "cause",
    "current",
    "current_cause",
    "current_tag",
    "device_memory",
    "free_after_fork",
    "get",
    "limit",
    "mark",
    "memory_snapshot",
    "observe",
    "on_usage",
    "register_device",
    "register_instrumentation",
    "tagged",
    "use",
]
