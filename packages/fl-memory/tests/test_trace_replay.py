"""Replays of traces: what managers are asked for, the figures, and managers that are wrong."""

from __future__ import annotations

import gc
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from fl_memory import (
    Account,
    AllocationError,
    Block,
    BlockError,
    DeviceMemory,
    MemoryManager,
    OutOfMemoryError,
    PluginError,
    TraceError,
    traces,
)
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.traces import AddressMemory, AnyManager, Trace

RECORDED = Path(__file__).parent / "traces"


def of(*rows: tuple[Any, ...], **facts: Any) -> Trace:
    """``("alloc", block, nbytes)``, ``("free", block)``, ``("mark", name, number)``."""
    trace = Trace(facts=facts)
    for kind, *cells in rows:
        if kind == "alloc":
            trace.append(kind, block=cells[0], nbytes=cells[1], alignment=64)
        elif kind == "free":
            trace.append(kind, block=cells[0])
        else:
            trace.append(kind, tag=cells[0], nbytes=cells[1])
    return trace


class Spy(SystemManager):
    """Remembers what it was asked for, beyond what ``system`` does."""

    CONTRACT = (1, 0)
    asked: list[tuple[Any, ...]]

    def alloc(
        self,
        nbytes: int,
        *,
        device: str = "cpu",
        alignment: int = 64,
        stream: Hashable = None,
        tag: object = None,
    ) -> Block:
        self.asked.append(("alloc", nbytes, device, alignment, stream, tag))
        return super().alloc(nbytes, device=device, alignment=alignment, stream=stream, tag=tag)

    def free(self, block: Block) -> None:
        self.asked.append(("free", block.nbytes))
        super().free(block)

    def mark(self, name: str, number: int = 0) -> None:
        self.asked.append(("mark", name, number))

    def reserve_hint(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
        self.asked.append(("reserve_hint", nbytes, device, stream))
        return 0


def spied(trace: Trace, **options: Any) -> list[tuple[Any, ...]]:
    Spy.asked = []
    traces.replay(trace, Spy, **options)
    return Spy.asked


def test_a_manager_is_asked_for_what_the_program_asked() -> None:
    trace = Trace(facts={"device": "acme:1"})
    trace.append("mark", tag="step", nbytes=3)
    trace.append("reserve_hint", nbytes=1000, stream="stream 1")
    trace.append("alloc", block=5, nbytes=10, alignment=4096, stream="stream 1", tag="weights")
    trace.append("alloc", block=6, nbytes=0, alignment=64)
    trace.append("refuse", nbytes=1 << 50)
    trace.append("free", block=5)
    asked = [
        ("mark", "step", 3),
        ("reserve_hint", 1000, "acme:1", "stream 1"),
        ("alloc", 10, "acme:1", 4096, "stream 1", "weights"),
        ("alloc", 0, "acme:1", 64, None, None),
        ("free", 10),
        ("free", 0),  # what lives at the end
    ]
    assert spied(trace) == asked
    assert spied(trace, hints=False) == [asked[0], *asked[2:]]


def test_figures_by_hand(two_mib: AnyManager) -> None:
    trace = of(("alloc", 1, 1000), ("alloc", 2, 3000), ("free", 1), ("alloc", 3, 500))
    run = traces.replay(trace, two_mib)
    assert (run.rows, run.allocs, run.device_allocs, run.out_of_memory) == (4, 3, 1, None)
    assert run.peak_live_bytes == run.live_bytes_at_peak_used == 4000
    assert run.peak_used_bytes == 1024 + 3072
    assert run.peak_reserved_bytes == 2 << 20
    assert run.internal == pytest.approx(1 - 4000 / 4096)
    assert run.external == pytest.approx(1 - 4096 / (2 << 20))
    assert run.over == (2 << 20) / 4000


def test_live_is_taken_when_used_is_at_its_peak(two_mib: AnyManager) -> None:
    # 2 blocks of 1 byte use more (1024) than one of 600 does, and less of it is live.
    trace = of(("alloc", 1, 400), ("free", 1), ("alloc", 2, 1), ("alloc", 3, 1))
    run = traces.replay(trace, two_mib)
    assert (run.peak_live_bytes, run.live_bytes_at_peak_used) == (400, 2)
    assert run.internal == pytest.approx(1 - 2 / 1024)


def test_the_first_peak_of_used_counts() -> None:
    trace = of(("alloc", 1, 1024), ("free", 1), ("alloc", 2, 1000))
    run = traces.replay(trace, "exact")  # in steps of 1024 bytes
    assert (run.peak_used_bytes, run.live_bytes_at_peak_used) == (1024, 1024)


def test_an_empty_trace() -> None:
    run = traces.replay(Trace(), "caching")
    assert (run.rows, run.over, run.internal, run.external) == (0, 1.0, 0.0, 0.0)
    assert traces.minimum_capacity(Trace(), "caching") == 0


def test_no_memory_is_taken() -> None:
    trace = of(("alloc", 1, 1 << 45), ("alloc", 2, 1 << 45), ("free", 1))
    assert traces.replay(trace, "system").peak_reserved_bytes == 1 << 46


def test_a_replay_ends_where_memory_does() -> None:
    trace = of(("alloc", 1, 600), ("alloc", 2, 600), ("free", 1), ("free", 2))
    run = traces.replay(trace, "system", AddressMemory(1000))
    assert run.rows == 1 and run.allocs == 1 and run.peak_live_bytes == 600
    assert isinstance(run.out_of_memory, OutOfMemoryError)
    assert run.out_of_memory.requested == 600
    assert traces.replay(trace, "system", AddressMemory(0)).rows == 0
    assert traces.replay(trace, "system", AddressMemory(1200)).out_of_memory is None


def test_address_memory() -> None:
    memory = AddressMemory(1 << 20, device="acme:0")
    first, second = memory.allocate(1000, 1 << 16), memory.allocate(10, 64)
    assert first % (1 << 16) == second % 64 == 0 and first + 1000 <= second
    assert memory.capacity() == 1 << 20 and memory.reserved_bytes == 1010 and memory.allocs == 2
    assert memory.holds(first + 999, 1) and not memory.holds(first + 999, 2)
    assert not memory.holds(0, 1)
    with pytest.raises(OutOfMemoryError, match="acme:0"):
        memory.allocate((1 << 20) - 1009, 64)
    with pytest.raises(BlockError, match="no such range"):
        memory.release(first, 999)
    memory.release(first, 1000)
    with pytest.raises(BlockError, match="no such range"):
        memory.release(first, 1000)
    assert memory.allocate(1000, 1 << 16) == first
    assert memory.peak_reserved_bytes == 1010
    with pytest.raises(AllocationError, match="capacity of -1 bytes"):
        AddressMemory(-1)


def lying(change: str) -> type[MemoryManager]:
    class Lying(SystemManager):
        CONTRACT = (1, 0)
        name = "liar"

        def alloc(self, nbytes: int, **how: Any) -> Block:
            block = super().alloc(nbytes, **how)
            if change == "small":
                block.capacity = nbytes - 1
            elif change == "misaligned":
                block.address += 1
            elif change == "outside":
                block.address += 1 << 30
            else:
                block.address = AddressMemory.BASE
            return block

    return Lying


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("small", "capacity of 99 bytes"),
        ("misaligned", "not aligned to 64"),
        ("outside", "outside of the memory"),
        ("twice", "overlaps another"),
    ],
)
def test_a_manager_that_lies(change: str, message: str) -> None:
    trace = of(("alloc", 1, 100), ("alloc", 2, 100))
    with pytest.raises(BlockError, match=rf"'liar'.*100 bytes.*{message}"):
        traces.replay(trace, lying(change))


class LendsTwice(SystemManager):
    """Keeps in its list what it lends, and releases it again at its end."""

    def allocate_chunk(
        self, account: Account, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, None]:
        kept = self.__dict__.setdefault("kept", [])
        if not kept:
            kept.append(self.device_allocate(account, nbytes, alignment))
        return (*kept[0], None)

    def trim(self, account: Account) -> int:
        self.device_free(account, *self.__dict__["kept"][0])
        return 0


def test_a_manager_that_lies_fails_once_and_not_in_its_finaliser() -> None:
    # An error in a finaliser fails this test: pytest's settings make it one.
    trace = of(("alloc", 1, 100), ("alloc", 2, 100))
    with pytest.raises(BlockError, match="overlaps another"):
        traces.replay(trace, LendsTwice)
    gc.collect()


def test_managers_by_name_class_or_function() -> None:
    trace = of(("alloc", 1, 100))

    def made(memory: DeviceMemory) -> MemoryManager:
        return CachingManager(memory)

    runs = [traces.replay(trace, manager) for manager in ("caching", CachingManager, made)]
    assert runs[0] == runs[1] == runs[2]
    with pytest.raises(PluginError, match="nobody"):
        traces.replay(trace, "nobody")


def test_minimum_capacity_is_where_a_manager_begins_to_serve() -> None:
    trace = of(("alloc", 1, 1_000_000), ("alloc", 2, 3_000_000), ("free", 1), ("alloc", 3, 10))
    assert traces.minimum_capacity(trace, "system", resolution=0) == 4_000_000
    least = traces.minimum_capacity(trace, "caching", resolution=0)
    assert least is not None
    for capacity, fits in ((least - 1, False), (least, True)):
        run = traces.replay(trace, "caching", AddressMemory(capacity))
        assert (run.out_of_memory is None) is fits
    coarse = traces.minimum_capacity(trace, "caching", resolution=0.1)
    assert coarse is not None and least <= coarse <= least + 400_000


def test_no_capacity_is_enough_for_some_managers() -> None:
    class Never(SystemManager):
        CONTRACT = (1, 0)

        def alloc(self, nbytes: int, **how: Any) -> Block:
            raise OutOfMemoryError(nbytes, "cpu")

    trace = of(("alloc", 1, 1000))
    assert traces.minimum_capacity(trace, Never) is None
    (row,) = traces.compare(trace, {"never": Never})
    assert row.fits is None and json.dumps(row.as_dict())


def test_traces_that_no_program_made_are_refused() -> None:
    trace = of(("alloc", 1, 10))
    traces.replay(trace, "system")
    trace.append("free", block=2)
    for use in (traces.replay, traces.minimum_capacity, traces.timeline):
        with pytest.raises(TraceError, match="row 1: block 2 is freed"):
            use(trace, "system")
    with pytest.raises(TraceError, match="resolution=nan"):
        traces.minimum_capacity(Trace(), "system", resolution=float("nan"))


def test_compare() -> None:
    trace = traces.read(RECORDED / "alexnet-numpy.flmt")
    done: list[str] = []
    rows = traces.compare(
        trace, {"native": "system", "ours": CachingManager}, hints=False, done=done.append
    )
    assert [row.manager for row in rows] == done == ["native", "ours"]
    assert rows[0].fits == rows[0].replay.over == 1.0
    fits = rows[1].fits
    assert fits is not None and 1.0 < fits <= rows[1].replay.over < 1.5
    assert rows[1].as_dict()["peak_live_bytes"] == trace.peak_live_bytes == 1_054_441_728


def test_timeline(two_mib: AnyManager) -> None:
    trace = of(
        ("alloc", 1, 1000), ("alloc", 2, 2000), ("free", 1), ("mark", "step", 1), ("alloc", 3, 400)
    )
    state = traces.timeline(trace, two_mib)
    assert list(state.live) == [1000, 3000, 2000, 2000, 2400]
    assert list(state.used) == [1024, 3072, 2048, 2048, 2560]
    assert list(state.reserved) == [2 << 20] * 5
    assert state.peak == 1
    assert [(block.begin, block.end, block.nbytes) for block in state.blocks] == [
        (0, 2, 1000),
        (1, 5, 2000),
        (4, 5, 400),
    ]
    assert state.free_chunks(1) == [(2 << 20) - 3072]
    assert state.free_chunks(2) == [1024, (2 << 20) - 3072]
    assert state.free_chunks(4) == [1024, (2 << 20) - 3072 - 512]
    assert [block.nbytes for block in state.blocks_at(3)] == [2000]
    empty = traces.timeline(Trace(), "caching")
    assert empty.peak == 0 and empty.free_chunks(0) == []


def test_a_timeline_agrees_with_the_replay() -> None:
    for path in sorted(RECORDED.glob("*.flmt")):
        trace = traces.read(path)
        for manager in ("caching", "system"):
            state, run = traces.timeline(trace, manager), traces.replay(trace, manager)
            assert max(state.live) == run.peak_live_bytes == trace.peak_live_bytes
            assert max(state.used) == run.peak_used_bytes
            assert max(state.reserved) == run.peak_reserved_bytes
            free = state.reserved[state.peak] - state.used[state.peak]
            assert sum(state.free_chunks(state.peak)) == free


def test_export_for_perfetto(tmp_path: Path, two_mib: AnyManager) -> None:
    trace = of(("mark", "step", 1), ("alloc", 1, 1000), ("free", 1))
    trace.append("alloc", block=2, nbytes=5, alignment=64, ns=2500, thread=3, operation="matmul")
    path = tmp_path / "a.json"
    traces.write_chrome(trace, path, two_mib)
    events = json.loads(path.read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "i"] == ["step"]
    begun = [e for e in events if e["ph"] == "b"]
    assert [(e["name"], e["id"], e["args"]["nbytes"]) for e in begun] == [
        ("block", 1, 1000),
        ("matmul", 2, 5),
    ]
    assert (begun[1]["ts"], begun[1]["tid"]) == (2.5, 3)
    assert [e["id"] for e in events if e["ph"] == "e"] == [1]
    counters = [e["args"] for e in events if e["ph"] == "C"]
    assert [c["live"] for c in counters] == [0, 1000, 0, 5]
    assert counters[3] == {"live": 5, "used": 512, "reserved": 2 << 20}
    assert {"pid", "ts", "tid"} <= events[1].keys()
