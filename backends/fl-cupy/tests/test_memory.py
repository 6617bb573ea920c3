"""The memory of CUDA devices, on an imitation of CuPy."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import fl_memory as mem
from fl_cupy import CudaMemory
from fl_memory import DeviceMemory
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing import DeviceMemorySuite

MIB = 1 << 20


@pytest.mark.usefixtures("cuda")
class TestCudaMemory(DeviceMemorySuite):
    memory = CudaMemory

    def make(self, limit: int | None = None) -> CudaMemory:
        return CudaMemory("cuda:1", limit=limit)


@pytest.mark.usefixtures("cuda")
class TestPinnedHostMemory(DeviceMemorySuite):
    memory = CudaMemory

    def make(self, limit: int | None = None) -> DeviceMemory:
        if limit is not None:
            pytest.skip("no limit of its own")
        return CudaMemory().pinned_host_memory()


def test_capacity_is_that_of_the_device(cuda: SimpleNamespace) -> None:
    assert CudaMemory().capacity() == cuda.runtime.total
    assert CudaMemory(limit=MIB).capacity() == MIB


def test_the_device_is_exhausted(cuda: SimpleNamespace) -> None:
    memory = CudaMemory("cuda:1")
    with pytest.raises(mem.OutOfMemoryError, match="on cuda:1.*capacity 4294967296") as caught:
        memory.allocate(5 << 30, 64)
    assert caught.value.requested == 5 << 30


def test_memory_goes_back_to_its_device(cuda: SimpleNamespace) -> None:
    first, second = CudaMemory("cuda:0"), CudaMemory("cuda:1")
    a, b = first.allocate(100, 64), second.allocate(100, 4096)
    assert b % 4096 == 0 and [device for device, _, _ in cuda.runtime.out.values()] == [0, 1]
    second.release(b, 100)
    first.release(a, 100)


@pytest.mark.parametrize("name", ["cuda:2", "cuda:x", "cpu", "cuda:-1", "cuda1"])
def test_devices_that_are_not_there(cuda: SimpleNamespace, name: str) -> None:
    with pytest.raises(mem.DeviceError, match=name):
        CudaMemory(name)


def test_no_driver(cuda: SimpleNamespace) -> None:
    cuda.runtime.count = 0
    with pytest.raises(mem.DeviceError, match="cudaErrorNoDevice.*driver"):
        CudaMemory()


@pytest.mark.parametrize("limit", [-1, 1.5, "8 GiB"])
def test_limits_that_make_no_sense(cuda: SimpleNamespace, limit: Any) -> None:
    with pytest.raises(mem.AllocationError, match=f"limit of {limit!r} bytes"):
        CudaMemory(limit=limit)


def test_other_errors_of_the_runtime_are_no_lack_of_memory(cuda: SimpleNamespace) -> None:
    def malloc(nbytes: int) -> int:
        raise cuda.runtime.CUDARuntimeError(100)

    cuda.runtime.malloc = malloc
    with pytest.raises(mem.DeviceError, match="100 bytes on cuda:0: cudaErrorNoDevice"):
        CudaMemory().allocate(100, 64)


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(mem.DeviceError, match=r"needs CuPy.*fl-cupy\[cuda12\]"):
        CudaMemory()


def test_import_loads_no_cupy() -> None:
    code = "import fl_cupy, sys; assert not {'cupy', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_waits_for_the_second_stream(cuda: SimpleNamespace) -> None:
    manager = CachingManager(CudaMemory())
    copy = cuda.Stream(7)
    block = manager.alloc(3 * MIB, device="cuda:0")
    address = block.address
    manager.record_stream(block, copy)
    copy.is_working = True
    block.free()
    assert manager.stats("cuda:0").live_blocks == 1
    other = manager.alloc(3 * MIB, device="cuda:0")
    assert other.address != address
    copy.is_working = False
    assert manager.stats("cuda:0").live_blocks == 1
    again = manager.alloc(3 * MIB, device="cuda:0")
    assert again.address == address
    del other, again
    manager.release_cached()


def test_streams_by_address_and_the_default_stream(cuda: SimpleNamespace) -> None:
    memory = CudaMemory()
    assert memory.record_event(7).stream.ptr == 7
    assert memory.record_event(None).stream is cuda.Stream.null
    event = memory.record_event(stream := cuda.Stream(5))
    stream.is_working = True
    assert not memory.is_complete(event)
    assert memory.is_complete(event, wait=True)


def test_managers_find_it_by_the_name_of_the_device(cuda: SimpleNamespace) -> None:
    """Through the entry point of the installed distribution."""
    manager = SystemManager()
    block = manager.alloc(100, device="cuda:1")
    assert isinstance(mem.device_memory("cuda:1"), CudaMemory)
    assert mem.device_memory("cuda:1").device == "cuda:1"
    with pytest.raises(mem.DeviceError, match="not addressable"):
        block.view()
    with pytest.raises(mem.DeviceError, match="cuda:5"):
        manager.alloc(100, device="cuda:5")
    block.free()


def test_a_batch_in_pinned_memory_waits_for_its_copy(cuda: SimpleNamespace) -> None:
    manager = CachingManager(CudaMemory("cuda:1").pinned_host_memory())
    copy = cuda.Stream(7)
    batch = manager.alloc(3 * MIB)
    batch.view()[:3] = b"abc"  # the host reaches it
    address = batch.address
    manager.record_stream(batch, copy)
    copy.is_working = True
    batch.free()
    other = manager.alloc(3 * MIB)
    assert other.address != address
    copy.is_working = False
    manager.stats()
    assert manager.alloc(3 * MIB).address == address
    del other
    manager.release_cached()


def test_no_more_pages_can_be_locked(cuda: SimpleNamespace) -> None:
    cuda.runtime.lockable = 10 * MIB
    manager = SystemManager(CudaMemory().pinned_host_memory())
    kept = manager.alloc(8 * MIB)
    with pytest.raises(mem.OutOfMemoryError, match="on cpu.*locks no more pages"):
        manager.alloc(4 * MIB)
    kept.free()


def test_the_host_needs_no_pinned_memory() -> None:
    assert HostMemory().pinned_host_memory() is None


@pytest.fixture(autouse=True)
def no_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test finds the memory of its own devices."""
    from fl_memory import device

    monkeypatch.setattr(device, "_memories", {})
