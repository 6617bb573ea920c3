"""Tests of a single block: attributes, alignment, refused requests."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from fl_memory.block import Block
from fl_memory.errors import (
    AllocationError,
    DeviceError,
    OutOfMemoryError,
    UseAfterFreeError,
)
from fl_memory.manager import MemoryManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import LedgerMemory
from fl_memory.testing.suite.base import MIB, ManagerSuite

__tracebackhide__ = hide


class BlockTests(ManagerSuite, official=True):
    """One block: what it says, where it lies, which requests are refused."""

    def test_has_a_name_and_a_threshold(self, mm: MemoryManager) -> None:
        assert isinstance(mm, MemoryManager)
        assert mm.name, "a manager has a name for messages"
        assert mm.small_bytes >= 0

    def test_block_describes_the_request(self, mm: MemoryManager) -> None:
        tag = object()
        block = mm.alloc(1000, device="cpu", alignment=64, stream="s", tag=tag)
        assert isinstance(block, Block)
        assert block.address > 0
        assert block.nbytes == 1000, "nbytes is what was asked for"
        assert block.capacity >= 1000, "capacity is at least what was asked for"
        assert block.device == "cpu"
        assert block.manager is mm, "a block knows the manager that made it"
        assert block.tag is tag and block.stream == "s"
        assert not block.freed
        mm.free(block)
        assert block.freed

    @pytest.mark.parametrize("alignment", [1, 8, 64, 512, 4096, 65536])
    def test_alignment(self, mm: MemoryManager, alignment: int) -> None:
        blocks = [mm.alloc(n, alignment=alignment) for n in (0, 1, 63, 700, 5000, 3 * MIB)]
        for block in blocks:
            assert block.address % alignment == 0, f"{block} is not aligned to {alignment}"
            assert block.capacity >= 1, "a block of 0 bytes has an address of its own"
        self.assert_disjoint(blocks)

    def test_default_alignment_is_a_cache_line(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(n) for n in range(1, 40)]
        assert all(block.address % 64 == 0 for block in blocks)

    def test_empty_blocks_have_addresses_of_their_own(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(0) for _ in range(8)]
        assert all(block.address and block.nbytes == 0 for block in blocks)
        assert len({block.address for block in blocks}) == 8
        assert mm.stats().live_blocks == 8 and mm.stats().live_bytes == 0
        assert len(blocks[0].view()) == 0

    def test_view_is_the_memory(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        block = mm.alloc(777)
        assert memory.home_of(block.address, 777), f"{block} does not lie in the device memory"
        view = block.view()
        assert view.nbytes == 777 and view.format == "B" and not view.readonly
        view[:] = bytes(i % 251 for i in range(777))
        assert bytes(block.view()) == bytes(i % 251 for i in range(777))

    def test_view_keeps_the_block_alive(self, mm: MemoryManager) -> None:
        view = mm.alloc(100).view()
        assert mm.stats().live_blocks == 1
        del view
        assert mm.stats().live_blocks == 0

    def test_view_of_a_freed_block_is_refused(self, mm: MemoryManager) -> None:
        block = mm.alloc(100)
        block.free()
        with pytest.raises(UseAfterFreeError):
            block.view()

    @pytest.mark.parametrize("nbytes", [-1, 1.5, "4", None], ids=repr)
    def test_bad_size(self, mm: MemoryManager, nbytes: Any) -> None:
        with pytest.raises(AllocationError):
            mm.alloc(nbytes)
        assert mm.stats().allocs == 0

    @pytest.mark.parametrize("alignment", [0, 3, -8, 48, 1.5, None], ids=repr)
    def test_bad_alignment(self, mm: MemoryManager, alignment: Any) -> None:
        with pytest.raises(AllocationError):
            mm.alloc(100, alignment=alignment)
        assert mm.stats().allocs == 0

    def test_unknown_device(self, mm: MemoryManager) -> None:
        with pytest.raises(DeviceError):
            mm.alloc(100, device="abacus:3")

    @pytest.mark.parametrize("nbytes", [1 << 50, sys.maxsize, 1 << 70], ids=hex)
    def test_huge_request(self, nbytes: int) -> None:
        mm = self.make(LedgerMemory(limit=1 << 40))
        kept = mm.alloc(5000, tag="kept")
        with pytest.raises(OutOfMemoryError) as caught:
            mm.alloc(nbytes)
        assert caught.value.requested == nbytes
        assert caught.value.device == "cpu"
        assert caught.value.live_bytes == 5000, "the error says what is live"
        assert isinstance(caught.value, MemoryError)
        assert mm.stats().live_bytes == 5000 and mm.stats().allocs == 1
        assert mm.alloc(100).address and kept.address
