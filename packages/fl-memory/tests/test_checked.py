"""CheckedManager finds what users and managers do wrong."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable

import pytest

import fl_memory as mem
from fl_memory import Account, Block, BlockError
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing import CheckedManager, LedgerMemory


@pytest.fixture
def checked() -> CheckedManager:
    return CheckedManager(CachingManager(LedgerMemory()))


def test_an_honest_run_has_no_faults(checked: CheckedManager) -> None:
    with mem.use(checked):
        blocks = [mem.current().alloc(n, tag=n) for n in (0, 5, 5000, 1 << 21)]
        for block in blocks:
            block.view()[:] = b"x" * block.nbytes
    blocks.clear()
    del block
    checked.verify()
    assert checked.faults == [] and checked.leaks() == []


def test_double_free_and_wrong_manager(checked: CheckedManager) -> None:
    block = checked.alloc(100)
    block.free()
    with pytest.raises(mem.DoubleFreeError, match="100 bytes on cpu"):
        checked.free(block)
    with pytest.raises(mem.WrongManagerError, match="'system'.*'checked'"):
        checked.free(SystemManager().alloc(10))


def test_write_after_free_is_found(checked: CheckedManager) -> None:
    block = checked.alloc(5000, tag="stale")
    address = block.address
    block.free()
    checked.verify()
    ctypes.memset(address + 1234, 7, 1)
    with pytest.raises(mem.UseAfterFreeError, match="5000 bytes after it was freed"):
        checked.verify()
    assert len(checked.faults) == 1


def test_freed_memory_reads_as_poison_and_is_not_lent_at_once(checked: CheckedManager) -> None:
    block = checked.alloc(5000)
    address = block.address
    assert bytes(block.view()) == b"\xcd" * 5000, "fresh memory is not accidentally zero"
    block.free()
    assert ctypes.string_at(address, 5000) == b"\xdd" * 5000
    assert checked.alloc(5000).address != address


def test_write_beyond_the_end_is_found_at_free(checked: CheckedManager) -> None:
    block = checked.alloc(1000, tag="long")
    ctypes.memset(block.address + 1000, 0, 1)
    with pytest.raises(mem.UseAfterFreeError, match="beyond the end.*1000 bytes.*'long'"):
        block.free()
    assert checked.stats().live_blocks == 0
    with pytest.raises(mem.UseAfterFreeError):
        checked.verify()


def test_write_beyond_the_end_of_a_live_block_is_found_by_verify(checked: CheckedManager) -> None:
    block = checked.alloc(1000)
    checked.verify()
    ctypes.memset(block.address + 1001, 0, 1)
    with pytest.raises(mem.UseAfterFreeError):
        checked.verify()
    with pytest.raises(mem.UseAfterFreeError):
        block.free()


def test_leaks_are_listed(checked: CheckedManager) -> None:
    kept = checked.alloc(100, tag="kept")
    checked.alloc(200)
    (line,) = checked.leaks()
    assert "100 bytes on cpu" in line and "'kept'" in line
    kept.free()
    assert checked.leaks() == []


def test_quarantine_gives_way_when_memory_is_short() -> None:
    checked = CheckedManager(SystemManager(LedgerMemory(limit=1 << 20)))
    for _ in range(10):
        checked.alloc(700_000).free()
    assert checked.stats().allocs == 10


def test_quarantine_is_bounded() -> None:
    memory = LedgerMemory()
    checked = CheckedManager(SystemManager(memory), quarantine_bytes=10_000)
    for _ in range(50):
        checked.alloc(1000).free()
        assert memory.bytes_out <= 11_500
    checked.release_cached()
    assert memory.bytes_out == 0


class Reuses(SystemManager):
    """Lends the same bytes to everybody."""

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        if not hasattr(self, "only"):
            self.only = self.device_allocate(account, 1 << 16, 64)
        return self.only[0], self.only[1], None

    def free_chunk(self, account: Account, address: int, capacity: int, handle: None) -> None:
        return


class Shrinks(SystemManager):
    """Answers with less than was asked for."""

    def alloc(self, nbytes: int, **options: object) -> Block:
        return super().alloc(nbytes // 2, **options)  # type: ignore[arg-type]


def test_overlap_is_the_managers_fault() -> None:
    checked = CheckedManager(Reuses(LedgerMemory()))
    first = checked.alloc(100)
    with pytest.raises(BlockError, match="overlaps the live block"):
        checked.alloc(100)
    assert not first.freed


def test_too_small_a_block_is_the_managers_fault() -> None:
    checked = CheckedManager(Shrinks(LedgerMemory()))
    with pytest.raises(BlockError, match="wrong nbytes 532, capacity 532"):
        checked.alloc(1000)
