"""What each manager does beyond the contract."""

from __future__ import annotations

import random

import pytest

from fl_memory import AllocationError, Block, OutOfMemoryError
from fl_memory.managers.arena import ArenaManager
from fl_memory.managers.best_fit import BestFitManager
from fl_memory.managers.buddy import BuddyManager
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.exact import ExactManager
from fl_memory.managers.planned import Plan, PlannedManager, Request
from fl_memory.testing import LedgerMemory

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def memory() -> LedgerMemory:
    return LedgerMemory()


# ---------------------------------------------------------------- limits of caching


def fragment(manager: CachingManager) -> list[Block]:
    """Free a large block, then leave a smaller one where it was, three times."""
    kept = []
    for _ in range(3):
        manager.alloc(100 * MIB).free()
        kept.append(manager.alloc(60 * MIB))
    return kept


def test_a_recycling_limit_avoids_running_out_of_memory() -> None:
    plain = CachingManager(LedgerMemory(limit=290 * MIB))
    with pytest.raises(OutOfMemoryError):
        fragment(plain)
    limited = CachingManager(LedgerMemory(limit=290 * MIB), recycling_limit=64 * MIB)
    assert len(fragment(limited)) == 3


def test_released_buffers_go_back_to_the_device(memory: LedgerMemory) -> None:
    manager = CachingManager(memory, recycling_limit=64 * MIB, recycling_rule="release")
    manager.alloc(100 * MIB).free()
    assert memory.bytes_out == 0
    manager.alloc(30 * MIB).free()
    assert memory.bytes_out == 30 * MIB


def test_held_chunks_wait_for_a_refusal(memory: LedgerMemory) -> None:
    manager = CachingManager(memory, recycling_limit=64 * MIB)
    manager.alloc(100 * MIB).free()
    block = manager.alloc(100 * MIB)
    assert memory.bytes_out == 200 * MIB, "the chunk that is there is not lent again"
    manager.alloc(100).free()
    assert manager.release_cached() >= 100 * MIB and block.address


def test_large_requests_get_a_chunk_whole(memory: LedgerMemory) -> None:
    manager = CachingManager(memory, split_limit=32 * MIB)
    manager.alloc(100 * MIB).free()
    assert manager.alloc(90 * MIB).capacity == 100 * MIB, "at most 20 MiB too much"
    assert manager.alloc(60 * MIB).capacity == 60 * MIB, "40 MiB too much: a buffer of its own"


def test_small_requests_get_no_large_chunk(memory: LedgerMemory) -> None:
    manager = CachingManager(memory, split_limit=32 * MIB)
    large = manager.alloc(100 * MIB)
    address = large.address
    large.free()
    assert manager.alloc(30 * MIB).address != address


def test_large_chunks_are_lent_whole(memory: LedgerMemory) -> None:
    manager = CachingManager(memory, split_limit=32 * MIB, split_rule="chunk")
    manager.alloc(100 * MIB).free()
    assert manager.alloc(12 * MIB).capacity == 100 * MIB


def test_without_limits_a_large_chunk_is_cut(memory: LedgerMemory) -> None:
    manager = CachingManager(memory)
    manager.alloc(100 * MIB).free()
    assert [manager.alloc(12 * MIB).capacity for _ in range(3)] == [12 * MIB] * 3
    assert memory.bytes_out == 100 * MIB


def test_limits_of_the_environment(memory: LedgerMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FL_MEM_SPLIT_SIZE_MB", "32.5")
    monkeypatch.setenv("FL_MEM_RECYCLING_SIZE_MB", "64")
    limits = CachingManager(memory).limits
    assert (limits.whole_request, limits.held_chunk) == (32.5 * MIB, 64 * MIB)
    assert CachingManager(memory, split_limit=100 * MIB).limits.whole_request == 100 * MIB


@pytest.mark.parametrize("text", ["much", "inf", "-1", "0", "20"])
def test_a_limit_of_the_environment_that_makes_no_sense(
    text: str, memory: LedgerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FL_MEM_SPLIT_SIZE_MB", text)
    with pytest.raises(AllocationError, match=f"FL_MEM_SPLIT_SIZE_MB='{text}'"):
        CachingManager(memory)


@pytest.mark.parametrize(
    "options",
    [
        {"split_limit": 20 * MIB},
        {"split_limit": 1.5e9},
        {"recycling_limit": -1},
        {"split_limit": 64 * MIB, "split_rule": "pytorch"},
        {"recycling_limit": 64 * MIB, "recycling_rule": "free"},
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], memory: LedgerMemory) -> None:
    (name, value) = list(options.items())[-1]
    with pytest.raises(AllocationError, match=f"{name}={value!r}"):
        CachingManager(memory, **options)  # type: ignore[arg-type]


def test_a_hint_is_not_taken_where_chunks_are_kept_whole(memory: LedgerMemory) -> None:
    assert CachingManager(memory, split_limit=64 * MIB).reserve_hint(500 * MIB) == 0
    assert memory.bytes_out == 0


# ---------------------------------------------------------------- buddy, best_fit, exact, arena


def test_buddies_are_powers_of_two_and_merge(memory: LedgerMemory) -> None:
    manager = BuddyManager(memory)
    blocks = [manager.alloc(n) for n in (64, 65, 1000, 5 * MIB)]
    assert [b.capacity for b in blocks] == [64, 128, 1024, 8 * MIB]
    assert memory.bytes_out == 64 * MIB
    blocks.clear()
    assert manager.alloc(64 * MIB).capacity == 64 * MIB
    assert memory.bytes_out == 64 * MIB, "all parts have merged"


def test_one_pool_serves_all_sizes(memory: LedgerMemory) -> None:
    manager = BestFitManager(memory)
    manager.alloc(8 * MIB).free()
    blocks = [manager.alloc(n) for n in (100, 30 * KIB, 2 * MIB, 5 * MIB)]
    assert memory.bytes_out == 8 * MIB and len(blocks) == 4


def test_exact_sizes_only(memory: LedgerMemory) -> None:
    manager = ExactManager(memory)
    block = manager.alloc(5000)
    address = block.address
    assert block.capacity == 5 * KIB
    block.free()
    assert manager.alloc(6000).address != address
    assert manager.alloc(4097).address == address, "5 KiB after rounding"


def test_exact_collects_garbage_at_a_number_of_buffers(memory: LedgerMemory) -> None:
    manager = ExactManager(memory, max_buffers=10)
    for n in range(1, 11):
        manager.alloc(n * KIB).free()
    assert memory.bytes_out == 55 * KIB and manager.pressure() == 1.0
    manager.alloc(20 * KIB).free()
    assert memory.bytes_out == 20 * KIB and manager.pressure() == 0.0


def test_exact_collects_garbage_under_pressure() -> None:
    manager = ExactManager(LedgerMemory(limit=4 * MIB))
    manager.alloc(MIB).free()
    held = manager.alloc(3 * MIB)
    assert manager.pressure() == 1.0, "three quarters of the device"
    manager.alloc(KIB)
    assert manager.stats().reserved_bytes == held.capacity + KIB


def test_exact_in_debug_mode_caches_nothing(
    memory: LedgerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FL_MEM_DEBUG", "1")
    manager = ExactManager(memory)
    block = manager.alloc(77)
    assert block.capacity == memory.bytes_out == 77
    block.free()
    assert memory.bytes_out == 0


def test_a_debug_setting_that_makes_no_sense(
    memory: LedgerMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FL_MEM_DEBUG", "yes")
    with pytest.raises(AllocationError, match="FL_MEM_DEBUG='yes': expected 0 or 1"):
        ExactManager(memory)
    assert ExactManager(memory, debug=False).debug is False


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_exact_needs_a_number_of_buffers(count: object, memory: LedgerMemory) -> None:
    with pytest.raises(AllocationError, match="max_buffers"):
        ExactManager(memory, max_buffers=count)  # type: ignore[arg-type]


def test_an_arena_reuses_a_region_when_it_is_empty(memory: LedgerMemory) -> None:
    manager = ArenaManager(memory)
    for _ in range(100):
        blocks = [manager.alloc(100 * KIB) for _ in range(10)]
        assert [b.address - blocks[0].address for b in blocks] == [n * 100 * KIB for n in range(10)]
        blocks.clear()
    assert memory.allocations == 1


def test_a_step_gets_one_region_of_the_size_of_the_step_before(memory: LedgerMemory) -> None:
    manager = ArenaManager(memory)
    weights = manager.alloc(MIB, tag="parameter")
    for number in range(6):
        manager.mark("step", number)
        blocks = [manager.alloc(MIB) for _ in range(30)]
        left = blocks[7]  # outlives its step
        blocks.clear()
    assert memory.allocations <= 1 + 15 + 3, "two regions take turns"
    assert weights.address and left.address


# ---------------------------------------------------------------- planned


def step(manager: PlannedManager, number: int, sizes: list[int], kept: list[Block]) -> list[int]:
    """One step: the addresses of its blocks. ``kept`` holds gradients until the next step."""
    manager.mark("step", number)
    addresses = []
    previous: Block | None = None
    grads = list(kept)
    kept.clear()
    for n in sizes:
        if grads:
            grads.pop(0).free()
        block = manager.alloc(n)
        addresses.append(block.address)
        if n % 3 == 0:
            kept.append(block)
        previous = block
    del previous, block
    return addresses


def test_equal_steps_are_served_from_one_slab(memory: LedgerMemory) -> None:
    rng = random.Random(0)
    sizes = [rng.randrange(1, 300) * 2 * KIB for _ in range(60)]
    manager = PlannedManager(memory)
    weights = [manager.alloc(70_000) for _ in range(10)]
    kept: list[Block] = []
    for number in range(5):
        step(manager, number, sizes, kept)
    native = memory.allocations
    first, second = (step(manager, number, sizes, kept) for number in (5, 6))
    assert first == second, "the same address in each step"
    assert memory.allocations == native, "the device is not asked any more"
    assert memory.bytes_out < 0.6 * sum(sizes), "blocks that never meet share addresses"
    assert len(weights) == 10


def test_a_wrong_plan_costs_memory_not_data(memory: LedgerMemory) -> None:
    rng = random.Random(1)
    manager = PlannedManager(memory)
    kept: list[Block] = []
    sizes = [rng.randrange(1, 99) * KIB for _ in range(40)]
    for number in range(4):
        step(manager, number, sizes, kept)
    kept.clear()
    manager.mark("step", 4)
    blocks = [manager.alloc(n) for n in sizes]  # all at once, which no step did
    spans = sorted((b.address, b.address + b.capacity) for b in blocks)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))
    assert all(memory.home_of(b.address, b.capacity) for b in blocks)


def test_a_plan_made_beforehand_needs_its_height_only(memory: LedgerMemory) -> None:
    requests = [
        Request(100 * KIB, 64, None, 0, 3),
        Request(50 * KIB, 64, None, 1, 2),
        Request(50 * KIB, 64, None, 4, None),
    ]
    plan = Plan.of(requests, until=9)
    assert plan.height == 150 * KIB
    manager = PlannedManager(memory, plan=plan)
    first, second = manager.alloc(100 * KIB), manager.alloc(50 * KIB)
    second.free()
    first.free()
    last = manager.alloc(50 * KIB)
    assert memory.bytes_out == 150 * KIB and memory.allocations == 1 and last.address


def test_a_slab_that_the_device_refuses_is_done_without() -> None:
    plan = Plan.of([Request(10 * MIB, 64, None, 0, 5)])
    manager = PlannedManager(LedgerMemory(limit=5 * MIB), plan=plan)
    assert manager.alloc(MIB).address


def test_other_steps_end_the_plan(memory: LedgerMemory) -> None:
    manager = PlannedManager(memory)
    kept: list[Block] = []
    for number in range(4):
        step(manager, number, [MIB, 2 * MIB, 3 * MIB], kept)
    for number in range(4, 8):
        step(manager, number, [4 * MIB, 5 * MIB], kept)
    native = memory.allocations
    for number in range(8, 12):
        step(manager, number, [4 * MIB, 5 * MIB], kept)
    assert memory.allocations == native, "they have a plan of their own"
