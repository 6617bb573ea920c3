"""Deferred calls keep the cause of their recording, interpreted or in a plan."""

from __future__ import annotations

import pytest

import fl_jit
import fl_memory as mem
import fl_tensor as ft
from fl_jit import JitBackend
from fl_memory.causes import CURRENT
from fl_memory.managers.caching import CachingManager


@pytest.fixture(params=[1, 1000], ids=["plan", "interpreted"])
def backend(request):
    made = JitBackend()
    made.plans.background, made.plans.compile_after = False, request.param
    if request.param > 1:
        made.plans.policy.patience = 1 << 30
    with ft.use(made), mem.use(CachingManager(small_bytes=0)):
        yield made


SHAPE = (128, 128)


def compute(x, first="first", second="second"):
    with mem.cause(module=first):
        y = x @ x
    with mem.cause(module=second):
        return ft.sum(ft.exp(y - ft.max(y, axis=1, keepdims=True)), axis=1)


def named(seen):
    return {usage.key for usage in seen.allocated("module", "operation")}


def test_requests_have_the_cause_of_the_recording(backend):
    x = ft.ones(SHAPE)
    ft.eval(x)
    with mem.observe() as seen, mem.cause(phase="forward", step=2):
        result = compute(x)
        with mem.cause(operation="read", module="elsewhere", phase="update"):
            ft.eval(result)
            assert CURRENT.get() == mem.Cause("read", "elsewhere", "update", 2)
    allocs = [event for event in seen.events if event.kind == "alloc"]
    assert ("first", "matmul") in named(seen)
    assert ("second", "sum") in named(seen)
    assert all(event.cause.operation for event in allocs)
    assert {event.cause[1:] for event in allocs} == {
        ("first", "forward", 2), ("second", "forward", 2),
    }  # fmt: skip


def test_a_plan_is_shared_by_calls_of_different_causes(backend):
    x = ft.ones(SHAPE)
    ft.eval(x)
    with fl_jit.profile() as report:
        ft.eval(compute(x))
        for module in "one", "two":
            with mem.observe() as seen:
                ft.eval(compute(x, module, module))
            assert {name for name, _ in named(seen)} == {module}
    assert len(report.plans) == (backend.plans.compile_after == 1)


def test_calls_that_were_recorded_before_have_an_operation(backend):
    x = ft.ones(SHAPE)
    ft.eval(x)
    y = x @ x
    with mem.observe() as seen:
        ft.eval(y)
    assert named(seen) == {("", "matmul")}


def test_nothing_is_noted_without_an_observer(backend):
    x = ft.ones(SHAPE)
    with mem.cause(module="first"):
        y = x @ x
    assert backend._pending.calls and not backend._pending.causes
    ft.eval(y)


def test_values_in_another_layout_belong_to_the_call_that_needs_them(backend):
    x, kernel = ft.ones((4, 16, 32, 32)), ft.ones((32, 16, 3, 3))
    ft.eval(x, kernel)

    def network(x):
        with mem.cause(module="conv"):
            y = ft.conv(x, kernel, padding=1)
        with mem.cause(module="pool"):
            return ft.max_pool(ft.relu(y), 2)

    ft.eval(network(x))
    with mem.observe() as seen:
        ft.eval(network(x))
    found = {usage.key[0]: usage.nbytes for usage in seen.allocated("module")}
    assert set(found) <= {"conv", "pool"} and found["pool"] >= 4 * 32 * 16 * 16 * 4
