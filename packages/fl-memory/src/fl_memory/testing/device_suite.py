"""The conformance suite of ``DeviceMemory``.

from acme import AcmeMemory
from fl_memory.testing import DeviceMemorySuite

class TestAcme(DeviceMemorySuite):
    memory = AcmeMemory

    def make(self, limit=None):
        return AcmeMemory("acme:0", limit=limit)
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from fl_memory.errors import AllocationError, OutOfMemoryError
from fl_memory.manager import ADVICE, HOST, DeviceMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.testing.kit import Suite, hide
from fl_memory.testing.ledger import BlockLedger
from fl_memory.testing.suite.base import in_threads

__tracebackhide__ = hide

MIB = 1 << 20
#: Sizes around words, pages and huge pages.
SIZES = (1, 7, 64, 4095, 4096, 4097, 100_000, MIB, 4 * MIB + 12_345)


class DeviceMemorySuite(Suite, official=True):
    """Derive, name the class ``Test...``, set ``memory`` to the class under test.

    Override ``make(limit)`` when the class is not constructed as ``memory(limit=limit)``; it skips
    the test by ``pytest.skip`` where the memory has no limit of its own. Override ``read`` and
    ``write`` where the host cannot reach the memory.
    """

    subject = "memory"
    what = "device memory"
    host = HOST
    host_package = "fl-memory"
    hooks = ("make", "read", "write")

    memory: ClassVar[Any] = None

    def make(self, limit: int | None = None) -> DeviceMemory:
        """A memory of which at most ``limit`` bytes may be out at once (None: no limit)."""
        made: DeviceMemory = type(self).memory(limit=limit)
        return made

    def write(self, memory: DeviceMemory, address: int, data: bytes) -> None:
        """Copy ``data`` to ``address``."""
        ctypes.memmove(address, data, len(data))

    def read(self, memory: DeviceMemory, address: int, nbytes: int) -> bytes:
        """The bytes from ``address`` on."""
        return ctypes.string_at(address, nbytes)

    @pytest.fixture
    def device(self) -> DeviceMemory:
        return self.make()

    @pytest.fixture
    def filled(self, device: DeviceMemory) -> Iterator[tuple[int, bytes]]:
        """Memory with known bytes in it."""
        data = _pattern(2 * MIB + 4321)
        address = device.allocate(len(data), 64)
        self.write(device, address, data)
        yield address, data
        device.release(address, len(data))

    def test_names_its_device(self, device: DeviceMemory) -> None:
        assert isinstance(device, DeviceMemory)
        kind, _, index = device.device.partition(":")
        assert kind.isidentifier() and (not index or index.isdigit())

    @pytest.mark.parametrize("alignment", [1, 8, 64, 512, 4096, 65536])
    def test_alignment(self, device: DeviceMemory, alignment: int) -> None:
        for nbytes in SIZES:
            address = device.allocate(nbytes, alignment)
            try:
                assert address > 0 and address % alignment == 0
            finally:
                device.release(address, nbytes)

    def test_allocations_are_disjoint_and_keep_their_bytes(self, device: DeviceMemory) -> None:
        books, held = BlockLedger(), []
        for i, nbytes in enumerate(SIZES * 3):
            address = device.allocate(nbytes, 64)
            books.add(address, nbytes, nbytes)
            data = _pattern(nbytes, i)
            self.write(device, address, data)
            held.append((address, data))
        for address, data in held:
            _assert_same_bytes(
                self.read(device, address, len(data)), data, "bytes of a live allocation"
            )
        for address, data in held:
            device.release(address, len(data))

    def test_released_memory_can_be_allocated_again(self) -> None:
        device = self.make(limit=8 * MIB)
        for _ in range(20):
            address = device.allocate(6 * MIB, 64)
            device.release(address, 6 * MIB)

    def test_limit(self) -> None:
        device = self.make(limit=8 * MIB)
        assert device.capacity() == 8 * MIB
        held = device.allocate(5 * MIB, 64)
        with pytest.raises(OutOfMemoryError) as caught:
            device.allocate(4 * MIB, 64)
        assert (caught.value.requested, caught.value.device) == (4 * MIB, device.device)
        rest = device.allocate(2 * MIB, 64)
        device.release(rest, 2 * MIB)
        device.release(held, 5 * MIB)
        device.release(device.allocate(8 * MIB, 64), 8 * MIB)

    def test_capacity(self, device: DeviceMemory) -> None:
        capacity = device.capacity()
        assert capacity is None or (type(capacity) is int and capacity > 0)

    @pytest.mark.parametrize("nbytes", [1 << 60, (1 << 63) - 1, 1 << 70], ids=hex)
    def test_huge_request(self, device: DeviceMemory, nbytes: int) -> None:
        with pytest.raises(OutOfMemoryError):
            device.allocate(nbytes, 64)
        device.release(device.allocate(100, 64), 100)

    @pytest.mark.parametrize("advice", ["cold", "willneed"])
    def test_advice_keeps_bytes(
        self, device: DeviceMemory, filled: tuple[int, bytes], advice: str
    ) -> None:
        address, data = filled
        for start, stop in ((0, len(data)), (1, 100), (4000, 9001), (12_288, 20_480), (5, 5)):
            assert device.advise(address + start, stop - start, advice) in (True, False)
            _assert_same_bytes(self.read(device, address, len(data)), data, f"advice {advice!r}")
        self.write(device, address, data[::-1])
        _assert_same_bytes(self.read(device, address, len(data)), data[::-1], "bytes after a write")

    def test_freed_bytes_are_lost_alone(
        self, device: DeviceMemory, filled: tuple[int, bytes]
    ) -> None:
        address, data = filled
        for start, stop in ((1, 100), (4000, 9001), (300_000, 300_000 + MIB)):
            assert device.advise(address + start, stop - start, "free") in (True, False)
            before = self.read(device, address, start)
            _assert_same_bytes(before, data[:start], "bytes before the range")
            rest = self.read(device, address + stop, len(data) - stop)
            _assert_same_bytes(rest, data[stop:], "bytes behind the range")
            self.write(device, address + start, data[start:stop])
            whole = self.read(device, address, len(data))
            _assert_same_bytes(whole, data, "the memory is still allocated")

    def test_unknown_advice(self, device: DeviceMemory, filled: tuple[int, bytes]) -> None:
        address, data = filled
        if type(device).advise is DeviceMemory.advise:
            pytest.skip("advises nothing")
        with pytest.raises(AllocationError, match=ADVICE[0]):
            device.advise(address, len(data), "hot")

    def test_work_of_streams_ends(self, device: DeviceMemory) -> None:
        event = device.record_event(None)
        assert device.is_complete(event, wait=True) is True
        assert device.is_complete(event) is True

    def test_pinned_host_memory(self, device: DeviceMemory) -> None:
        pinned = device.pinned_host_memory()
        if pinned is None:
            pytest.skip("copies need none")
        assert pinned.device == "cpu", "it is memory of the host"
        address, data = pinned.allocate(100_000, 512), _pattern(100_000)
        assert address % 512 == 0
        ctypes.memmove(address, data, len(data))
        _assert_same_bytes(ctypes.string_at(address, len(data)), data, "pinned memory")
        pinned.release(address, len(data))
        assert pinned.is_complete(pinned.record_event(None), wait=True) is True

    def test_threads(self, device: DeviceMemory) -> None:
        def work(seed: int) -> None:
            for i in range(100):
                nbytes = SIZES[(seed + i) % len(SIZES)] % 100_001 or 1
                address = device.allocate(nbytes, 64)
                data = _pattern(nbytes, seed)
                self.write(device, address, data)
                _assert_same_bytes(
                    self.read(device, address, nbytes), data, "two threads share memory"
                )
                device.release(address, nbytes)

        in_threads(work, 4)

    def test_a_manager_runs_on_it(self, device: DeviceMemory) -> None:
        manager = CachingManager(device)
        blocks = [manager.alloc(n, device=device.device) for n in SIZES]
        for i, block in enumerate(blocks):
            self.write(device, block.address, _pattern(block.nbytes, i))
        for i, block in enumerate(blocks):
            held = self.read(device, block.address, block.nbytes)
            _assert_same_bytes(held, _pattern(block.nbytes, i), "block of a manager")
        blocks.clear()
        del block
        manager.release_cached()
        assert manager.stats().reserved_bytes == 0


def _pattern(nbytes: int, seed: int = 0) -> bytes:
    word = ((seed + 1) * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "little")
    return (word * (nbytes // 8 + 1))[:nbytes]


def _assert_same_bytes(found: bytes, expected: bytes, what: str) -> None:
    """Name the first difference. ``assert found == expected`` would make pytest print a diff of
    megabytes where ``CI`` is set, which takes hours."""
    if found == expected:
        return
    assert len(found) == len(expected), f"{what}: {len(found)} bytes, expected {len(expected)}"
    at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
    raise AssertionError(f"{what}: byte {at} is {found[at]}, expected {expected[at]}")
