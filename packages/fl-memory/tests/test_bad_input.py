"""What makes no sense is an error of this library at once, and changes nothing."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fl_memory as mem
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.traces import AddressMemory

MIB = 1 << 20
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="FileMemory needs Linux")


@pytest.mark.parametrize("name", mem.available())
@pytest.mark.parametrize("memory", [HostMemory, AddressMemory])
def test_a_device_of_capacity_0(name: str, memory: Callable[[int], mem.DeviceMemory]) -> None:
    manager = mem.REGISTRY.load(name)(memory(0))
    assert manager.reserve_hint(1000) == 0
    for nbytes in (0, 1, MIB):
        with pytest.raises(mem.OutOfMemoryError, match=f"{nbytes} bytes on cpu.*limit 0 bytes"):
            manager.alloc(nbytes)
    manager.mark("step", 1)
    assert manager.release_cached() == 0
    assert manager.stats().as_dict() == mem.Stats().as_dict()


@pytest.mark.parametrize("limit", [-1, 1.5, "64", float("nan"), []], ids=repr)
def test_limits(limit: Any, tmp_path: Path) -> None:
    manager = SystemManager()
    makers: list[Callable[[], object]] = [
        lambda: HostMemory(limit),
        lambda: AddressMemory(limit),
        lambda: manager.set_limit(limit),
        lambda: mem.limit(limit),
    ]
    if sys.platform == "linux":
        from fl_memory.swapping import FileMemory

        makers.append(lambda: FileMemory(tmp_path, limit=limit))
    for make in makers:
        with pytest.raises(mem.AllocationError, match="(limit|capacity) of .*: give an integer"):
            make()
    assert manager.set_limit(None) is None, "no limit was set"


def test_no_limit_is_no_limit_of_a_block() -> None:
    with mem.use(SystemManager()) as manager:
        manager.set_limit(5)
        with pytest.raises(mem.AllocationError, match="number of bytes"):
            mem.limit(None)  # type: ignore[arg-type]
        assert manager.set_limit(None) == 5


def test_a_limit_does_not_outlive_an_observer_that_fails() -> None:
    def fail(event: mem.Event) -> None:
        raise OSError("full")

    with mem.use(CachingManager()) as manager:
        manager.alloc(3 * MIB).free()
        stop = manager.on_event(fail)
        with pytest.raises(OSError, match="full"), mem.limit(MIB):
            pass
        stop()
        assert manager.set_limit(None) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: CachingManager(small_bytes=-1),
        lambda: SystemManager(small_bytes="4096"),  # type: ignore[arg-type]
        lambda: SystemManager(3),  # type: ignore[arg-type]
        lambda: mem.mark(3),  # type: ignore[arg-type]
        lambda: mem.mark("step", 1.5),  # type: ignore[arg-type]
        lambda: mem.on_usage(100, print, fractions=("much",)),  # type: ignore[arg-type]
    ],
)
def test_arguments(call: Callable[[], object]) -> None:
    before = mem.current_cause()
    with pytest.raises(mem.AllocationError, match="give|expected"):
        call()
    assert mem.current_cause() == before


@pytest.mark.parametrize(
    "call",
    [
        lambda given: mem.use(given),
        lambda given: mem.observe(given),
        lambda given: mem.on_usage(100, print, manager=given),
    ],
)
def test_managers_are_objects_or_names(call: Callable[[Any], object]) -> None:
    for wrong in (3, "nobody"):
        with pytest.raises(mem.PluginError, match="one of: .*caching|there are: .*caching"):
            call(wrong)
    with mem.use("system") as manager, mem.observe("system") as seen:
        manager.alloc(5000).free()
    assert seen.allocated() == [((), 1, 5000)]


@on_linux
def test_a_file_system_that_becomes_full_while_swapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fl_memory.swapping import FileMemory, Swapper

    real = os.posix_fallocate

    def full(descriptor: int, offset: int, nbytes: int) -> None:
        real(descriptor, offset, nbytes // 2)  # the file system gives what it has
        raise OSError(errno.ENOSPC, "No space left on device")

    memory = FileMemory(tmp_path)
    manager = SystemManager(memory)
    with Swapper(memory, 16 * MIB) as swapper:
        swapper.watch(manager)
        blocks = [manager.alloc(4 * MIB) for _ in range(8)]
        for value, block in enumerate(blocks):
            block.view()[:] = bytes([value]) * block.nbytes
        size = os.fstat(memory._file.fileno()).st_size
        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(mem.OutOfMemoryError, match="no room for it"):
            manager.alloc(4 * MIB)
        assert os.fstat(memory._file.fileno()).st_size == size, "nothing half reserved"
        assert manager.stats().live_blocks == 8
        monkeypatch.undo()
        more = manager.alloc(4 * MIB)
        more.view()[:] = b"m" * more.nbytes
        for value, block in enumerate(blocks):
            assert bytes(block.view()) == bytes([value]) * block.nbytes


@on_linux
def test_a_swapper_takes_memory_that_can_leave(tmp_path: Path) -> None:
    from fl_memory.swapping import FileMemory, Swapper

    with pytest.raises(mem.AllocationError, match="give a FileMemory"):
        Swapper(HostMemory(), MIB)  # type: ignore[arg-type]
    memory = FileMemory(tmp_path)
    with pytest.raises(mem.AllocationError, match="period"):
        Swapper(memory, MIB, period="soon")  # type: ignore[arg-type]
    with pytest.raises(mem.AllocationError, match="give a MemoryManager"):
        Swapper(memory, MIB).watch("caching")  # type: ignore[arg-type]
