"""A kit is worth what it catches: each wrong manager here fails the tests that say so."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Hashable
from typing import Any

import pytest

from fl_memory import Account, Block, Event, FlError, OutOfMemoryError, Stats, accounting
from fl_memory.managers.caching import CachingAccount, CachingManager
from fl_memory.managers.pool import Chunk
from fl_memory.managers.system import SystemManager
from fl_memory.testing import LedgerMemory, MemoryManagerSuite


class Overlaps(CachingManager):
    """Hands out the last 64 bytes of a chunk twice."""

    def reserve(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        address, size, chunk = super().reserve(
            account, max(nbytes - 512, 0), alignment, stream, tag
        )
        return address, max(size, nbytes), chunk


class Misaligns(SystemManager):
    """Knows one alignment."""

    def reserve(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        return super().reserve(account, nbytes, 16, stream, tag)


class TooSmall(SystemManager):
    """Claims less capacity than was asked for."""

    def reserve(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        address, size, lease = super().reserve(account, nbytes // 2, alignment, stream, tag)
        return address, size, lease


class Leaks(SystemManager):
    """Forgets one block in ten."""

    def recycle(self, account: Account, address: int, capacity: int, lease: None) -> None:
        if account.frees % 10 != 3:
            super().recycle(account, address, capacity, lease)


class LeaksAtItsEnd(CachingManager):
    """Keeps its cache when it dies."""

    def __del__(self) -> None:
        return


class NeverTrims(CachingManager):
    """Holds on to its cache while the device is exhausted."""

    def trim(self, account: CachingAccount) -> int:
        return 0


class GrowsForEver(CachingManager):
    """Reuses nothing."""

    def recycle(
        self, account: CachingAccount, address: int, capacity: int, lease: Chunk | None
    ) -> None:
        if lease is not None:
            lease.pool.bins.setdefault(-1, [])


class CountsTwice(SystemManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "live_bytes": 2 * figures["live_bytes"]})


class ForgetsItsPeak(SystemManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "peak_bytes": figures["live_bytes"]})


class ForgetsItsPast(SystemManager):
    """Statistics vanish once everything was freed."""

    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device)
        return figures if figures.live_blocks else Stats()


class CountsNoCache(CachingManager):
    def stats(self, device: str | None = None) -> Stats:
        return Stats(**{**super().stats(device).as_dict(), "cached_bytes": 0})


class FreesTwice(SystemManager):
    """Shrugs at a second free and counts it."""

    def free(self, block: Block) -> None:
        if block.freed:
            self._accounts[block.device].frees += 1
        else:
            super().free(block)


class TakesAnything(SystemManager):
    """Frees other managers' blocks without a word."""

    def free(self, block: Block) -> None:
        if block.manager is self:
            super().free(block)


class Deaf(SystemManager):
    """Never tells of a free."""

    def on_event(self, observer: Any) -> Any:
        return super().on_event(lambda e: e.kind == "free" or observer(e))


class Clingy(SystemManager):
    """Observers cannot leave."""

    def on_event(self, observer: Any) -> Any:
        super().on_event(observer)
        return lambda: None


class DropsTags(SystemManager):
    def alloc(self, nbytes: int, **options: Any) -> Block:
        options.pop("tag", None)
        return super().alloc(nbytes, **options)


class MixesStreams(CachingManager):
    def reserve(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        return super().reserve(account, nbytes, alignment, None, tag)


class SilentAboutFailure(SystemManager):
    """Answers exhausted memory with a block of nothing."""

    def alloc(self, nbytes: int, **options: Any) -> Block:
        try:
            return super().alloc(nbytes, **options)
        except OutOfMemoryError:
            return super().alloc(0, **options)


class BringsItsOwnMemory(SystemManager):
    """Ignores the memory that it was told to use."""

    def __init__(self, *memories: Any, **options: Any) -> None:
        super().__init__(LedgerMemory(), **options)


class PlainLock(CachingManager):
    """Locks in the obvious way."""

    def __init__(self, *memories: Any, **options: Any) -> None:
        super().__init__(*memories, **options)
        self.plain = threading.Lock()

    def alloc(self, nbytes: int, **options: Any) -> Block:
        with self.plain:
            return super().alloc(nbytes, **options)

    def free(self, block: Block) -> None:
        with self.plain:
            super().free(block)


class WaitsInFree(SystemManager):
    """Re-entrant, and yet a finaliser has to wait for other threads."""

    def __init__(self, *memories: Any, **options: Any) -> None:
        super().__init__(*memories, **options)
        self.plain = threading.RLock()

    def alloc(self, nbytes: int, **options: Any) -> Block:
        with self.plain:
            return super().alloc(nbytes, **options)

    def free(self, block: Block) -> None:
        with self.plain:
            super().free(block)


class SharedEmptyBlock(SystemManager):
    """All empty blocks are one."""

    def alloc(self, nbytes: int, **options: Any) -> Block:
        if nbytes == 0:
            return self.__dict__.setdefault("empty", super().alloc(0, **options))
        return super().alloc(nbytes, **options)


class MissesTheFailure(SystemManager):
    """No event when memory is exhausted."""

    def on_event(self, observer: Any) -> Any:
        def observe(event: Event) -> None:
            if event.kind != "out_of_memory":
                observer(event)

        return super().on_event(observe)


FAULTS = [
    (Overlaps, "test_random_walk", {"seed": 0}),
    (Misaligns, "test_alignment", {"alignment": 4096}),
    (TooSmall, "test_block_describes_the_request", {}),
    (Leaks, "test_random_walk", {"seed": 0}),
    (LeaksAtItsEnd, "test_dying_manager_leaves_nothing", {}),
    (NeverTrims, "test_cached_memory_is_released_before_giving_up", {}),
    (GrowsForEver, "test_steady_loop_does_not_grow", {}),
    (CountsTwice, "test_stats_of_one_block", {}),
    (ForgetsItsPeak, "test_peak_stays", {}),
    (ForgetsItsPast, "test_swap_while_live", {}),
    (CountsNoCache, "test_random_walk", {"seed": 1}),
    (FreesTwice, "test_free_twice", {}),
    (TakesAnything, "test_free_through_the_wrong_manager", {}),
    (Deaf, "test_events_tell_the_whole_story", {}),
    (Clingy, "test_events_tell_the_whole_story", {}),
    (Clingy, "test_two_observers_leave_separately", {}),
    (DropsTags, "test_block_describes_the_request", {}),
    (MixesStreams, "test_memory_of_a_stream_stays_with_it", {}),
    (SilentAboutFailure, "test_huge_request", {"nbytes": 1 << 70}),
    (BringsItsOwnMemory, "test_random_walk", {"seed": 0}),
    (PlainLock, "test_free_inside_alloc", {}),
    (PlainLock, "test_free_never_waits", {}),
    (WaitsInFree, "test_free_never_waits", {}),
    (SharedEmptyBlock, "test_empty_blocks_have_addresses_of_their_own", {}),
    (MissesTheFailure, "test_event_of_exhausted_memory", {}),
]


def run(manager: type, test: str, arguments: dict[str, Any]) -> None:
    """One test of the suite on one manager, without pytest between the two."""

    class Trial(MemoryManagerSuite):
        pass

    Trial.manager = manager
    trial = Trial()
    method = getattr(trial, test)
    wanted = inspect.signature(method).parameters
    memory = LedgerMemory()
    if "memory" in wanted:
        arguments = {**arguments, "memory": memory}
    if "mm" in wanted:
        arguments = {**arguments, "mm": trial.make(memory)}
    method(**arguments)


@pytest.mark.parametrize(
    "manager, test, arguments", FAULTS, ids=lambda v: getattr(v, "__name__", None) or None
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_fault_is_caught(
    manager: type, test: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryManagerSuite, "patience", 1.0)
    # A lock that a fault leaves held for ever would have every later fork wait for ever, too.
    monkeypatch.setattr(accounting, "free_after_fork", lambda lock: lock)
    for honest in (SystemManager, CachingManager):
        run(honest, test, arguments)
    with pytest.raises((AssertionError, FlError, pytest.fail.Exception)):
        run(manager, test, arguments)
