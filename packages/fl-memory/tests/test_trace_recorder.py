"""``Recorder``: a trace holds what the manager was asked for, by whom and why."""

from __future__ import annotations

import gc
import random
import sys
import threading
from types import FrameType
from typing import Any

import pytest

import fl_memory as mem
from fl_memory import traces
from fl_memory.host import HostMemory
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.traces import KINDS, TABLES, AddressMemory, Recorder, Trace


def rows(trace: Trace, *columns: str) -> list[tuple[Any, ...]]:
    """The cells of the columns, kinds and names in words."""

    def word(column: str, cell: int) -> Any:
        if column == "kind":
            return KINDS[cell]
        return trace.tables[column][cell] if column in TABLES else cell

    return [
        tuple(word(column, cell) for column, cell in zip(columns, row))
        for row in trace.rows(*columns)
    ]


def test_blocks_from_alloc_to_free() -> None:
    manager = CachingManager()
    older = manager.alloc(5000)
    with Recorder(manager) as recorder:
        first = manager.alloc(100, alignment=128, tag="weights", stream=7)
        second = manager.alloc(0, tag=print)
        first.free()
        older.free()
        third = manager.alloc(100, stream="copies")
    third.free()
    second.free()
    columns = ("kind", "block", "nbytes", "capacity", "alignment", "stream", "tag")
    assert rows(recorder.trace, *columns) == [
        ("alloc", 0, 100, 512, 128, "stream 1", "weights"),
        ("alloc", 1, 0, 512, 64, "", "builtin_function_or_method"),
        ("free", 0, 0, 0, 0, "", ""),
        ("alloc", 2, 100, 512, 64, "stream 2", ""),
    ]
    assert len(recorder) == 4
    recorder.trace.check()


def test_causes_marks_and_time() -> None:
    with mem.use(CachingManager()) as manager, Recorder(facts={"model": "tiny"}) as recorder:
        with mem.cause(operation="matmul", module="encoder.0", phase="forward"):
            block = manager.alloc(5000)
        mem.mark("step", 4)
        with mem.cause(phase="backward"):
            block.free()
        mem.mark("epoch", 10**30)
        manager.reserve_hint(1 << 20)
    trace = recorder.trace
    columns = ("kind", "operation", "module", "phase", "step", "nbytes", "tag")
    assert rows(trace, *columns) == [
        ("alloc", "matmul", "encoder.0", "forward", 0, 5000, ""),
        ("mark", "", "", "", 4, 4, "step"),
        ("free", "", "", "backward", 4, 0, ""),
        ("mark", "", "", "", 4, (1 << 62) - 1, "epoch"),
        ("reserve_hint", "", "", "", 4, 1 << 20, ""),
    ]
    times = list(trace.columns["ns"])
    assert times == sorted(times) and 0 <= times[0] < 10**10
    assert trace.facts["model"] == "tiny" and trace.facts["device"] == "cpu"
    assert trace.facts["versions"]["fl_memory"] == mem.__version__


def test_threads_are_numbered() -> None:
    manager = CachingManager()
    with Recorder(manager) as recorder:
        blocks = [manager.alloc(5000)]
        thread = threading.Thread(target=lambda: blocks.append(manager.alloc(6000)))
        thread.start()
        thread.join()
        manager.free(blocks[1])
    assert rows(recorder.trace, "kind", "thread") == [("alloc", 0), ("alloc", 1), ("free", 0)]


def test_refusals_are_recorded() -> None:
    manager = CachingManager(HostMemory(limit=1 << 20))
    with Recorder(manager) as recorder:
        for nbytes in (1 << 21, 10**30):
            with pytest.raises(mem.OutOfMemoryError):
                manager.alloc(nbytes, tag="batch")
    assert rows(recorder.trace, "kind", "nbytes", "tag") == [
        ("refuse", 1 << 21, "batch"),
        ("refuse", (1 << 62) - 1, "batch"),
    ]


def test_only_one_device_is_recorded() -> None:
    manager = SystemManager(AddressMemory(device="acme:0"), AddressMemory(device="acme:1"))
    with Recorder(manager, device="acme:1") as recorder:
        manager.alloc(10, device="acme:0").free()
        manager.alloc(11, device="acme:1").free()
        manager.mark("step", 1)
    assert rows(recorder.trace, "kind", "nbytes") == [("alloc", 11), ("free", 0), ("mark", 1)]
    assert recorder.trace.device == "acme:1"


@pytest.mark.usefixtures("fresh_choice")
def test_every_manager_that_a_program_chooses() -> None:
    with Recorder() as recorder:
        mem.current().alloc(1).free()
        mem.use("system")
        block = mem.current().alloc(2)
        with mem.use(CachingManager()) as manager:
            manager.alloc(3).free()
        with mem.use("system"):
            block.free()
    mem.current().alloc(4).free()
    assert rows(recorder.trace, "kind", "block", "nbytes") == [
        ("alloc", 0, 1),
        ("free", 0, 0),
        ("alloc", 1, 2),
        ("alloc", 2, 3),
        ("free", 2, 0),
        ("free", 1, 0),
    ]


@pytest.mark.usefixtures("fresh_choice")
def test_only_the_given_managers() -> None:
    one, two, other = CachingManager(), SystemManager(), SystemManager()
    with Recorder(one, two) as recorder:
        for size, manager in enumerate((one, two, other)):
            with mem.use(manager):
                manager.alloc(size).free()
    assert rows(recorder.trace, "kind", "nbytes")[::2] == [("alloc", 0), ("alloc", 1)]


def test_the_recording_ends_after_max_rows() -> None:
    manager = CachingManager()
    with Recorder(manager, max_rows=3) as recorder:
        blocks = [manager.alloc(5000) for _ in range(5)]
    for block in blocks:
        block.free()
    assert len(recorder) == 3 and recorder.trace.facts["truncated"] is True
    with Recorder(manager, max_rows=3) as recorder:
        blocks = [manager.alloc(5000) for _ in range(3)]
    assert "truncated" not in recorder.trace.facts


def test_a_recording_may_be_interrupted() -> None:
    manager = CachingManager()
    recorder = Recorder(manager)
    with recorder:
        first = manager.alloc(10)
    first.free()  # unseen
    with pytest.raises(KeyError), recorder:
        manager.alloc(20).free()
        raise KeyError("the program ended")
    assert rows(recorder.trace, "kind", "nbytes") == [("alloc", 10), ("alloc", 20), ("free", 0)]
    recorder.trace.check()


def test_frees_of_finalisers_and_threads() -> None:
    """Frees that find the manager at work come later, and are complete at the end."""
    manager = CachingManager(AddressMemory())

    class Node:
        def __init__(self) -> None:
            self.itself = self
            self.block = manager.alloc(random.randrange(10_000))

    def work() -> None:
        for _ in range(300):
            Node()

    with Recorder(manager) as recorder:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        manager.stats()
    trace = recorder.trace
    trace.check()
    kinds = list(trace.columns["kind"])
    assert kinds.count(0) == kinds.count(1) == 1200
    assert trace.peak_live_bytes == manager.stats().peak_live_bytes


@pytest.mark.parametrize("made", [CachingManager, SystemManager])
def test_a_replay_has_the_figures_of_the_recording(made: Any) -> None:
    manager = made(AddressMemory())
    draw = random.Random(0)
    with Recorder(manager) as recorder:
        blocks = []
        for step in range(20):
            manager.mark("step", step)
            manager.reserve_hint(draw.randrange(1 << 22))
            for _ in range(100):
                if blocks and draw.random() < 0.5:
                    blocks.pop(draw.randrange(len(blocks))).free()
                size, alignment = draw.randrange(1 << 22), 1 << draw.randrange(12)
                stream = draw.choice((None, 1, 2))
                blocks.append(manager.alloc(size, alignment=alignment, stream=stream))
    trace = recorder.trace
    for block in blocks:
        block.free()
    there = manager.stats()
    run = traces.replay(trace, made)
    assert run.peak_live_bytes == there.peak_live_bytes
    assert run.peak_used_bytes == there.peak_used_bytes
    assert run.peak_reserved_bytes == there.peak_reserved_bytes
    assert (run.allocs, run.device_allocs) == (there.allocs, there.device_allocs)


def test_the_recorder_adds_few_calls() -> None:
    """Calls of Python functions for an alloc and a free, with and without a recorder."""
    manager = CachingManager()

    def calls() -> int:
        count = 0

        def profile(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        manager.alloc(5000).free()
        sys.setprofile(profile)
        try:
            manager.alloc(5000).free()
        finally:
            sys.setprofile(None)
        return count

    off = calls()
    stop = manager.on_event(lambda event: None)
    empty = calls()
    stop()
    with Recorder(manager):
        on = calls()
    # Each of the two events has its observer; an allocation looks up its tag and its stream.
    assert on - empty <= 2
    assert calls() == off
