"""Steps of a program that does not mark them."""

from __future__ import annotations

import random
from itertools import count

from fl_memory import Block
from fl_memory.managers.planned import PlannedManager
from fl_memory.managers.repetition import MOST_REQUESTS, Repetition
from fl_memory.testing import LedgerMemory

KIB = 1 << 10


def rounds(keys: list[int], used: list[int]) -> list[int]:
    """After how many requests a round ends."""
    repetition = Repetition()
    return [
        number
        for number, (key, nbytes) in enumerate(zip(keys, used, strict=True), 1)
        if repetition.add(key, nbytes)
    ]


def test_a_round_ends_when_two_were_equal_and_then_each_time() -> None:
    keys = list(range(40)) * 5
    assert rounds(keys, [0] * 200) == [80, 120, 160, 200]


def test_layers_are_no_rounds_while_the_used_bytes_grow() -> None:
    keys = list(range(20)) * 6
    assert rounds(keys, list(range(120))) == []


def test_steps_with_equal_layers() -> None:
    """Six layers, their gradients, and an update of equal parameters: its round is found first."""
    layer, update = list(range(20)), [77, 78, 79] * 12
    step = [99, *layer * 6, *(50 + key for key in layer * 6), *update]
    used = [*range(121), *range(120, 0, -1), *[0] * 36]
    found = rounds(step * 5, used * 5)
    length = len(step)
    assert [b - a for a, b in zip(found[-3:], found[-2:], strict=False)] == [length, length]


def test_other_requests_end_the_rounds() -> None:
    keys = [*list(range(40)) * 3, *range(1000, 1300)]
    assert rounds(keys, [0] * len(keys)) == [80, 120]


def test_rounds_go_on_when_the_history_is_shortened() -> None:
    keys = list(range(1000)) * (3 * MOST_REQUESTS // 1000)
    found = rounds(keys, [0] * len(keys))
    assert found == list(range(2000, len(keys) + 1, 1000))


def test_rounds_are_found_after_a_long_history_without_any() -> None:
    unique = count(1000)
    before = [next(unique) for _ in range(MOST_REQUESTS + 10)]
    keys = [*before, *list(range(40)) * 3]
    assert rounds(keys, [0] * len(keys)) == [len(before) + 80, len(before) + 120]


def train(manager: PlannedManager, sizes: list[int], kept: list[Block]) -> None:
    """A step without a mark; every third block lives until the next one."""
    previous = list(kept)
    kept.clear()
    for size in sizes:
        if previous:
            previous.pop(0).free()
        block = manager.alloc(size)
        if size % 3 == 0:
            kept.append(block)


def test_a_program_without_marks_is_planned() -> None:
    rng = random.Random(0)
    sizes = [rng.randrange(1, 300) * 2 * KIB for _ in range(60)]
    memory = LedgerMemory()
    manager = PlannedManager(memory)
    kept: list[Block] = []
    for _ in range(8):
        train(manager, sizes, kept)
    native = memory.allocations
    addresses = []
    for _ in range(3):
        train(manager, sizes, kept)
        addresses.append([block.address for block in kept])
    assert memory.allocations == native
    assert addresses[0] == addresses[1] == addresses[2]


def test_marks_are_believed_rather_than_repetition() -> None:
    """Two equal halves of a step, which is marked: one plan of both."""
    rng = random.Random(2)
    half = [rng.randrange(1, 300) * 2 * KIB for _ in range(40)]
    memory = LedgerMemory()
    manager = PlannedManager(memory)
    live = [manager.alloc(size) for size in half]
    for step in range(6):
        manager.mark("step", step)
        for block in live:  # of the step before
            block.free()
        live = [manager.alloc(size) for size in half * 2]  # all live together
    starts = sorted(block.address for block in live)
    span = max(block.address + block.capacity for block in live) - starts[0]
    assert span <= 1.01 * sum(half) * 2, "they lie in one slab"
