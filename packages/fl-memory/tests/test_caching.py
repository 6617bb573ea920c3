"""The caching manager's policy: sizes, pools, best fit, splitting, coalescing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fl_memory import Block
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.pool import Chunk, Pool
from fl_memory.testing import LedgerMemory

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def memory() -> LedgerMemory:
    return LedgerMemory()


@pytest.fixture
def mm(memory: LedgerMemory) -> CachingManager:
    return CachingManager(memory)


#: Held by the program of the fixture ``large``.
HELD = 640 * MIB


@pytest.fixture
def large(mm: CachingManager) -> Iterator[CachingManager]:
    """The manager of a large program, whose buffers have their full size. The ledger has ``HELD``
    bytes in one allocation."""
    held = mm.alloc(HELD)
    yield mm
    del held


@pytest.mark.parametrize(
    "nbytes, capacity, buffer",
    [
        (0, 512, 2 * MIB),
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 11 * MIB, 12 * MIB),
        (30 * MIB, 30 * MIB, 30 * MIB),
    ],
)
def test_sizes(
    large: CachingManager, memory: LedgerMemory, nbytes: int, capacity: int, buffer: int
) -> None:
    block = large.alloc(nbytes)
    assert memory.bytes_out == HELD + buffer
    # A remainder below 1 MiB stays with a large chunk; 11 MiB leave exactly 1 MiB, which is cut.
    assert block.capacity == capacity
    assert block.address % 512 == 0


def test_buffers_grow_with_the_program(mm: CachingManager, memory: LedgerMemory) -> None:
    """A small program must not hold a buffer that it hardly uses."""
    blocks = [mm.alloc(1000)]
    assert memory.bytes_out == 64 * KIB
    blocks += [mm.alloc(100 * KIB) for _ in range(400)]
    used = mm.stats().used_bytes
    assert used <= memory.bytes_out <= 1.3 * used
    before = memory.allocations
    blocks += [mm.alloc(100 * KIB) for _ in range(400)]
    assert memory.allocations - before < 40, "later buffers are larger"


def test_small_remainder_of_a_large_chunk_stays_with_it(mm: CachingManager) -> None:
    assert mm.alloc(12 * MIB - 700 * KIB).capacity == 12 * MIB


def test_blocks_share_a_buffer(large: CachingManager, memory: LedgerMemory) -> None:
    blocks = [large.alloc(100 * KIB) for _ in range(20)]
    assert memory.allocations == 2
    assert [b.address - a.address for a, b in zip(blocks, blocks[1:])] == [100 * KIB] * 19


def test_same_size_comes_back_at_once(mm: CachingManager) -> None:
    block = mm.alloc(5000)
    address = block.address
    block.free()
    assert mm.alloc(4800).address == address, "equal after rounding"


@pytest.mark.parametrize("unit", [4 * KIB, 2 * MIB])
def test_best_fit_and_coalescing(mm: CachingManager, memory: LedgerMemory, unit: int) -> None:
    """Free 1, 3 and 2 units between tenants: two units go to the hole of two."""
    sizes = [1, 1, 3, 1, 2, 1] if unit < MIB else [1, 1, 3, 1, 2, 2]
    blocks = [mm.alloc(n * unit) for n in sizes]
    holes = {n: blocks[i].address for i, n in ((0, 1), (2, 3), (4, 2))}
    keep = [blocks[i] for i in (1, 3, 5)]
    native = memory.allocations
    blocks.clear()
    two = mm.alloc(2 * unit)
    assert two.address == holes[2]
    three = mm.alloc(3 * unit)
    assert three.address == holes[3]
    assert memory.allocations == native and len(keep) == 3


def test_neighbours_merge(large: CachingManager, memory: LedgerMemory) -> None:
    blocks = [large.alloc(4 * MIB) for _ in range(5)]
    start = blocks[0].address
    assert memory.allocations == 2
    for index in (1, 3, 2, 0, 4):
        blocks[index].free()
    whole = large.alloc(20 * MIB)
    assert whole.address == start and memory.allocations == 2


def test_small_chunks_merge_before_a_new_buffer_is_taken(
    large: CachingManager, memory: LedgerMemory
) -> None:
    blocks = [large.alloc(64 * KIB) for _ in range(32)]  # exactly one buffer
    blocks.clear()
    whole = [large.alloc(MIB), large.alloc(MIB)]
    assert memory.allocations == 2 and len(whole) == 2


def test_small_and_large_pools_are_separate(large: CachingManager, memory: LedgerMemory) -> None:
    large.alloc(4 * MIB).free()
    small = large.alloc(100)
    assert memory.bytes_out == HELD + 22 * MIB and small.address


def test_large_alignment_is_served_and_not_kept(mm: CachingManager, memory: LedgerMemory) -> None:
    block = mm.alloc(5000, alignment=8192)
    assert block.address % 8192 == 0
    block.free()
    assert memory.bytes_out == 0


def test_limit_below_the_buffer_size(memory: LedgerMemory) -> None:
    mm = CachingManager(LedgerMemory(limit=3 * MIB))
    blocks: list[Block] = [mm.alloc(MIB) for _ in range(3)]
    assert mm.stats().reserved_bytes == 3 * MIB and len(blocks) == 3


def test_pool_splits_only_worthwhile_remainders() -> None:
    pool = Pool(min_split_remainder=512, quick=False)
    first = pool.add(4096, 4096, 1024)
    assert (first.address, first.size) == (4096, 1024)
    second = pool.take(3000)
    assert second is not None and second.size == 3072, "a rest of 72 bytes is not cut off"
    assert pool.take(1) is None
    pool.give(second)
    pool.give(first)
    assert pool.empty_buffers() == [(4096, 4096)]
    pool.remove_buffer(4096)
    assert pool.take(1) is None, "what was handed out is gone"


def test_what_comes_back_is_given_out_again_before_it_is_merged() -> None:
    pool = Pool(min_split_remainder=512, quick=False)
    first = pool.add(4096, 8192, 2048)
    pool.give(first)
    assert pool.take(2048) is first, "and not cut from all that is free"
    second = pool.take(2048)
    assert second is not None and second.address == 6144
    pool.give(second)
    pool.give(first)
    whole = pool.take(8192)
    assert whole is not None and whole.address == 4096, "another size: all is merged"
    pool.give(whole)
    assert pool.empty_buffers() == [(4096, 8192)]


def test_pool_keeps_buffers_with_a_tenant() -> None:
    pool = Pool(min_split_remainder=512, quick=True)
    chunks: list[Chunk] = [pool.add(4096, 4096, 1024)]
    assert pool.empty_buffers() == []
    pool.give(chunks.pop())
    assert pool.empty_buffers() == [(4096, 4096)]


def test_hinted_memory_is_one_piece_that_blocks_are_cut_from(
    mm: CachingManager, memory: LedgerMemory
) -> None:
    assert mm.reserve_hint(101 * MIB) == 102 * MIB
    before = mm.stats()
    assert (before.allocs, before.peak_live_bytes, before.cached_bytes) == (0, 0, 102 * MIB)
    for size in (70, 90, 100):  # each would have taken a buffer of its own
        mm.alloc(size * MIB).free()
    assert memory.allocations == 1
    assert mm.reserve_hint(50 * MIB) == 0, "as much is cached"
    held = mm.alloc(80 * MIB)
    assert mm.reserve_hint(50 * MIB) == 50 * MIB
    held.free()
    assert mm.release_cached() == 152 * MIB


def test_no_hint_is_followed_where_reserved_memory_is_what_counts(memory: LedgerMemory) -> None:
    memory.lazy_commit = False
    mm = CachingManager(memory)
    assert mm.reserve_hint(100 * MIB) == 0 and memory.bytes_out == 0


def test_hint_that_the_device_refuses_is_no_error() -> None:
    mm = CachingManager(HostMemory(limit=8 * MIB))
    assert mm.reserve_hint(100 * MIB) == 0
    assert mm.alloc(2 * MIB).nbytes == 2 * MIB
