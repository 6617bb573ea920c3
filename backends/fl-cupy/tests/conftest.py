"""An imitation of ``cupy.cuda`` on the host, and the choice between it and the real one."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the other imitation
#: The memory of a device needs fl-memory alone, the communicator needs `fl-cupy[nccl]`.
collect_ignore = [] if find_spec("fl_dist") else ["test_nccl.py"]


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__({2: "cudaErrorMemoryAllocation", 100: "cudaErrorNoDevice"}[status])


class Runtime:
    """``cupy.cuda.runtime`` with two devices of 4 GiB in host memory; it checks its arguments."""

    CUDARuntimeError = CUDARuntimeError
    total = 4 << 30
    #: Bytes of the host that can be page-locked.
    lockable = 1 << 30

    def __init__(self) -> None:
        self.count = 2
        self.current = 0
        self.out: dict[int, tuple[int, int, Any]] = {}
        self.locked: dict[int, tuple[int, Any]] = {}

    def getDeviceCount(self) -> int:
        if self.count == 0:
            raise CUDARuntimeError(100)
        return self.count

    def memGetInfo(self) -> tuple[int, int]:
        used = sum(size for device, size, _ in self.out.values() if device == self.current)
        return self.total - used, self.total

    def malloc(self, nbytes: int) -> int:
        assert 0 < nbytes < 1 << 63
        if nbytes > self.memGetInfo()[0]:
            raise CUDARuntimeError(2)
        buffer = ctypes.create_string_buffer(nbytes + 512)
        # Aligned to 256 bytes, and to no more.
        address = (ctypes.addressof(buffer) + 255) // 512 * 512 + 256
        self.out[address] = (self.current, nbytes, buffer)
        return address

    def free(self, address: int) -> None:
        device, _, _ = self.out.pop(address)
        assert device == self.current, "freed on another device"

    def hostAlloc(self, nbytes: int, flags: int) -> int:
        assert 0 < nbytes < 1 << 63 and flags == 1
        if sum(size for size, _ in self.locked.values()) + nbytes > self.lockable:
            raise CUDARuntimeError(2)
        buffer = ctypes.create_string_buffer(nbytes + 64)
        # Aligned to 16 bytes, and to no more.
        address = (ctypes.addressof(buffer) + 15) // 32 * 32 + 16
        self.locked[address] = (nbytes, buffer)
        return address

    def freeHost(self, address: int) -> None:
        del self.locked[address]


class Device:
    def __init__(self, runtime: Runtime, index: int) -> None:
        self.runtime, self.index = runtime, index

    def __enter__(self) -> None:
        self.before, self.runtime.current = self.runtime.current, self.index

    def __exit__(self, *error: object) -> None:
        self.runtime.current = self.before


class Stream:
    null: Stream

    def __init__(self, ptr: int = 0) -> None:
        self.ptr = ptr
        self.is_working = False


Stream.null = Stream()


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        assert disable_timing
        self.stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def done(self) -> bool:
        assert self.stream is not None
        return not self.stream.is_working

    def synchronize(self) -> None:
        assert self.stream is not None
        self.stream.is_working = False


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The imitation, in place of ``cupy``; nothing may be out at the end."""
    runtime = Runtime()
    made = SimpleNamespace(
        runtime=runtime,
        Device=lambda index: Device(runtime, index),
        Stream=Stream,
        ExternalStream=Stream,
        Event=Event,
    )
    module: Any = ModuleType("cupy")
    module.cuda = made
    monkeypatch.setitem(sys.modules, "cupy", module)
    yield made
    assert not runtime.out and not runtime.locked, "memory was not given back"
