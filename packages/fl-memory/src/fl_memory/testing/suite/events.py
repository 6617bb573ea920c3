"""Tests of events: what they say, and when they are told."""

from __future__ import annotations

import random
import threading
import time

import pytest

from fl_memory.block import Block
from fl_memory.causes import cause
from fl_memory.errors import AllocationError, OutOfMemoryError
from fl_memory.events import Event
from fl_memory.manager import MemoryManager
from fl_memory.testing.kit import hide
from fl_memory.testing.ledger import BlockLedger, LedgerMemory
from fl_memory.testing.suite.base import MIB, ManagerSuite, within

__tracebackhide__ = hide


class EventTests(ManagerSuite, official=True):
    """Events, marks and hints."""

    def test_event_describes_the_request(self, mm: MemoryManager) -> None:
        seen: list[Event] = []
        mm.on_event(seen.append)
        tag, start = object(), time.perf_counter_ns()
        with cause(operation="matmul", module="encoder.0", phase="forward", step=7) as requested:
            block = mm.alloc(5000, alignment=256, stream="s", tag=tag)
        number, capacity = block.number, block.capacity
        mm.free(block)
        end = time.perf_counter_ns()
        told = {event.kind: event for event in seen if event.kind in ("alloc", "free")}
        for event in told.values():
            assert (event.number, event.nbytes, event.capacity) == (number, 5000, capacity)
            assert event.tag is tag and event.stream == "s" and event.device == "cpu"
            assert event.thread == threading.get_ident()
            assert start <= event.ns <= end, "ns is time.perf_counter_ns()"
        assert told["alloc"].alignment == 256
        assert told["alloc"].cause == requested, "the cause of the thread that asks"
        assert told["free"].cause is None

    def test_numbers_do_not_recur(self, mm: MemoryManager) -> None:
        seen: list[Event] = []
        mm.on_event(seen.append)
        numbers = []
        for _ in range(20):
            block = mm.alloc(5000)
            numbers.append(block.number)
            block.free()
        assert 0 not in numbers and len(set(numbers)) == 20
        assert [event.number for event in seen if event.kind == "alloc"] == numbers
        assert [event.number for event in seen if event.kind == "free"] == numbers

    def test_alloc_is_told_before_it_returns(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """Also where a finaliser asks in the middle of another request."""
        told: set[int] = set()
        late: list[str] = []
        made: list[Block] = []

        def observe(event: Event) -> None:
            if event.kind == "alloc":
                told.add(event.number)

        def ask(nbytes: int) -> None:
            made.append(mm.alloc(nbytes))
            if made[-1].number not in told:
                late.append(f"a block of {nbytes} bytes was lent before observers heard of it")

        def strike() -> None:
            memory.on_allocate = None
            ask(3000)

        mm.on_event(observe)

        def run() -> None:
            memory.on_allocate = strike
            ask(40 * MIB)
            ask(100)

        within(self.patience, run)
        assert not late and len(made) == 3, late

    @pytest.mark.parametrize("way", ["release_cached", "exhausted"])
    def test_device_free_is_told_before_the_release(self, way: str) -> None:
        memory = LedgerMemory(limit=64 * MIB)
        mm = self.make(memory)
        native: dict[int, int] = {}
        late: list[int] = []

        def observe(event: Event) -> None:
            if event.kind == "device_alloc":
                native[event.address] = event.nbytes
            elif event.kind == "device_free":
                late.extend({event.address} - memory.out.keys())
                del native[event.address]

        stop = mm.on_event(observe)
        blocks = [mm.alloc(n) for n in (600, 3 * MIB, 24 * MIB)]
        blocks.clear()
        if way == "release_cached":
            mm.release_cached()
        else:
            assert mm.alloc(60 * MIB).nbytes == 60 * MIB
        assert not late, "memory went back to the device before observers heard of it"
        assert native == {address: size for address, (size, _) in memory.out.items()}
        stop()

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
            elif event.kind == "device_alloc":
                native[event.address] = event.capacity
            elif event.kind == "device_free":
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
        assert books.frees == stats.frees and books.peak_live_bytes == stats.peak_live_bytes
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

        within(self.patience, run)
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

    def test_observer_that_fails_while_memory_is_released(
        self, mm: MemoryManager, memory: LedgerMemory
    ) -> None:
        """Its error comes late enough that no memory is lost."""

        def observe(event: Event) -> None:
            if event.kind == "device_free":
                raise RuntimeError("observer")

        kept = [mm.alloc(n * 12 * MIB) for n in (1, 2, 3)]
        stop = mm.on_event(observe)
        with pytest.raises(RuntimeError, match="observer"):
            for block in kept:
                mm.free(block)
            mm.release_cached()
        stop()
        kept.clear()
        mm.release_cached()
        assert memory.bytes_out == 0 and mm.stats().reserved_bytes == 0

    def test_mark(self, mm: MemoryManager) -> None:
        mm.mark("step", 1)
        seen: list[Event] = []
        stop = mm.on_event(seen.append)
        mm.mark("step", 2)
        mm.alloc(5000)
        mm.mark("epoch")
        stop()
        mm.mark("step", 3)
        told = [(e.kind, e.tag, e.number) for e in seen if e.kind in ("mark", "free")]
        assert told[0] == ("mark", "step", 2) and told[-1] == ("mark", "epoch", 0)
        assert len(told) == 3, "the block was freed between the marks"

    def test_hint(self, mm: MemoryManager, memory: LedgerMemory) -> None:
        """It may take memory from the device, and says how much; no block comes of it."""
        seen: list[Event] = []
        mm.on_event(seen.append)
        before = memory.bytes_out
        taken = mm.reserve_hint(30 * MIB)
        assert taken == memory.bytes_out - before == mm.stats().cached_bytes
        assert (mm.stats().allocs, mm.stats().peak_live_bytes) == (0, 0)
        assert [(e.kind, e.nbytes, e.capacity) for e in seen[-1:]] == [
            ("reserve_hint", 30 * MIB, taken)
        ]
        with pytest.raises(AllocationError):
            mm.reserve_hint(-1)
        blocks = [mm.alloc(10 * MIB) for _ in range(3)]
        self.assert_disjoint(blocks)
        blocks.clear()
        mm.release_cached()
        assert memory.bytes_out == 0

    def test_hint_that_the_device_refuses(self) -> None:
        memory = LedgerMemory(limit=8 * MIB)
        mm = self.make(memory)
        assert mm.reserve_hint(100 * MIB) <= 8 * MIB
        assert mm.alloc(2 * MIB).nbytes == 2 * MIB
