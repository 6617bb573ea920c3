"""The conformance suite of the memory contract.

    from acme import AcmeManager
    from fl_memory.testing import MemoryManagerSuite

    class TestAcme(MemoryManagerSuite):
        manager = AcmeManager

Every test hands the manager a ``LedgerMemory``, so that what it takes from the device and returns
to it is seen from outside, and compares its figures with books of the suite's own.
"""

from __future__ import annotations

import ctypes
import gc
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import fl_memory
from fl_memory.block import Block
from fl_memory.errors import (
    AllocationError,
    BlockError,
    DeviceError,
    DoubleFreeError,
    OutOfMemoryError,
    UseAfterFreeError,
    WrongManagerError,
)
from fl_memory.manager import HOST, Event, MemoryManager, Stats
from fl_memory.managers.system import SystemManager
from fl_memory.testing.kit import Suite
from fl_memory.testing.ledger import BlockLedger, LedgerMemory, has_pattern, write_pattern

MIB = 1 << 20
PATIENCE = 20.0  # seconds until something that should take microseconds counts as hanging


def within(seconds: float, function: Callable[[], object]) -> None:
    """Run ``function`` in a thread of its own; a failure there, or a hang, is a failure here."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # carried to the test's thread
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        # Blocks of a manager that is stuck must not die: their way home would hang this thread, or
        # the end of the process. One reference too many to the caller's variables sees to that.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys._getframe(1)))
        pytest.fail(f"still running after {seconds} seconds: a deadlock")
    if failures:
        raise failures[0]


class Cycle:
    """A block in a reference cycle: only garbage collection can free it, at a time of its own."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.itself = self


class MemoryManagerSuite(Suite, official=True):
    """Derive, name the class ``Test...``, set ``manager`` to the class under test.

    Override ``make(memory)`` when the class is not constructed as ``manager(memory)``.
    """

    subject = "manager"
    what = "memory manager"
    host = HOST
    host_package = "fl-memory"
    hooks = ("make",)

    manager: ClassVar[Any] = None

    def make(self, memory: LedgerMemory) -> MemoryManager:
        """A fresh manager that takes all its bytes from ``memory``."""
        return type(self).manager(memory)

    @pytest.fixture
    def memory(self) -> LedgerMemory:
        return LedgerMemory()

    @pytest.fixture
    def mm(self, memory: LedgerMemory) -> MemoryManager:
        return self.make(memory)

    # ------------------------------------------------------------------ one block

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
        self.keep_apart(blocks)

    def test_default_alignment_is_a_cache_line(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(n) for n in range(1, 40)]
        assert all(block.address % 64 == 0 for block in blocks)

    def test_empty_blocks_have_addresses_of_their_own(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(0) for _ in range(8)]
        assert all(block.address and block.nbytes == 0 for block in blocks)
        assert len({block.address for block in blocks}) == 8
        assert mm.stats().live_blocks == 8 and mm.stats().live_bytes == 0
        assert len(blocks[0].view()) == 0

    def test_view_is_the_memory(self, mm: MemoryManager) -> None:
        block = mm.alloc(777)
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

    # ------------------------------------------------------------------ bad requests

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

    # ------------------------------------------------------------------ limits

    def test_limit_is_kept_and_the_error_says_how_things_stand(self) -> None:
        memory = LedgerMemory(limit=8 * MIB)
        mm = self.make(memory)
        blocks = []
        with pytest.raises(OutOfMemoryError) as caught:
            for _ in range(100):
                blocks.append(mm.alloc(MIB // 2))
                assert memory.bytes_out <= 8 * MIB
        error = caught.value
        assert error.limit == 8 * MIB and error.live_bytes == len(blocks) * MIB // 2
        assert str(MIB // 2) in str(error) and "cpu" in str(error)
        count = len(blocks)
        assert count >= 4, f"of 8 MiB only {count} x 0.5 MiB could be lent"
        blocks.clear()
        blocks = [mm.alloc(MIB // 2) for _ in range(count)]
        assert len(blocks) == count, "what was freed can be lent again"

    def test_small_limit_leaves_room_for_small_blocks(self) -> None:
        mm = self.make(LedgerMemory(limit=64 * 1024))
        assert mm.alloc(4096).address, "a manager takes less when its usual buffer is too large"

    def test_cached_memory_is_released_before_giving_up(self) -> None:
        memory = LedgerMemory(limit=32 * MIB)
        mm = self.make(memory)
        blocks = [mm.alloc(MIB // 4) for _ in range(40)]
        for block in blocks:
            mm.free(block)
        large = mm.alloc(29 * MIB)
        assert large.capacity >= 29 * MIB

    # ------------------------------------------------------------------ going home

    def test_free_twice(self, mm: MemoryManager) -> None:
        block, other = mm.alloc(5000), mm.alloc(5000)
        mm.free(block)
        before = mm.stats()
        with pytest.raises(DoubleFreeError):
            mm.free(block)
        assert mm.stats() == before
        again = [mm.alloc(5000), mm.alloc(5000), other]
        self.keep_apart(again)

    def test_free_through_the_wrong_manager(self, mm: MemoryManager) -> None:
        stranger = SystemManager(LedgerMemory())
        mine, theirs = mm.alloc(5000), stranger.alloc(5000)
        with pytest.raises(WrongManagerError):
            mm.free(theirs)
        with pytest.raises(WrongManagerError):
            stranger.free(mine)
        assert mm.stats().live_blocks == 1 and stranger.stats().live_blocks == 1
        mine.free()
        theirs.free()
        assert mm.stats().live_blocks == 0 and stranger.stats().live_blocks == 0

    def test_dying_block_goes_home_once(self, mm: MemoryManager) -> None:
        block = mm.alloc(5000)
        assert mm.stats().live_blocks == 1
        del block
        assert mm.stats().live_blocks == 0 and mm.stats().frees == 1
        freed = mm.alloc(5000)
        freed.free()
        del freed
        assert mm.stats().frees == 2

    def test_swap_while_live(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        other = SystemManager(LedgerMemory())
        with fl_memory.use(mm):
            early = fl_memory.current().alloc(9000, tag="early")
            doomed = fl_memory.current().alloc(100)
            write_pattern(early, 7)
            with fl_memory.use(other):
                late = fl_memory.current().alloc(9000, tag="late")
                assert late.manager is other and other.stats().live_blocks == 1
                assert mm.stats().live_blocks == 2, "statistics survive the swap"
                assert has_pattern(early, 7), "blocks survive the swap"
                del doomed
                early.free()
                assert mm.stats().live_blocks == 0 and mm.stats().frees == 2
                assert other.stats().frees == 0, "blocks go home to the manager that made them"
                mm.release_cached()
                assert memory.bytes_out == 0
        late.free()
        assert other.stats().live_blocks == 0

    def test_managers_are_independent(self) -> None:
        first_memory, second_memory = LedgerMemory(), LedgerMemory()
        first, second = self.make(first_memory), self.make(second_memory)
        a, b = first.alloc(5000), second.alloc(7000)
        assert first.stats().live_bytes == 5000 and second.stats().live_bytes == 7000
        assert first_memory.home_of(a.address, 5000) and second_memory.home_of(b.address, 7000)
        assert second_memory.home_of(a.address, 5000) is None

    def test_dying_manager_leaves_nothing(self, memory: LedgerMemory) -> None:
        mm = self.make(memory)
        blocks = [mm.alloc(n) for n in (0, 100, 5000, 2 * MIB)]
        mm.free(blocks.pop())
        del mm, blocks
        gc.collect()
        assert memory.bytes_out == 0, "cached memory outlived its manager"

    def test_manager_and_blocks_die_in_one_collection(self, memory: LedgerMemory) -> None:
        """Their finalisers run in no particular order then."""
        Cycle(self.make(memory).alloc(5000))
        Cycle(self.make(memory).alloc(3 * MIB))
        gc.collect()
        assert memory.bytes_out == 0, "memory outlived its manager"

    # ------------------------------------------------------------------ long runs

    @pytest.mark.parametrize("seed", range(4))
    def test_random_walk(self, seed: int, mm: MemoryManager, memory: LedgerMemory) -> None:
        """2000 random steps: no overlap, no damage, all bytes from the device, exact figures."""
        dice = random.Random(seed)
        books = BlockLedger()
        live: list[tuple[Block, int]] = []
        for step in range(2000):
            # The target number of live blocks swings, so that pools fill and drain.
            if len(live) < dice.choice((5, 60)):
                nbytes = 0 if dice.random() < 0.02 else int(2 ** dice.uniform(0, 19))
                if dice.random() < 0.01:
                    nbytes = dice.randrange(MIB, 12 * MIB)
                alignment = dice.choice((1, 64, 64, 64, 256, 1024))
                block = mm.alloc(nbytes, alignment=alignment, stream=dice.choice((None, None, 1)))
                assert block.address % alignment == 0
                assert block.nbytes == nbytes <= block.capacity
                # Look before writing: a wrong address would damage this very process.
                assert memory.home_of(block.address, block.capacity), (
                    f"{block} does not lie in the device memory of its manager"
                )
                books.add(block.address, nbytes, block.capacity)
                if nbytes <= 1 << 16:
                    write_pattern(block, step)
                live.append((block, step))
            else:
                block, written = live.pop(dice.randrange(len(live)))
                if block.nbytes <= 1 << 16:
                    assert has_pattern(block, written), "somebody else wrote into a live block"
                books.remove(block.address, block.nbytes)
                if dice.random() < 0.5:
                    mm.free(block)
                del block
            if step % 100 == 0:
                self.check_books(mm, books, memory)
        self.check_books(mm, books, memory)
        for block, written in live:
            assert block.nbytes > 1 << 16 or has_pattern(block, written)
            books.remove(block.address, block.nbytes)
        live.clear()
        del block
        self.check_books(mm, books, memory)
        mm.release_cached()
        assert memory.bytes_out == 0, "everything was freed, and yet the device is owed memory"
        assert mm.stats().reserved_bytes == 0

    def test_many_small_blocks(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(i % 300) for i in range(4000)]
        self.keep_apart(blocks)
        assert mm.stats().live_blocks == 4000
        blocks.clear()
        assert mm.stats().live_blocks == 0 and mm.stats().live_bytes == 0

    def test_steady_loop_does_not_grow(self, mm: MemoryManager) -> None:
        """The same requests again and again settle on a fixed amount of device memory."""

        def step() -> None:
            kept = [mm.alloc(n) for n in (100, 5000, 70_000, 1_300_000, 5000)]
            kept.pop(1)
            kept.append(mm.alloc(30_000))

        for _ in range(5):
            step()
        reserved = mm.stats().reserved_bytes
        for _ in range(200):
            step()
        assert mm.stats().reserved_bytes <= reserved

    # ------------------------------------------------------------------ threads and finalisers

    def test_threads(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Four threads allocate and free their own blocks and one another's."""
        handed_over: list[tuple[Block, int]] = []

        def work(seed: int) -> None:
            dice = random.Random(seed)
            live: list[tuple[Block, int]] = []
            for step in range(400):
                block = mm.alloc(int(2 ** dice.uniform(3, 15)), tag=seed)
                mark = seed * 1000 + step
                write_pattern(block, mark)
                (handed_over if dice.random() < 0.3 else live).append((block, mark))
                for source in (live, handed_over):
                    if len(source) > 10:
                        try:
                            block, mark = source.pop(0)
                        except IndexError:  # another thread was faster
                            continue
                        assert has_pattern(block, mark), "two threads share memory"
                        mm.free(block)
            for block, mark in live:
                assert has_pattern(block, mark), "two threads share memory"

        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            within(PATIENCE * 3, lambda: self.in_threads(work, 4))
        finally:
            sys.setswitchinterval(switch)
        handed_over.clear()
        stats = mm.stats()
        assert (stats.live_blocks, stats.live_bytes) == (0, 0)
        assert stats.allocs == stats.frees == 1600
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_free_inside_alloc(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """A finaliser strikes while the manager waits for the device: it frees, allocates, asks."""
        old = [mm.alloc(5000) for _ in range(6)]
        made: list[Block] = []

        def strike() -> None:
            memory.on_allocate = None
            old.pop().free()
            del old[-1]
            made.append(mm.alloc(3000))
            write_pattern(made[-1], 5)
            mm.alloc(10)
            mm.stats()
            mm.release_cached()

        def run() -> None:
            for _ in range(2):
                memory.on_allocate = strike
                block = mm.alloc(40 * MIB)
                memory.on_allocate = None
                self.keep_apart([block, *old, *made])

        within(PATIENCE, run)
        assert all(has_pattern(block, 5) for block in made)
        stats = mm.stats()
        assert stats.live_blocks == len(old) + len(made)
        assert stats.live_bytes == 5000 * len(old) + 3000 * len(made)
        old.clear()
        made.clear()
        mm.release_cached()
        assert mm.stats().live_blocks == 0 and memory.bytes_out == 0

    def test_free_inside_release(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """The same while memory goes back to the device."""
        old = [mm.alloc(3 * MIB) for _ in range(4)]

        def strike() -> None:
            memory.on_release = None
            if old:
                old.pop().free()
            mm.alloc(64)

        def run() -> None:
            memory.on_release = strike
            old.pop().free()
            mm.release_cached()
            memory.on_release = None

        within(PATIENCE, run)
        assert mm.stats().live_blocks == len(old)
        old.clear()
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_garbage_collection_anywhere(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Blocks in cycles, and a collector that runs as often as it can."""
        thresholds = gc.get_threshold()

        def run() -> None:
            gc.set_threshold(1, 1, 1)
            try:
                for i in range(150):
                    Cycle(mm.alloc(4096 + i))
                    kept = [mm.alloc(100 * k) for k in range(4)]
                    self.keep_apart(kept)
            finally:
                gc.set_threshold(*thresholds)

        within(PATIENCE * 3, run)
        gc.collect()
        assert mm.stats().live_blocks == 0
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_free_never_waits(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """While one thread is stuck inside the device, another one's ``free`` returns."""
        block = mm.alloc(5000)
        inside, leave = threading.Event(), threading.Event()

        def stall() -> None:
            memory.on_allocate = None
            inside.set()
            leave.wait(PATIENCE)

        memory.on_allocate = stall
        large: list[Block] = []
        stuck = threading.Thread(target=lambda: large.append(mm.alloc(50 * MIB)), daemon=True)
        stuck.start()
        assert inside.wait(PATIENCE), "a request of 50 MiB did not reach the device"
        try:
            within(PATIENCE / 4, block.free)
        finally:
            leave.set()
            stuck.join(PATIENCE)
        assert mm.stats().live_blocks == 1 and mm.stats().live_bytes == 50 * MIB

    # ------------------------------------------------------------------ figures and events

    def test_stats_of_one_block(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        assert mm.stats() == Stats(), "a fresh manager holds nothing"
        block = mm.alloc(5000)
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks) == (5000, 1)
        assert stats.used_bytes == block.capacity
        assert (stats.allocs, stats.frees, stats.peak_bytes) == (1, 0, 5000)
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes == memory.bytes_out
        block.free()
        stats = mm.stats()
        assert (stats.live_bytes, stats.live_blocks, stats.used_bytes) == (0, 0, 0)
        assert (stats.allocs, stats.frees, stats.peak_bytes) == (1, 1, 5000)
        assert mm.stats("cpu") == stats

    def test_peak_stays(self, mm: MemoryManager) -> None:
        blocks = [mm.alloc(10_000) for _ in range(5)]
        blocks.clear()
        mm.alloc(100)
        assert mm.stats().peak_bytes == 50_000
        assert mm.stats().peak_reserved_bytes >= 50_000

    def test_release_cached(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        kept = [mm.alloc(n) for n in (600, 40_000, 3 * MIB)]
        for i, block in enumerate(kept):
            write_pattern(block, i)
        freed = [mm.alloc(n) for n in (600, 40_000, 3 * MIB, 24 * MIB)]
        for block in freed:
            mm.free(block)
        before = memory.bytes_out
        released = mm.release_cached()
        assert before - memory.bytes_out == released, "the result is what the device got back"
        assert mm.release_cached() == 0, "a second call finds nothing"
        assert all(has_pattern(block, i) for i, block in enumerate(kept))
        stats = mm.stats()
        assert stats.reserved_bytes == memory.bytes_out
        assert stats.live_blocks == 3
        kept.clear()
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_memory_of_a_stream_stays_with_it(
        self, mm: MemoryManager, memory: LedgerMemory
    ) -> None:
        """What one stream freed goes to another stream only by way of the device."""
        for nbytes in (600, 40_000, 3 * MIB):
            block = mm.alloc(nbytes, stream="compute")
            address = block.address
            home = memory.home_of(address, nbytes)
            block.free()
            other = mm.alloc(nbytes, stream="copy")
            if other.address < address + nbytes and address < other.address + nbytes:
                assert memory.home_of(other.address, nbytes) != home, (
                    "memory was lent to another stream although its own may still be working on it"
                )

    def test_events_tell_the_whole_story(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Whoever replays the events arrives at the manager's own figures."""
        books, native = BlockLedger(), dict[int, int]()
        seen: list[Event] = []

        def observe(event: Event) -> None:
            seen.append(event)
            if event.kind == "alloc":
                books.add(event.address, event.nbytes, event.nbytes, event.tag)
            elif event.kind == "free":
                books.remove(event.address, event.nbytes)
            elif event.kind == "native_alloc":
                native[event.address] = event.nbytes
            elif event.kind == "native_free":
                assert native.pop(event.address) == event.nbytes
            assert event.kind in Event.KINDS and event.device == "cpu"

        stop = mm.on_event(observe)
        dice = random.Random(3)
        live: list[Block] = []
        for i in range(300):
            if len(live) < 12:
                live.append(mm.alloc(int(2 ** dice.uniform(0, 21)), tag=i))
            else:
                del live[dice.randrange(len(live))]
        stats = mm.stats()
        assert books.live_bytes == stats.live_bytes and books.allocs == stats.allocs
        assert books.frees == stats.frees and books.peak_bytes == stats.peak_bytes
        tags = {address: tag for address, (_, tag) in books.blocks.items()}
        assert tags == {block.address: block.tag for block in live}
        assert sum(native.values()) == memory.bytes_out
        live.clear()
        mm.release_cached()
        assert seen[-1].kind == "release_cached"
        assert not native and books.live_bytes == 0
        count = len(seen)
        stop()
        mm.alloc(5000).free()
        assert len(seen) == count, "an observer that left still hears events"

    def test_event_of_exhausted_memory(self) -> None:
        mm = self.make(LedgerMemory(limit=MIB))
        seen: list[Event] = []
        mm.on_event(seen.append)
        with pytest.raises(OutOfMemoryError):
            mm.alloc(2 * MIB, tag="too much")
        told = [(event.kind, event.nbytes, event.tag) for event in seen[-1:]]
        assert told == [("out_of_memory", 2 * MIB, "too much")]

    def test_observer_may_allocate(self, mm: MemoryManager) -> None:
        kinds: list[str] = []
        own: list[Block] = []

        def observe(event: Event) -> None:
            kinds.append(event.kind)
            if event.tag == "user" and event.kind == "alloc":
                own.append(mm.alloc(50, tag="observer"))

        mm.on_event(observe)

        def run() -> None:
            mm.alloc(5000, tag="user").free()

        within(PATIENCE, run)
        assert kinds.count("alloc") == 2 and kinds.count("free") == 1
        assert mm.stats().live_blocks == 1

    def test_observer_that_fails(self, mm: MemoryManager) -> None:
        """Its error reaches the caller; the books stay right."""

        def observe(event: Event) -> None:
            raise RuntimeError("observer")

        mm.alloc(100).free()
        stop = mm.on_event(observe)
        with pytest.raises(RuntimeError, match="observer"):
            mm.release_cached()
        stop()
        block = mm.alloc(5000)
        assert mm.stats().live_blocks == 1
        block.free()
        assert mm.stats().live_blocks == 0

    def test_two_observers_leave_separately(self, mm: MemoryManager) -> None:
        mm.alloc(100).free()
        first: list[str] = []

        def observe(event: Event) -> None:
            if event.kind == "release_cached":
                first.append(event.kind)

        stop_one, stop_two = mm.on_event(observe), mm.on_event(observe)
        mm.release_cached()
        assert len(first) == 2
        stop_one()
        mm.release_cached()
        assert len(first) == 3
        stop_two()
        stop_two()
        mm.release_cached()
        assert len(first) == 3

    # ------------------------------------------------------------------ tools of the tests

    def keep_apart(self, blocks: list[Block]) -> None:
        """Fail when two of these live blocks share a byte."""
        books = BlockLedger()
        for block in blocks:
            try:
                books.add(block.address, block.nbytes, block.capacity)
            except BlockError as error:
                pytest.fail(str(error))

    def check_books(self, mm: MemoryManager, books: BlockLedger, memory: LedgerMemory) -> None:
        """The manager's figures against ours."""
        stats = mm.stats()
        used = sum(extent for extent, _ in books.blocks.values())
        claimed = (stats.live_bytes, stats.live_blocks, stats.used_bytes, stats.peak_bytes)
        true = (books.live_bytes, len(books.blocks), used, books.peak_bytes)
        assert claimed == true, f"(live, blocks, used, peak) are {true}, stats() says {claimed}"
        assert (stats.allocs, stats.frees) == (books.allocs, books.frees)
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes == memory.bytes_out
        assert stats.native_allocs == memory.allocations
        assert stats.native_frees == memory.releases
        assert stats.peak_reserved_bytes >= stats.reserved_bytes

    def in_threads(self, work: Callable[[int], None], count: int) -> None:
        """Run ``work(i)`` in ``count`` threads; raise the first failure."""
        failures: list[BaseException] = []

        def run(i: int) -> None:
            try:
                work(i)
            except BaseException as error:  # carried to the caller's thread
                failures.append(error)

        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
