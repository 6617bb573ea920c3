"""Native host memory, limits, and devices that other packages announce."""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from collections.abc import Callable

import pytest

import fl_memory as mem
from fl_memory import device
from fl_memory.cli import info
from fl_memory.host import HostMemory
from fl_memory.managers.system import SystemManager
from fl_memory.testing import LedgerMemory


@pytest.mark.skipif(sys.platform != "linux", reason="other systems decide about pages themselves")
@pytest.mark.parametrize("nbytes", [4 << 20, (4 << 20) + 12345, 64 << 20])
def test_large_host_memory_begins_with_a_large_page(nbytes: int) -> None:
    memory = HostMemory()
    address = memory.allocate(nbytes, 64)
    assert address % (2 << 20) == 0
    ctypes.memset(address, 1, nbytes)
    memory.release(address, nbytes)


def test_host_memory_is_aligned_and_writable() -> None:
    memory = HostMemory()
    for alignment in (1, 64, 4096):
        address = memory.allocate(100, alignment)
        assert address and address % alignment == 0
        memory.release(address, 100)
    capacity = memory.capacity()
    assert capacity is None or capacity > 1 << 20, "the memory of the machine, where it is known"


def test_limit_counts_what_is_out() -> None:
    memory = HostMemory(limit=1000)
    first = memory.allocate(600, 64)
    with pytest.raises(mem.OutOfMemoryError, match="500 bytes on cpu.*limit 1000"):
        memory.allocate(500, 64)
    memory.release(first, 600)
    memory.release(memory.allocate(1000, 64), 1000)
    assert memory.capacity() == 1000
    with pytest.raises(mem.AllocationError):
        HostMemory(limit=-1)


@pytest.mark.skipif(sys.platform != "linux", reason="others are not advised")
def test_memory_that_is_not_needed_goes_back_at_once() -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    memory, nbytes = HostMemory(), 64 << 20
    address = memory.allocate(nbytes, 64)
    ctypes.memset(address, 7, nbytes)
    full = resident()
    assert memory.advise(address, nbytes, "free")
    assert resident() < full - nbytes // 2
    assert ctypes.string_at(address, 16) == bytes(16)
    assert not memory.advise(address + 1, 100, "free"), "no page lies whole in the range"
    memory.release(address, nbytes)


@pytest.mark.parametrize("limit", [None, 1 << 80])
def test_more_than_an_address_space(limit: int | None) -> None:
    memory = HostMemory(limit)
    for nbytes in (sys.maxsize + 1, 1 << 70, sys.maxsize - 4096):
        with pytest.raises(mem.OutOfMemoryError):
            memory.allocate(nbytes, 64)
    address = memory.allocate(100, 64)
    memory.release(address, 100)


def test_integers_of_other_libraries_are_sizes() -> None:
    class Five:
        def __index__(self) -> int:
            return 5

    assert SystemManager().alloc(Five()).nbytes == 5  # type: ignore[arg-type]
    assert SystemManager().alloc(True).nbytes == 1


def test_device_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_factories", {})
    monkeypatch.setattr(device, "_memories", {})
    made: list[LedgerMemory] = []

    def factory(name: str) -> LedgerMemory:
        made.append(LedgerMemory(device=name))
        return made[-1]

    mm = mem.REGISTRY.load("caching")()
    with pytest.raises(mem.DeviceError, match=r"'toy:1'.*known kinds: cpu.*register_device"):
        mm.alloc(100, device="toy:1")
    mem.register_device("toy", factory)
    block, host = mm.alloc(5000, device="toy:1"), mm.alloc(300)
    assert block.device == "toy:1" and made[0].home_of(block.address, 5000)
    assert mem.device_memory("toy:1") is made[0] and len(made) == 1
    assert mm.stats("toy:1").live_bytes == 5000 and mm.stats("cpu").live_bytes == 300
    assert mm.stats().live_bytes == 5300 and mm.stats().allocs == 2
    with pytest.raises(mem.DeviceError, match="not addressable"):
        block.view()
    host.free()


def test_a_manager_of_one_memory_leaves_other_devices_to_the_registry() -> None:
    memory = LedgerMemory(device="toy:9")
    mm = SystemManager(memory)
    block = mm.alloc(10, device="toy:9")
    assert memory.home_of(block.address, 10)
    assert mm.alloc(10).device == "cpu"


def test_messages_show_the_figures() -> None:
    mm = SystemManager(HostMemory(limit=10_000))
    kept = mm.alloc(6000)
    with pytest.raises(mem.OutOfMemoryError) as caught:
        mm.alloc(7000)
    text = str(caught.value)
    assert "[alloc] 7000 bytes on cpu: out of memory" in text
    assert "live 6000" in text and "limit 10000" in text and "free tensors" in text
    assert "6000 of 6000 bytes on cpu" in repr(kept)


def test_stats_are_values() -> None:
    mm = SystemManager()
    a, b = mm.stats(), mm.stats()
    assert a == b and a.as_dict()["allocs"] == 0 and "live_bytes=0" in repr(a)
    block = mm.alloc(7)
    assert mm.stats() != a and (mm.stats() + mm.stats()).live_bytes == 14
    block.free()
    with pytest.raises(TypeError, match="no field bytes"):
        mem.Stats(bytes=3)


TOY = """
from fl_memory.testing import LedgerMemory


class ToyMemory(LedgerMemory):
    CONTRACT = (1, 0)

    def __init__(self, device):
        super().__init__(device=device)
"""


def test_device_of_an_installed_package(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_memories", {})
    install("acme-toy", "1.0", {device.DEVICES.group: {"toy": "acme_toy:ToyMemory"}}, acme_toy=TOY)
    broken = {device.DEVICES.group: {"broken": "acme_broken:Memory"}}
    install("acme-broken", "1.0", broken, acme_broken="import nothing_of_that_name")
    device.DEVICES.refresh()
    try:
        block = SystemManager().alloc(100, device="toy:1")
        assert type(mem.device_memory("toy:1")).__name__ == "ToyMemory" and block.device == "toy:1"
        with pytest.raises(mem.PluginError, match="acme-broken 1.0.*nothing_of_that_name"):
            mem.device_memory("broken")
        with pytest.raises(mem.DeviceError, match="'abacus'.*known kinds: .*cpu.*toy"):
            mem.device_memory("abacus")
    finally:
        device.DEVICES.refresh()


def test_all_memory_of_the_host_is_one_device() -> None:
    with pytest.raises(mem.DeviceError, match="'cpu:1'.*all memory of the host"):
        mem.device_memory("cpu:1")


def test_what_is_installed_is_listed(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme-toy", "1.0", {device.DEVICES.group: {"toy": "acme_toy:ToyMemory"}}, acme_toy=TOY)
    install("acme-bad", "2.0", {mem.REGISTRY.group: {"bad": "acme_bad:Manager"}}, acme_bad="")
    device.DEVICES.refresh()
    mem.REGISTRY.refresh()
    try:
        assert info.main([]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["toy", "acme-toy", "1.0", "acme_toy:ToyMemory"] in rows
        (bad,) = [row for row in rows if row[0] == "bad"]
        assert bad[1:3] == ["acme-bad", "2.0"] and "imported" in bad
        assert info.main(["--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {"caching", "system", "bad"} <= {facts["name"] for facts in found["managers"]}
        assert {"cpu", "toy"} <= {facts["name"] for facts in found["devices"]}
    finally:
        device.DEVICES.refresh()
        mem.REGISTRY.refresh()
