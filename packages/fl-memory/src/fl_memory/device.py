"""The native memory of each device: "cpu" is built in, other packages register theirs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fl_memory.errors import DeviceError
from fl_memory.forks import free_after_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from fl_memory.manager import DeviceMemory

_factories: dict[str, Callable[[str], DeviceMemory]] = {}
_memories: dict[str, DeviceMemory] = {}
_lock = free_after_fork(threading.Lock())


def register_device(kind: str, factory: Callable[[str], DeviceMemory]) -> None:
    """``factory("cuda:0")`` makes the memory of a device of this kind ("cuda") on first use.

    Managers that were not handed a memory for such a device find it here. DeviceError for a kind
    that is no word, and for a factory that cannot be called.
    """
    if not isinstance(kind, str) or not kind.isidentifier() or not callable(factory):
        raise DeviceError(
            f"register_device({kind!r}, {factory!r}): expected a word, such as 'cuda', and a "
            f"function of the device's name"
        )
    with _lock:
        _factories[kind] = factory


def device_memory(device: str) -> DeviceMemory:
    """The process's one native memory of ``device``; DeviceError when nobody registered it."""
    if not isinstance(device, str):
        raise DeviceError(f"device {device!r}: expected a name, such as 'cpu' or 'cuda:0'")
    found = _memories.get(device)
    if found is not None:
        return found
    kind = device.partition(":")[0]
    with _lock:
        factory = _factories.get(kind)
    if factory is None and device == "cpu":
        from fl_memory.host import HostMemory

        factory = HostMemory.for_device
    if factory is None:
        known = ", ".join(sorted({"cpu", *_factories}))
        raise DeviceError(
            f"[alloc] no memory for device {device!r}; known kinds: {known}; the package that "
            f"drives a device announces it with fl_memory.register_device(kind, factory)"
        )
    made = factory(device)
    with _lock:
        return _memories.setdefault(device, made)
