"""Random programs through every manager and mode, beside a shadow ledger.

A program repeats a step, sometimes with changes: requests of many sizes, alignments and streams,
blocks that outlive their step, hints, marks, released caches, and a device that may be exhausted.
After each request nothing overlaps and everything lies in memory of the device. After each step the
figures of the manager are those of the ledger.

``FL_MEMORY_PROGRAMS`` is the number of programs of each mode; `nox -s memory_programs` sets 10,000.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

import pytest

from fl_memory import AccountingManager, Block, BlockError, DeviceMemory, OutOfMemoryError
from fl_memory.managers.arena import ArenaManager
from fl_memory.managers.best_fit import BestFitManager
from fl_memory.managers.buddy import BuddyManager
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.exact import ExactManager
from fl_memory.managers.planned import Plan, PlannedManager, Request
from fl_memory.managers.system import SystemManager
from fl_memory.testing.ledger import BlockLedger
from fl_memory.traces import AddressMemory

PROGRAMS = int(os.environ.get("FL_MEMORY_PROGRAMS", "100"))
MIB = 1 << 20
#: Of another program.
PLAN = Plan.of([Request(512 * n, 64, None, t, t + 3) for t, n in enumerate(range(1, 60))])


class Unmarked(PlannedManager):
    """Finds the steps itself."""

    CONTRACT = (1, 0)
    name = "unmarked"

    def mark(self, name: str, number: int = 0) -> None:
        pass


Make = Callable[[DeviceMemory], AccountingManager]
MODES: dict[str, Make] = {
    "system": SystemManager,
    "caching": CachingManager,
    "caching, requests": lambda m: CachingManager(m, split_limit=24 * MIB),
    "caching, chunks": lambda m: CachingManager(m, split_limit=24 * MIB, split_rule="chunk"),
    "caching, held": lambda m: CachingManager(
        m, split_limit=24 * MIB, split_rule="chunk", recycling_limit=24 * MIB
    ),
    "caching, released": lambda m: CachingManager(
        m, recycling_limit=20 * MIB, recycling_rule="release"
    ),
    "best_fit": BestFitManager,
    "buddy": BuddyManager,
    "exact": ExactManager,
    "exact, few buffers": lambda m: ExactManager(m, max_buffers=10),
    "exact, debug": lambda m: ExactManager(m, debug=True),
    "arena": ArenaManager,
    "planned": PlannedManager,
    "planned, without marks": Unmarked,
    "planned, beforehand": lambda m: PlannedManager(m, plan=PLAN),
}


def request(rng: random.Random) -> tuple[int, int, object, str]:
    """(bytes, alignment, stream, tag) of a block."""
    nbytes = 0 if rng.random() < 0.03 else int(2 ** rng.uniform(0, 18))
    if rng.random() < 0.05:
        nbytes = rng.randrange(MIB, 48 * MIB)
    return (
        nbytes,
        rng.choice((64, 64, 64, 64, 1, 256, 4096)),
        rng.choice((None, None, None, "s")),
        rng.choice(("result", "result", "parameter", "state", "scratch")),
    )


class Run:
    """A program on a manager, and the ledger of its blocks."""

    def __init__(self, manager: AccountingManager, memory: AddressMemory) -> None:
        self.manager = manager
        self.memory = memory
        self.ledger = BlockLedger()
        self.refusals = 0

    def alloc(self, nbytes: int, alignment: int, stream: object, tag: str) -> Block | None:
        try:
            block = self.manager.alloc(nbytes, alignment=alignment, stream=stream, tag=tag)
        except OutOfMemoryError:
            self.refusals += 1
            return None
        assert block.address % alignment == 0 and block.nbytes == nbytes <= block.capacity
        assert self.memory.holds(block.address, max(block.capacity, 1)), "no memory of the device"
        self.ledger.add(block.address, nbytes, block.capacity)
        return block

    def free(self, block: Block) -> None:
        self.ledger.remove(block.address, block.nbytes)
        block.free()

    def check(self) -> None:
        stats = self.manager.stats()
        used = sum(extent for extent, _ in self.ledger.blocks.values())
        assert (stats.live_bytes, stats.live_blocks) == (
            self.ledger.live_bytes,
            len(self.ledger.blocks),
        )
        assert stats.used_bytes == used
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes
        assert stats.reserved_bytes == self.memory.reserved_bytes
        assert stats.peak_live_bytes == self.ledger.peak_live_bytes
        assert stats.largest_free_chunk <= stats.cached_bytes


def program(seed: int, make: Make) -> int:
    """Run a program; how many requests were refused."""
    rng = random.Random(seed)
    capacity = rng.choice((None, None, 16 * MIB, 64 * MIB))
    memory = AddressMemory(capacity)
    run = Run(make(memory), memory)
    step = [request(rng) for _ in range(rng.randrange(1, 14))]
    lives = [rng.randrange(1, 2 * len(step)) for _ in step]  # requests until a block is freed
    live: list[tuple[int, Block]] = []
    moment = 0
    for number in range(rng.randrange(1, 8)):
        run.manager.mark("step", number)
        if rng.random() < 0.2:
            run.manager.reserve_hint(rng.randrange(1, 64 * MIB))
        requests = step if rng.random() < 0.8 else [request(rng), *step[:-1]]
        for life, wanted in zip(lives, requests, strict=True):
            moment += 1
            for end, block in [entry for entry in live if entry[0] <= moment]:
                live.remove((end, block))
                run.free(block)
            block = run.alloc(*wanted)
            if block is not None:
                live.append((moment + life, block))
        if rng.random() < 0.1:
            run.manager.release_cached()
        run.check()
    for _, block in live:
        run.free(block)
    run.check()
    run.manager.release_cached()
    assert memory.reserved_bytes == 0, "everything was freed, and yet the device is owed memory"
    return run.refusals


@pytest.mark.parametrize("mode", MODES)
def test_programs_agree_with_the_ledger(mode: str) -> None:
    for seed in range(PROGRAMS):
        try:
            program(seed, MODES[mode])
        except (AssertionError, BlockError) as error:
            raise AssertionError(f"program({seed}, MODES[{mode!r}]): {error}") from error


def test_some_programs_exhaust_the_device() -> None:
    assert sum(program(seed, CachingManager) for seed in range(100)) > 20


class LockedMemory(AddressMemory):
    """Addresses for several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()

    def allocate(self, nbytes: int, alignment: int) -> int:
        with self._lock:
            return super().allocate(nbytes, alignment)

    def release(self, address: int, nbytes: int) -> None:
        with self._lock:
            super().release(address, nbytes)


@pytest.mark.parametrize("mode", MODES)
def test_threads_agree_with_the_ledger(mode: str) -> None:
    """Three threads allocate and free, and send blocks to each other."""
    memory = LockedMemory()
    manager = MODES[mode](memory)
    ledger, lock = BlockLedger(), threading.Lock()
    shared: list[Block] = []
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for turn in range(20 + PROGRAMS // 3):
                nbytes, alignment, stream, tag = request(rng)
                block = manager.alloc(nbytes, alignment=alignment, stream=stream, tag=tag)
                with lock:  # removed before it is freed, added after it is lent: never too many
                    ledger.add(block.address, nbytes, block.capacity)
                    shared.append(block)
                    given = shared.pop(rng.randrange(len(shared))) if rng.random() < 0.9 else None
                    if given is not None:
                        ledger.remove(given.address, given.nbytes)
                if given is not None:
                    given.free()
                if turn % 16 == 0:
                    manager.mark("step", turn)
        except BaseException as error:  # carried to the thread of the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert manager.stats().live_bytes == ledger.live_bytes
    while shared:
        shared.pop().free()
    manager.release_cached()
    assert memory.reserved_bytes == 0
