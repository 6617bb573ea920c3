"""The cause of a request, and who pays for it."""

from __future__ import annotations

import contextvars
import gc
import threading

import pytest

import fl_memory as mem
from fl_memory.causes import observed
from fl_memory.managers.system import SystemManager


def test_no_cause_is_current_at_first() -> None:
    assert contextvars.Context().run(mem.current_cause) is None


def test_fields_that_are_not_given_stay() -> None:
    with mem.cause(module="encoder", phase="forward") as outer:
        with mem.cause(operation="matmul", module="encoder.0") as inner:
            assert mem.current_cause() is inner
            assert inner == mem.Cause("matmul", "encoder.0", "forward", None)
        assert mem.current_cause() is outer
    assert mem.current_cause() != outer


def test_a_field_can_be_emptied() -> None:
    with mem.cause(module="encoder"), mem.cause(module="") as inner:
        assert inner == mem.Cause()


def test_other_threads_have_other_causes() -> None:
    seen: list[mem.Cause | None] = []

    def look() -> None:
        seen.append(mem.current_cause())

    with mem.cause(phase="backward") as ours:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        copied = contextvars.copy_context()
    copied.run(look)
    assert ours not in seen[:1] and seen[1] == ours


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="layer"):
        mem.cause(layer="encoder")  # type: ignore[call-arg]


def test_the_mark_of_a_step_sets_the_step_of_the_causes() -> None:
    def program() -> None:
        with mem.use(SystemManager()):
            mem.mark("step", 4)
            with mem.cause(operation="add") as asked:
                assert asked.step == 4
            mem.mark("epoch", 2)
            mem.mark("step", 0)
        found = mem.current_cause()
        assert found is not None and found.step == 0

    contextvars.copy_context().run(program)


def test_marks_reach_the_current_manager() -> None:
    seen: list[mem.Event] = []
    with mem.use(SystemManager()) as manager:
        manager.on_event(seen.append)
        mem.mark("epoch", 3)
    mem.mark("epoch", 4)
    assert [(event.kind, event.tag, event.number) for event in seen] == [("mark", "epoch", 3)]
    assert seen[0].device == "" and seen[0].nbytes == 0


def test_observed_is_empty_without_observers() -> None:
    gc.collect()
    before = len(observed)
    manager = SystemManager()
    stop, _ = manager.on_event(print), manager.on_event(print)
    assert len(observed) == before + 2
    stop()
    assert len(observed) == before + 1
    del manager, stop, _
    assert len(observed) == before, "an observer outlives its manager"
