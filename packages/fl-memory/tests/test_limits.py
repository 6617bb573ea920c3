"""Limits, the error of exhausted memory, and the peak that a test allows."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fl_memory as mem
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.testing import CheckedManager, LedgerMemory

MIB = 1 << 20


@pytest.mark.parametrize("make", [SystemManager, CachingManager])
def test_limit_of_the_current_manager(make: type) -> None:
    memory = LedgerMemory()
    with mem.use(make(memory)) as manager:
        kept = manager.alloc(MIB)
        with mem.limit(4 * MIB) as limited:
            assert limited is manager
            with pytest.raises(mem.OutOfMemoryError) as caught:
                manager.alloc(4 * MIB)
            assert caught.value.limit == 4 * MIB and caught.value.live_bytes == MIB
            assert manager.alloc(2 * MIB).nbytes == 2 * MIB
            assert memory.bytes_out <= 4 * MIB
        assert manager.alloc(40 * MIB).nbytes == 40 * MIB and kept.nbytes == MIB


def test_cached_memory_over_the_limit_is_released() -> None:
    memory = LedgerMemory()
    with mem.use(CachingManager(memory)) as manager:
        manager.alloc(30 * MIB).free()
        with mem.limit(20 * MIB):
            assert memory.bytes_out == 0
            manager.alloc(15 * MIB).free()
            manager.alloc(18 * MIB).free()
            assert memory.bytes_out == 18 * MIB


def test_limits_nest_and_end_with_an_error() -> None:
    with mem.use(SystemManager()) as manager:
        with mem.limit(100):
            with pytest.raises(mem.OutOfMemoryError), mem.limit(50):
                manager.alloc(60)
            assert manager.alloc(60).nbytes == 60
            with pytest.raises(mem.OutOfMemoryError):
                manager.alloc(101)
        assert manager.alloc(101).nbytes == 101


def test_limit_zero_and_less() -> None:
    with mem.use(SystemManager()) as manager:
        with mem.limit(0), pytest.raises(mem.OutOfMemoryError):
            manager.alloc(1)
        with pytest.raises(mem.AllocationError), mem.limit(-1):
            pass
        assert manager.alloc(1).nbytes == 1


def test_limit_counts_a_request_in_the_middle_of_another() -> None:
    memory = LedgerMemory()
    manager = SystemManager(memory)
    failed: list[int] = []

    def strike() -> None:
        memory.on_allocate = None
        try:
            manager.alloc(900)
        except mem.OutOfMemoryError as error:
            failed.append(error.requested)

    with mem.use(manager), mem.limit(1000):
        kept = manager.alloc(200)
        memory.on_allocate = strike
        kept = manager.alloc(300)
    assert failed == [900] and kept.nbytes == 300


def test_a_wrapper_passes_the_limit_on() -> None:
    with mem.use(CheckedManager(SystemManager())) as checked:
        with mem.limit(1000), pytest.raises(mem.OutOfMemoryError):
            checked.alloc(1001)
        assert checked.alloc(1001).nbytes == 1001


def test_a_manager_that_cannot_limit_itself_says_so() -> None:
    class Plain(SystemManager):
        set_limit = mem.MemoryManager.set_limit

    with mem.use(Plain()), pytest.raises(mem.AllocationError, match="no limit"), mem.limit(10):
        pass


def test_the_error_says_who_holds_the_memory() -> None:
    manager = SystemManager(HostMemory(limit=10_000))
    kept: list[Any] = [manager.alloc(2000, tag="gradient") for _ in range(2)]
    kept += [manager.alloc(n, tag=tag) for n, tag in ((1500, "result"), (100, None), (50, "batch"))]
    with pytest.raises(mem.OutOfMemoryError) as caught:
        manager.alloc(7000)
    error = caught.value
    assert error.holders == (("gradient", 4000, 2), ("result", 1500, 1), (None, 100, 1))
    text = str(error)
    assert "[alloc] 7000 bytes on cpu: out of memory (live 5650 bytes" in text
    assert "limit 10000 bytes" in text and "gradient 4000 bytes in 2 blocks" in text
    assert "untagged 100 bytes in 1 blocks" in text and "smaller batches" in text


def test_the_error_names_operations_and_modules_where_an_observer_knows_them() -> None:
    manager = SystemManager(HostMemory(limit=10_000))
    older = manager.alloc(500, tag="parameter")
    with mem.observe(manager):
        kept = []
        with mem.cause(operation="matmul", module="encoder.0"):
            kept += [manager.alloc(1000, tag="result"), manager.alloc(1000, tag="gradient")]
        with mem.cause(module="head"):
            kept.append(manager.alloc(700))
        with pytest.raises(mem.OutOfMemoryError) as caught:
            manager.alloc(7000)
    assert caught.value.holders == (
        ("matmul in encoder.0", 2000, 2), ("head", 700, 1), ("parameter", 500, 1),
    )  # fmt: skip
    assert "most is held as matmul in encoder.0 2000 bytes in 2 blocks" in str(caught.value)
    with pytest.raises(mem.OutOfMemoryError) as caught:
        manager.alloc(7000)
    assert {what for what, _, _ in caught.value.holders} == {"result", "gradient", None}
    del older, kept


def test_the_error_says_the_capacity_of_the_device() -> None:
    class Small(HostMemory):
        def capacity(self) -> int:
            return 1 << 40

    with mem.use(SystemManager(Small())) as manager, mem.limit(100):
        with pytest.raises(mem.OutOfMemoryError, match="limit 100 bytes, capacity 1099511627776"):
            manager.alloc(101)


def test_the_error_of_fragmented_memory() -> None:
    manager = CachingManager(HostMemory(limit=20 * MIB))
    manager.reserve_hint(20 * MIB)  # one buffer
    blocks = [manager.alloc(2 * MIB) for _ in range(10)]
    del blocks[::2]
    with pytest.raises(mem.OutOfMemoryError, match="smaller pieces.*release_cached") as caught:
        manager.alloc(8 * MIB)
    assert caught.value.cached_bytes == 10 * MIB and caught.value.largest_free_chunk == 2 * MIB


def test_freed_blocks_and_those_of_others_hold_nothing() -> None:
    manager, other = SystemManager(HostMemory(limit=1000)), SystemManager()
    kept, freed = other.alloc(500, tag="other"), manager.alloc(500, tag="freed")
    freed.free()
    with pytest.raises(mem.OutOfMemoryError) as caught:
        manager.alloc(2000)
    assert caught.value.holders == () and kept.nbytes == 500


def test_peak_memory(fl_peak_memory: Any) -> None:
    with mem.use(SystemManager()) as manager:
        before = manager.alloc(10_000)
        with fl_peak_memory(at_most=3000) as peak:
            manager.alloc(2000).free()
            first = manager.alloc(1000)
            before.free()
            second = manager.alloc(2000)
        assert peak.nbytes == 3000 == first.nbytes + second.nbytes
        with pytest.raises(AssertionError, match="3500 bytes were live.*3400.*gradient 3000"):
            with fl_peak_memory(at_most=3400):
                a, b = manager.alloc(3000, tag="gradient"), manager.alloc(500)
        with pytest.raises(ZeroDivisionError), fl_peak_memory(at_most=0):
            a = manager.alloc(1 // 0)
        assert a.nbytes + b.nbytes == 3500


def test_peak_memory_of_other_threads_counts(fl_peak_memory: Any) -> None:
    with mem.use(SystemManager()) as manager, fl_peak_memory() as peak:
        thread = threading.Thread(target=lambda: manager.alloc(7000).free())
        thread.start()
        thread.join()
    assert peak.nbytes == 7000
