"""The native memory of each device: "cpu" is built in, other packages bring theirs.

A package offers a class in the entry-point group ``fl.memory.device.v1``, under the kind of device
("cuda" for "cuda:0"), or calls ``register_device``. It is imported when the device is first used.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fl_memory.errors import DeviceError
from fl_memory.forks import free_after_fork
from fl_memory.manager import HOST, DeviceMemory
from fl_memory.plugins import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEVICES", "device_memory", "register_device"]

#: Device memories by the kind of device.
DEVICES = Registry(
    group="fl.memory.device.v1",
    what="device memory",
    host=HOST,
    host_package="fl-memory",
    base=DeviceMemory,
    builtins={"cpu": "fl_memory.host:HostMemory"},
)

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
    """The process's one native memory of ``device``.

    Raises DeviceError when no package brings it or there is no such device, PluginError and
    ContractError when the package is broken.
    """
    if not isinstance(device, str):
        raise DeviceError(f"device {device!r}: expected a name, such as 'cpu' or 'cuda:0'")
    found = _memories.get(device)
    if found is not None:
        return found
    kind = device.partition(":")[0]
    with _lock:
        factory = _factories.get(kind)
    if factory is None:
        if device != "cpu" and kind not in DEVICES.names():  # which reads metadata
            known = ", ".join(sorted({*DEVICES.names(), *_factories}))
            raise DeviceError(
                f"[alloc] no memory for device {device!r}; known kinds: {known}; the package that "
                f"drives a device offers a class in the entry-point group {DEVICES.group!r}, or "
                f"calls fl_memory.register_device(kind, factory)"
            )
        factory = DEVICES.load(kind).for_device
    made = factory(device)
    with _lock:
        return _memories.setdefault(device, made)
