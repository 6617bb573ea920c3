"""A kit is worth what it catches: each wrong manager here fails the tests that say so."""

from __future__ import annotations

import inspect
import itertools
import sys
import threading
from collections.abc import Hashable
from typing import Any

import pytest

from fl_memory import (
    Account,
    Block,
    DeviceMemory,
    Event,
    FlError,
    OutOfMemoryError,
    Stats,
    event_queue,
)
from fl_memory.events import block_event
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingAccount, CachingManager
from fl_memory.managers.pool import Chunk
from fl_memory.managers.system import SystemManager
from fl_memory.testing import DeviceMemorySuite, LedgerMemory, MemoryManagerSuite


class Overlaps(CachingManager):
    """Hands out the last 64 bytes of a chunk twice."""

    def allocate_chunk(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        address, size, chunk = super().allocate_chunk(
            account, max(nbytes - 512, 0), alignment, stream, tag
        )
        return address, max(size, nbytes), chunk


class Misaligns(SystemManager):
    """Knows one alignment."""

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        return super().allocate_chunk(account, nbytes, 16, stream, tag)


class TooSmall(SystemManager):
    """Claims less capacity than was asked for."""

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        address, size, handle = super().allocate_chunk(account, nbytes // 2, alignment, stream, tag)
        return address, size, handle


class Leaks(SystemManager):
    """Forgets one block in ten."""

    def free_chunk(self, account: Account, address: int, capacity: int, handle: None) -> None:
        if account.frees % 10 != 3:
            super().free_chunk(account, address, capacity, handle)


class LeaksAtItsEnd(CachingManager):
    """Keeps its cache when it dies."""

    def __del__(self) -> None:
        return


class NeverTrims(CachingManager):
    """Holds on to its cache while the device is exhausted."""

    def open_account(self, memory: DeviceMemory) -> CachingAccount:
        self.held_buffer = 0
        return super().open_account(memory)

    def trim(self, account: CachingAccount) -> int:
        return 0


class GrowsForEver(CachingManager):
    """Reuses nothing."""

    def free_chunk(
        self, account: CachingAccount, address: int, capacity: int, handle: Chunk | None
    ) -> None:
        if handle is not None:
            handle.pool.bins.setdefault(-1, [])


class CountsTwice(SystemManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "live_bytes": 2 * figures["live_bytes"]})


class ForgetsItsPeak(SystemManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "peak_live_bytes": figures["live_bytes"]})


class ForgetsItsPast(SystemManager):
    """Statistics vanish once everything was freed."""

    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device)
        return figures if figures.live_blocks else Stats()


class ForgetsItsPeakOfUse(CachingManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "peak_used_bytes": figures["used_bytes"]})


class SeesChunksThatAreNotThere(CachingManager):
    def stats(self, device: str | None = None) -> Stats:
        figures = super().stats(device).as_dict()
        return Stats(**{**figures, "largest_free_chunk": figures["reserved_bytes"] + 1})


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
    def allocate_chunk(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        return super().allocate_chunk(account, nbytes, alignment, None, tag)


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


class NumbersRecur(SystemManager):
    """A block has the number of the one before."""

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        self._numbers = itertools.count(1)
        return super().allocate_chunk(account, nbytes, alignment, stream, tag)


class TellsOfOddFigures(SystemManager):
    """Events are altered on their way to the observers."""

    field = ""
    wrong: Any = None

    def on_event(self, observer: Any) -> Any:
        def observe(event: Event) -> None:
            setattr(event, self.field, self.wrong)
            observer(event)

        return super().on_event(observe)


class ForgetsTheCause(TellsOfOddFigures):
    field = "cause"


class ForgetsTheAlignment(TellsOfOddFigures):
    field = "alignment"
    wrong = 64


class ForgetsTheThread(TellsOfOddFigures):
    field = "thread"


class StopsTheClock(TellsOfOddFigures):
    field = "ns"
    wrong = 0


class TellsOfCapacityNever(TellsOfOddFigures):
    field = "capacity"


class TellsLate(SystemManager):
    """What a finaliser asks for in the middle of a request is told with the next one."""

    def _notify_observers(self) -> None:
        if not self._busy:
            super()._notify_observers()


class ReleasesFirst(CachingManager):
    """The device has its memory back before anybody hears of it."""

    def device_free(self, account: CachingAccount, address: int, nbytes: int) -> None:
        told, self._observers = self._observers, ()
        super().device_free(account, address, nbytes)
        self._observers = told
        event = Event("device_free", address, nbytes, account.memory.device)
        self._undelivered.append(event)


class LosesMemoryWithAnObserver(CachingManager):
    """An observer that fails interrupts the release."""

    def device_free(self, account: CachingAccount, address: int, nbytes: int) -> None:
        event = Event("device_free", address, nbytes, account.memory.device)
        for observer in self._observers:
            observer(event)
        super().device_free(account, address, nbytes)


class DeafToMarks(SystemManager):
    def mark(self, name: str, number: int = 0) -> None:
        return


class BoastsOfHints(CachingManager):
    """Says that it took what it did not take."""

    def preallocate(self, account: CachingAccount, nbytes: int, stream: Hashable) -> int:
        return nbytes


class KeepsHints(CachingManager):
    """What a hint took from the device never goes back."""

    def preallocate(self, account: CachingAccount, nbytes: int, stream: Hashable) -> int:
        return self.device_allocate(account, nbytes, 64)[1]


class RefusesHints(CachingManager):
    def reserve_hint(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
        if nbytes > 50 << 20:
            raise OutOfMemoryError(nbytes, device)
        return super().reserve_hint(nbytes, device=device, stream=stream)


class IgnoresOtherStreams(CachingManager):
    def record_stream(self, block: Block, stream: Hashable) -> None:
        self._check_live("record_stream", block)


class WaitsForNoStream(CachingManager):
    """Gives up although freed memory will be there in a moment."""

    def _apply_pending(self, wait: bool = False) -> None:
        super()._apply_pending()


class PinsOnce(SystemManager):
    """The first ``unpin`` counts for all."""

    def unpin(self, block: Block) -> None:
        self._pins[block.number] = 1
        super().unpin(block)
        self._pins[block.number] = 1


class TouchesAnything(SystemManager):
    def touch(self, block: Block) -> None:
        self._tell(block_event("touch", block.address, block))


class BadSecondMode(SystemManager):
    """Forgets alignments once a method of its own was called."""

    second = False

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        return super().allocate_chunk(account, nbytes, 16 if self.second else alignment, None, tag)


class PlansWithoutAlignment(SystemManager):
    """Forgets alignments once it has seen two steps."""

    steps = 0

    def mark(self, name: str, number: int = 0) -> None:
        super().mark(name, number)
        self.steps += 1

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        alignment = 16 if self.steps > 2 else alignment
        return super().allocate_chunk(account, nbytes, alignment, None, tag)


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
    (ForgetsItsPeakOfUse, "test_random_walk", {"seed": 0}),
    (SeesChunksThatAreNotThere, "test_random_walk", {"seed": 0}),
    (NumbersRecur, "test_numbers_do_not_recur", {}),
    (ForgetsTheCause, "test_event_describes_the_request", {}),
    (ForgetsTheAlignment, "test_event_describes_the_request", {}),
    (ForgetsTheThread, "test_event_describes_the_request", {}),
    (StopsTheClock, "test_event_describes_the_request", {}),
    (TellsOfCapacityNever, "test_event_describes_the_request", {}),
    (TellsLate, "test_alloc_is_told_before_it_returns", {}),
    (ReleasesFirst, "test_device_free_is_told_before_the_release", {"way": "release_cached"}),
    (ReleasesFirst, "test_device_free_is_told_before_the_release", {"way": "exhausted"}),
    (LosesMemoryWithAnObserver, "test_observer_that_fails_while_memory_is_released", {}),
    (DeafToMarks, "test_mark", {}),
    (BoastsOfHints, "test_hint", {}),
    (KeepsHints, "test_hint", {}),
    (RefusesHints, "test_hint_that_the_device_refuses", {}),
    (IgnoresOtherStreams, "test_memory_waits_for_a_second_stream", {"nbytes": 40_000}),
    (WaitsForNoStream, "test_exhausted_memory_waits_for_streams", {}),
    (PinsOnce, "test_touch_and_pin_are_told", {}),
    (TouchesAnything, "test_only_live_blocks_of_its_own_are_used", {}),
    (PlansWithoutAlignment, "test_equal_steps", {}),
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


def test_faulty_managers_are_counted() -> None:
    """Each of them is wrong in one way, and derives from a manager that passes."""
    managers = {manager for manager, _, _ in FAULTS}
    assert len(managers) == 43
    assert all(not issubclass(a, b) for a in managers for b in managers if a is not b)


@pytest.mark.parametrize(
    "manager, test, arguments", FAULTS, ids=lambda v: getattr(v, "__name__", None) or None
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_fault_is_caught(
    manager: type, test: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryManagerSuite, "patience", 1.0)
    # A lock that a fault leaves held for ever would have every later fork wait for ever, too.
    monkeypatch.setattr(event_queue, "free_after_fork", lambda lock: lock)
    for honest in (SystemManager, CachingManager):
        run(honest, test, arguments)
    with pytest.raises((AssertionError, FlError, pytest.fail.Exception)):
        run(manager, test, arguments)


def test_a_fault_of_a_second_mode_is_caught_by_exercise() -> None:
    class Exercised(MemoryManagerSuite):
        manager = BadSecondMode

        def exercise(self, mm: Any) -> None:
            mm.second = True

    run(BadSecondMode, "test_equal_steps", {})
    trial = Exercised()
    memory = LedgerMemory()
    with pytest.raises(AssertionError):
        trial.test_equal_steps(trial.make(memory), memory)


class LosesColdBytes(HostMemory):
    """What is right for shared files, and wrong for anonymous memory."""

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        return super().advise(address, nbytes, "free" if advice == "cold" else advice)


class FreesNeighbours(HostMemory):
    """Whole pages, outwards; of long ranges only, which lie far from memory of others."""

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        begin = address // 4096 * 4096
        if nbytes > 100_000:
            address, nbytes = begin, -(-(address + nbytes - begin) // 4096) * 4096
        return super().advise(address, nbytes, advice)


class TakesAnyAdvice(HostMemory):
    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        return advice in ("willneed", "cold", "free") and super().advise(address, nbytes, advice)


class IgnoresAlignment(HostMemory):
    def allocate(self, nbytes: int, alignment: int) -> int:
        return super().allocate(nbytes, 8)


class IgnoresItsLimit(HostMemory):
    def allocate(self, nbytes: int, alignment: int) -> int:
        limit, self.limit = self.limit, None
        try:
            return super().allocate(nbytes, alignment)
        finally:
            self.limit = limit


class CountsForEver(HostMemory):
    """What was released is never allocated again."""

    def release(self, address: int, nbytes: int) -> None:
        super().release(address, nbytes)
        if self.limit is not None:
            self._out += nbytes


class RaisesOtherErrors(HostMemory):
    def allocate(self, nbytes: int, alignment: int) -> int:
        try:
            return super().allocate(nbytes, alignment)
        except OutOfMemoryError as error:
            raise ValueError(str(error)) from error


class PinsMemoryOfTheDevice(HostMemory):
    def pinned_host_memory(self) -> DeviceMemory | None:
        return LedgerMemory(device="cuda:0")


class PinsMemory(HostMemory):
    """In order: what a suite needs of a device whose copies take page-locked memory."""

    def pinned_host_memory(self) -> DeviceMemory | None:
        return HostMemory()


@pytest.mark.parametrize(
    "memory, test, arguments",
    [
        (LosesColdBytes, "test_advice_keeps_bytes", {"advice": "cold"}),
        (FreesNeighbours, "test_freed_bytes_are_lost_alone", {}),
        (TakesAnyAdvice, "test_unknown_advice", {}),
        (IgnoresAlignment, "test_alignment", {"alignment": 65536}),
        (IgnoresItsLimit, "test_limit", {}),
        (CountsForEver, "test_released_memory_can_be_allocated_again", {}),
        (RaisesOtherErrors, "test_huge_request", {"nbytes": 1 << 70}),
        (PinsMemoryOfTheDevice, "test_pinned_host_memory", {}),
    ],
    ids=lambda v: getattr(v, "__name__", None) or None,
)
@pytest.mark.skipif(sys.platform != "linux", reason="advice of Linux")
def test_fault_of_a_device_memory_is_caught(
    memory: type, test: str, arguments: dict[str, Any]
) -> None:
    pins = (PinsMemory,) if test == "test_pinned_host_memory" else (HostMemory, LedgerMemory)
    for honest in pins:
        _run_device(honest, test, arguments)
    with pytest.raises((AssertionError, ValueError, OutOfMemoryError, pytest.fail.Exception)):
        _run_device(memory, test, arguments)


def _run_device(memory: type, test: str, arguments: dict[str, Any]) -> None:
    class Trial(DeviceMemorySuite):
        pass

    Trial.memory = memory
    trial = Trial()
    method = getattr(trial, test)
    wanted = inspect.signature(method).parameters
    device = trial.make()
    if "device" in wanted:
        arguments = {**arguments, "device": device}
    if "filled" not in wanted:
        method(**arguments)
        return
    data = bytes(range(1, 252)) * 8000
    address = device.allocate(len(data), 64)
    try:
        trial.write(device, address, data)
        method(**arguments, filled=(address, data))
    finally:
        device.release(address, len(data))
