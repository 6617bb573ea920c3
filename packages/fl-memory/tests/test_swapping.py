"""Blocks in a file: what leaves memory keeps its bytes."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from pathlib import Path

import pytest

import fl_memory as mem
from fl_memory.managers.best_fit import BestFitManager
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.swapping import FileMemory, Swapper, resident_bytes
from fl_memory.swapping.swapper import FreeRanges

MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="shared mappings drop pages on Linux"
)


@pytest.fixture
def memory(tmp_path: Path) -> FileMemory:
    return FileMemory(tmp_path)


def fill(block: mem.Block, value: int) -> None:
    ctypes.memset(block.address, value, block.nbytes)  # without a copy, which would be resident


def is_filled(block: mem.Block, value: int) -> bool:
    view = block.view()
    return all(x == value for x in view[::512]) and all(x == value for x in view[-100:])


# ---------------------------------------------------------------- FileMemory


@pytest.mark.parametrize("alignment", [64, 4096, 1 << 16])
def test_addresses_are_aligned_and_writable(memory: FileMemory, alignment: int) -> None:
    blocks = [SystemManager(memory).alloc(n, alignment=alignment) for n in (0, 1, 5000, 3 * MIB)]
    for value, block in enumerate(blocks):
        assert block.address % alignment == 0
        fill(block, value)
    assert all(is_filled(block, value) for value, block in enumerate(blocks))


def test_cold_pages_leave_memory_and_keep_their_bytes(memory: FileMemory) -> None:
    block = SystemManager(memory).alloc(64 * MIB)
    fill(block, 7)
    before = resident_bytes()
    assert memory.advise(block.address, block.nbytes, "cold")
    assert before - resident_bytes() > 60 * MIB
    assert is_filled(block, 7)


def test_free_pages_leave_memory_and_are_not_written(memory: FileMemory) -> None:
    block = SystemManager(memory).alloc(64 * MIB)
    fill(block, 7)
    before, reserved = resident_bytes(), os.fstat(memory._file.fileno()).st_blocks
    assert memory.advise(block.address, block.nbytes, "free")
    assert before - resident_bytes() > 60 * MIB
    assert os.fstat(memory._file.fileno()).st_blocks == reserved, "disk space stays reserved"
    assert is_filled(block, 0)


def test_advice_keeps_to_whole_pages(memory: FileMemory) -> None:
    manager = BestFitManager(memory)
    blocks = [manager.alloc(1000) for _ in range(30)]
    for value, block in enumerate(blocks):
        fill(block, value)
    assert memory.advise(blocks[10].address, 12_000, "free") in (True, False)
    around = blocks[:10] + blocks[22:]
    values = [*range(10), *range(22, 30)]
    assert all(is_filled(b, v) for b, v in zip(around, values, strict=True))


def test_an_unknown_advice_is_an_error(memory: FileMemory) -> None:
    block = SystemManager(memory).alloc(MIB)
    with pytest.raises(mem.AllocationError, match="'willneed', 'cold', 'free'"):
        memory.advise(block.address, block.nbytes, "dontneed")


def test_released_memory_returns_its_disk_space(memory: FileMemory) -> None:
    block = SystemManager(memory).alloc(8 * MIB)
    fill(block, 1)
    assert os.fstat(memory._file.fileno()).st_blocks * 512 >= 8 * MIB
    block.free()
    assert os.fstat(memory._file.fileno()).st_blocks * 512 < MIB


def test_the_limit_is_an_error_of_memory(tmp_path: Path) -> None:
    manager = SystemManager(FileMemory(tmp_path, limit=MIB))
    block = manager.alloc(MIB // 2)
    with pytest.raises(mem.OutOfMemoryError, match="limit 1048576"):
        manager.alloc(MIB)
    block.free()
    manager.alloc(MIB)


def test_more_than_the_disk_has_is_refused_before_any_of_it_is_taken(
    memory: FileMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda *request: pytest.fail("it tried"))
    free = os.fstatvfs(memory._file.fileno())
    with pytest.raises(mem.OutOfMemoryError, match="no room for it"):
        SystemManager(memory).alloc(2 * free.f_blocks * free.f_frsize)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_of_memory(
    memory: FileMemory, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A quota, or another process was faster: half of the request is reserved by then."""
    reserve = os.posix_fallocate

    def fail_half_way(file: int, offset: int, size: int) -> None:
        reserve(file, offset, size // 2)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fail_half_way)
        with pytest.raises(mem.OutOfMemoryError, match="no room for it"):
            SystemManager(memory).alloc(MIB)
    assert os.fstat(memory._file.fileno()).st_blocks == 0, "nothing half reserved"
    assert is_filled(block := SystemManager(memory).alloc(100), 0) and block.address


@pytest.mark.parametrize("folder", ["missing", "file"])
def test_a_folder_that_holds_no_files_is_refused(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(mem.DeviceError, match=folder):
        FileMemory(tmp_path / folder)


def test_a_negative_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(mem.AllocationError, match="-1"):
        FileMemory(tmp_path, limit=-1)


def test_a_forked_child_has_a_copy(memory: FileMemory) -> None:
    block = SystemManager(memory).alloc(4 * MIB)
    fill(block, 1)
    child = os.fork()
    if not child:
        good = is_filled(block, 1)
        fill(block, 2)
        more = SystemManager(memory).alloc(MIB)
        fill(more, 3)
        os._exit(0 if good and is_filled(block, 2) and is_filled(more, 3) else 1)
    fill(block, 4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert is_filled(block, 4), "the child wrote to memory of its own"


# ------------------------------------------------------------------- Swapper


def test_resident_bytes_stay_within_the_budget(memory: FileMemory) -> None:
    budget = 64 * MIB
    manager = CachingManager(memory)
    with Swapper(memory, budget) as swapper:
        swapper.watch(manager)
        blocks = []
        for value in range(40):
            blocks.append(manager.alloc(8 * MIB))
            fill(blocks[-1], value)
        assert resident_bytes() - swapper.base_bytes <= budget + 24 * MIB
        assert all(is_filled(block, value) for value, block in enumerate(blocks))
    assert swapper.evicted_bytes > 200 * MIB
    assert all(is_filled(block, value) for value, block in enumerate(blocks)), "after its end, too"


def test_freed_blocks_leave_first(memory: FileMemory) -> None:
    manager = CachingManager(memory)
    with Swapper(memory, 64 * MIB, period=60) as swapper:
        swapper.watch(manager)
        kept = manager.alloc(16 * MIB)
        fill(kept, 1)
        for _ in range(3):
            blocks = [manager.alloc(12 * MIB) for _ in range(3)]
            for block in blocks:
                fill(block, 2)
            del block
            blocks.clear()
        large = manager.alloc(40 * MIB)
        assert swapper.evicted_bytes == 0, "what was freed was enough"
    assert is_filled(kept, 1) and large.address


@pytest.mark.parametrize("policy", ["oldest", "newest"])
def test_what_leaves_is_chosen_by_the_policy(memory: FileMemory, policy: str) -> None:
    manager = SystemManager(memory)
    with Swapper(memory, 56 * MIB, policy=policy, period=60) as swapper:  # type: ignore[arg-type]
        swapper.watch(manager)
        blocks = [manager.alloc(16 * MIB) for _ in range(3)]
        for block in blocks:
            fill(block, 1)
        blocks[0].touch()
        more = manager.alloc(16 * MIB)
        before = resident_bytes()
        is_filled(blocks[1] if policy == "oldest" else blocks[0], 1)
        assert resident_bytes() - before > 12 * MIB, "it had left memory"
        assert more.address


@pytest.mark.parametrize("budget", [0, -1, 1.5, None])
def test_a_budget_is_a_number_of_bytes(memory: FileMemory, budget: object) -> None:
    with pytest.raises(mem.AllocationError, match="budget"):
        Swapper(memory, budget)  # type: ignore[arg-type]


def test_a_policy_or_period_that_does_not_exist(memory: FileMemory) -> None:
    with pytest.raises(mem.AllocationError, match="'oldest', 'newest'"):
        Swapper(memory, MIB, policy="lru")  # type: ignore[arg-type]
    with pytest.raises(mem.AllocationError, match="period"):
        Swapper(memory, MIB, period=0)


def test_a_request_above_the_budget_is_an_error_of_memory(memory: FileMemory) -> None:
    manager = CachingManager(memory)
    with Swapper(memory, 8 * MIB) as swapper:
        swapper.watch(manager)
        with pytest.raises(mem.OutOfMemoryError, match="budget of the swapper"):
            manager.alloc(9 * MIB)
        assert manager.stats().live_blocks == 0
        assert manager.alloc(MIB).address


def test_threads_allocate_and_free_under_a_budget(memory: FileMemory) -> None:
    manager = CachingManager(memory)
    failures: list[str] = []

    def work(number: int) -> None:
        kept: list[tuple[mem.Block, int]] = []
        for step in range(60):
            block = manager.alloc((1 + (number + step) % 3) * MIB)
            fill(block, step)
            kept.append((block, step))
            if len(kept) > 5:
                old, value = kept.pop(step % 5)
                if not is_filled(old, value):
                    failures.append(f"thread {number}, step {step}")
                old.free()

    with Swapper(memory, 24 * MIB, period=0.001) as swapper:
        swapper.watch(manager)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


def test_free_ranges() -> None:
    ranges = FreeRanges()
    ranges.add(0, 100)
    ranges.add(200, 300)
    assert ranges.remove(50, 250) == 100
    assert ranges.remove(10, 20) == 10
    assert sorted(iter(ranges.pop, None)) == [(0, 10), (20, 50), (250, 300)]
    assert ranges.pop() is None and ranges.remove(0, 1000) == 0
