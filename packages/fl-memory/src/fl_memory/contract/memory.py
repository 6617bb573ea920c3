"""The memory contract and its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.block import Block
from fl_memory.causes import Cause, cause, current_cause
from fl_memory.contract import manifest, signature_text
from fl_memory.contract.cards import meanings, whole
from fl_memory.contract.series import Contract
from fl_memory.device import DEVICES, device_memory, register_device
from fl_memory.errors import (
    AllocationError,
    BlockError,
    DeviceError,
    DoubleFreeError,
    OutOfMemoryError,
    UseAfterFreeError,
    WrongManagerError,
)
from fl_memory.events import Event
from fl_memory.forks import free_after_fork
from fl_memory.manager import ADVICE, HOST, SMALL_BYTES, DeviceMemory, MemoryManager
from fl_memory.selection import REGISTRY, available, current, get, limit, mark, use
from fl_memory.stats import Stats
from fl_memory.tags import TAGS, current_tag, tagged

__all__ = ["PINNED", "contract_manifest"]

#: The classes of the contract, and which of their data fields belong to it.
CLASSES = {
    DeviceMemory: ("device", "lazy_commit"),
    MemoryManager: ("name", "small_bytes"),
    AccountingManager: (),
    Account: ("limit", "live_bytes", "memory", "reserved_bytes", "used_bytes"),
    Block: tuple(name for name in Block.__slots__ if not name.startswith("_")),
    Stats: Stats.FIELDS,
    Event: Event.__slots__,
    Cause: Cause._fields,
    OutOfMemoryError: tuple(OutOfMemoryError.__annotations__),
}
#: What the members raise, beside OutOfMemoryError.
ERRORS = (
    AllocationError,
    BlockError,
    DeviceError,
    DoubleFreeError,
    UseAfterFreeError,
    WrongManagerError,
)
#: Members for devices with streams, or without page faults. They may change until they have run
#: on one.
PROVISIONAL = (
    "Block.pinned",
    "Block.stream",
    "DeviceMemory.is_complete",
    "DeviceMemory.pinned_host_memory",
    "DeviceMemory.record_event",
    "Event.stream",
    "MemoryManager.pin",
    "MemoryManager.record_stream",
    "MemoryManager.unpin",
)
#: What tensor backends, programs and layers above call.
FUNCTIONS = (
    available,
    cause,
    current,
    current_cause,
    current_tag,
    device_memory,
    free_after_fork,
    get,
    limit,
    mark,
    register_device,
    tagged,
    use,
)


def contract_manifest() -> dict[str, Any]:
    """The memory contract as data; what ``contracts/memory-1.0.json`` pins."""
    return manifest(
        "memory",
        HOST,
        CLASSES,
        provisional=PROVISIONAL,
        group=REGISTRY.group,
        device_group=DEVICES.group,
        event_kinds=list(Event.KINDS),
        tags=list(TAGS),
        small_bytes=SMALL_BYTES,
        advice=list(ADVICE),
        errors={e.__name__: ", ".join(base.__name__ for base in e.__bases__) for e in ERRORS},
        functions={function.__name__: _function(function) for function in FUNCTIONS},
    )


def _function(function: Callable[..., object]) -> dict[str, str]:
    text = signature_text(function)
    if isinstance(function, type):  # what its constructor returns says nothing
        return {"kind": "context manager", "signature": text.removesuffix(" -> None")}
    return {"kind": "function", "signature": text}


PINNED = Contract(
    name="memory",
    folder=Path(__file__).resolve().parent.parent / "contracts",
    build=contract_manifest,
    descriptions=lambda: {
        "": (
            "Provisional members, and the arguments `stream`, are for devices with streams, or "
            "without page faults. They may change in a minor version until they have run on one."
        ),
        **meanings(CLASSES),
        **{f"functions.{f.__name__}": whole(f.__doc__) for f in FUNCTIONS},
    },
    module="fl_memory.contract",
    version_location="HOST in fl_memory/manager.py",
)
