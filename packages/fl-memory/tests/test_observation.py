"""``observe``, ``memory_snapshot`` and ``on_usage``."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager

import pytest

import fl_memory as mem
from fl_memory import instrumentation
from fl_memory.causes import observed
from fl_memory.managers.caching import CachingManager
from fl_memory.managers.system import SystemManager
from fl_memory.traces import Recorder


@pytest.fixture
def manager():
    with mem.use(CachingManager()) as made:
        yield made


def test_allocated_sums_blocks_by_cause_the_largest_first(manager):
    with mem.observe() as seen:
        with mem.cause(operation="matmul", module="encoder.0", phase="forward"):
            manager.alloc(100).free()
            manager.alloc(300).free()
        with mem.cause(operation="add", module="encoder.0", phase="backward"):
            manager.alloc(5000, tag="gradient").free()
        manager.alloc(7).free()
    assert seen.allocated("operation") == [
        (("add",), 1, 5000),
        (("matmul",), 2, 400),
        (("",), 1, 7),
    ]
    assert seen.allocated("module", "tag") == [
        (("encoder.0", "gradient"), 1, 5000),
        (("encoder.0", ""), 2, 400),
        (("", ""), 1, 7),
    ]
    assert seen.allocated() == [((), 4, 5407)]
    assert [event.kind for event in seen.events if event.kind in ("alloc", "free")] == (
        ["alloc", "free"] * 4
    )


def test_live_has_the_blocks_that_were_not_freed(manager):
    older = manager.alloc(64)
    with mem.observe() as seen:
        with mem.cause(operation="exp"):
            kept = manager.alloc(128)
        manager.alloc(256).free()
        older.free()
        assert seen.live("operation") == [(("exp",), 1, 128)]
        kept.free()
        assert seen.live() == []


def test_sites_are_lines_of_the_program(manager):
    with mem.observe(sites=True) as seen:
        kept = manager.alloc(128)
        line = test_sites_are_lines_of_the_program.__code__.co_firstlineno + 2
    (usage,) = seen.live("site")
    assert usage.key == (f"{__file__}:{line}",)
    del kept


def test_figures_count_events_that_are_not_kept(manager):
    with mem.observe(max_events=3) as seen:
        for _ in range(10):
            manager.alloc(8).free()
    assert len(seen.events) == 3
    assert seen.allocated() == [((), 10, 80)]


def test_a_manager_that_is_chosen_later_is_observed_but_not_another_than_the_given_one(manager):
    with mem.observe() as every, mem.observe(manager) as one:
        with mem.use(SystemManager()) as other:
            other.alloc(1000).free()
        manager.alloc(10).free()
    assert every.allocated() == [((), 2, 1010)]
    assert one.allocated() == [((), 1, 10)]


def test_nothing_is_observed_after_the_block(manager):
    before = len(observed)
    with mem.observe() as seen:
        assert len(observed) == before + 1
    manager.alloc(10).free()
    assert len(observed) == before
    assert not seen.events


@pytest.mark.parametrize("wrong", [-1, 1.5, "2"])
def test_a_wrong_number_of_events_is_refused(wrong):
    with pytest.raises(mem.AllocationError, match="max_events"):
        mem.observe(max_events=wrong)


def test_unknown_fields_and_entering_twice_are_refused(manager):
    with mem.observe() as seen:
        with pytest.raises(mem.AllocationError, match="'layer' is no field; known: operation"):
            seen.allocated("layer")
        with pytest.raises(mem.AllocationError, match="is active"):
            seen.__enter__()


@pytest.fixture
def layer(monkeypatch):
    """A registered instrumentation that logs when it is entered and left."""
    log = []

    @contextmanager
    def logged():
        log.append("on")
        try:
            yield
        finally:
            log.append("off")

    monkeypatch.setattr(instrumentation, "_factories", [])
    mem.register_instrumentation(logged)
    return log


def test_instrumentation_is_on_while_the_outermost_observer_is_there(manager, layer):
    with mem.observe(), mem.observe():
        assert layer == ["on"]
        with Recorder():
            assert layer == ["on"]
    assert layer == ["on", "off"]
    with Recorder():
        assert layer == ["on", "off", "on"]
    assert layer == ["on", "off", "on", "off"]


def test_an_instrumentation_that_fails_leaves_the_others(manager, layer):
    @contextmanager
    def broken():
        raise OSError("no")
        yield

    mem.register_instrumentation(broken)
    with pytest.raises(OSError, match="no"):
        mem.observe().__enter__()
    assert layer == ["on", "off"]


def test_a_snapshot_has_every_live_block_and_its_cause(manager):
    older = manager.alloc(50, tag="parameter")
    gone = manager.alloc(60)
    gone.free()
    with mem.observe(sites=True):
        with mem.cause(operation="exp", module="head", phase="forward", step=3):
            block = manager.alloc(70)
        found = mem.memory_snapshot(manager)
    assert [entry["nbytes"] for entry in found] == [70, 50]
    new, old = json.loads(json.dumps(found))
    assert new["address"] == block.address and new["capacity"] == block.capacity
    assert new["number"] == block.number and new["manager"] == "caching"
    assert (new["operation"], new["module"], new["phase"], new["step"]) == (
        "exp", "head", "forward", 3,
    )  # fmt: skip
    assert new["site"].startswith(__file__)
    assert (old["tag"], old["operation"], old["step"]) == ("parameter", "", None)
    assert old["address"] == older.address
    everywhere = {entry["address"] for entry in mem.memory_snapshot()}
    assert {block.address, older.address} <= everywhere


def test_a_snapshot_takes_any_tag_and_stream(manager):
    block = manager.alloc(16, tag=("a", 1), stream=7)
    (entry,) = mem.memory_snapshot(manager)
    assert (entry["tag"], entry["stream"]) == ("('a', 1)", "7")
    del block


def test_a_crossed_share_is_told_once_and_again_after_live_bytes_fell(manager):
    told = []
    kept = manager.alloc(500)
    stop = mem.on_usage(1000, lambda share, live: told.append((share, live)))
    more = manager.alloc(299)
    assert told == []
    edge = manager.alloc(1)
    assert told == [(0.8, 800)]
    manager.alloc(10).free()
    assert told == [(0.8, 800)]
    large = manager.alloc(400)
    assert told == [(0.8, 800), (0.95, 1200)]
    large.free()
    more.free()
    more = manager.alloc(299)
    assert told == [(0.8, 800), (0.95, 1200), (0.8, 800)]
    stop()
    last = manager.alloc(5000)
    assert len(told) == 3
    del kept, edge, last


def test_usage_of_other_devices_and_managers_does_not_count(manager):
    told = []
    stop = mem.on_usage(100, lambda *call: told.append(call), manager=SystemManager())
    manager.alloc(1000).free()
    stop()
    assert told == []


@pytest.mark.parametrize("wrong", [0, -5, 1.5, "8"])
def test_wrong_budgets_are_refused(manager, wrong):
    with pytest.raises(mem.AllocationError):
        mem.on_usage(wrong, print)


def test_what_cannot_be_called_is_refused_at_once(manager):
    for register in (
        lambda: mem.on_usage(100, "print"),
        lambda: mem.register_instrumentation(None),
        lambda: manager.on_event([]),
    ):
        with pytest.raises(mem.AllocationError, match="expected a function"):
            register()
    with mem.observe():
        manager.alloc(10).free()


@pytest.mark.parametrize("wrong", [(), (0.0,), (-1.0,), (float("nan"),)])
def test_wrong_fractions_are_refused(manager, wrong):
    with pytest.raises(mem.AllocationError, match="fractions"):
        mem.on_usage(100, print, fractions=wrong)


def test_threads_allocate_while_they_are_observed(manager):
    def work():
        for _ in range(200):
            manager.alloc(64).free()

    with mem.observe(sites=True) as seen:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen.allocated() == [((), 800, 51200)]
    assert seen.live() == []
