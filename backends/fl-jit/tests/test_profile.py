"""``ft.jit.profile``: what ran, how long, and drawings of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.kernels import registry
from fl_jit.planning.plan_cache import PlanCache
from fl_jit.reports import observers
from fl_tensor.backends.numpy import NumpyBackend


@pytest.fixture
def backend():
    made = JitBackend()
    made.plans = PlanCache(NumpyBackend(), fusible=lambda node: False)
    return made


LEFT, RIGHT = np.ones((64, 256), np.float32), np.ones((256, 128), np.float32)


def step(backend):
    with ft.use(backend):
        ft.eval(ft.tanh(ft.asarray(LEFT) @ ft.asarray(RIGHT)) * 2.0)


def works(report):
    return {row.work: row for row in report.rows}


def test_calls_without_a_plan_are_timed(backend):
    with ft.jit.profile() as report:
        step(backend)
    rows = works(report)
    assert rows["matmul"].kind.startswith("call")
    assert rows["matmul"].shape == "64x256 256x128"
    assert rows["tanh"].calls == 1 and rows["tanh"].ms > 0
    assert report.plans == []


def test_steps_of_plans_are_timed(backend):
    step(backend)
    with ft.jit.profile() as report:
        for _ in range(3):
            step(backend)
    (plan,) = report.plans
    rows = works(report)
    assert rows["matmul"].calls == rows["tanh"].calls == 3
    assert rows["matmul"].kind in ("numpy", "generated")
    assert rows["matmul"].gflop_per_s == pytest.approx(
        3 * 2 * 64 * 256 * 128 / rows["matmul"].ms / 1e6
    )
    assert sum(row.ms for row in report.rows) <= report.wall_ms
    assert sum(row.share for row in report.rows) <= 100
    assert [n.op for s in plan.steps for n in s.nodes] == ["matmul", "tanh", "multiply"]


def test_operations_that_share_a_kernel_are_one_row(monkeypatch):
    monkeypatch.setattr(
        registry, "active_library", lambda: None
    )  # who would take them with the product
    backend = JitBackend()
    step(backend)
    with ft.jit.profile() as report:
        step(backend)
    rows = works(report)
    assert rows["tanh multiply"].kind == "kernel"
    assert rows["tanh multiply"].shape == "64x128"


def test_a_report_prints_where_time_went(backend):
    step(backend)
    with ft.jit.profile() as report:
        step(backend)
    page = str(report)
    assert page.startswith(f"{report.wall_ms:.1f} ms: ")
    assert "steps of 1 plans run 1 times" in page
    assert "GFLOP/s" in page and "64x256 256x128" in page


def test_all_threads_are_watched(backend):
    with ft.jit.profile() as report:
        thread = threading.Thread(target=step, args=(backend,))
        thread.start()
        thread.join()
    assert "tanh" in works(report)


def test_blocks_nest_and_nothing_is_watched_after_them(backend):
    with ft.jit.profile() as outer:
        step(backend)
        with ft.jit.profile() as inner:
            step(backend)
    step(backend)
    assert works(outer)["tanh"].calls + (outer.plans != []) == 2
    assert len(inner.plans) == 1
    assert observers.watchers == () and registry.watchers == []


def test_a_block_that_raises_is_left_in_order(backend):
    with pytest.raises(ZeroDivisionError), ft.jit.profile():
        step(backend)
        1 / 0  # noqa: B018
    assert observers.watchers == ()


@pytest.mark.parametrize("operations", [False, True])
def test_a_drawing_has_the_steps_and_their_times(backend, operations):
    step(backend)
    with ft.jit.profile() as report:
        step(backend)
    text = report.to_dot(operations)
    assert text.startswith("digraph {") and text.count("{") == text.count("}")
    assert text.count(" us") == 3
    assert ("subgraph cluster_" in text) == operations
    for op in ("matmul", "tanh", "multiply"):
        assert op in text


def test_the_plans_of_a_backend(backend):
    for _ in range(2):
        step(backend)
    (plan,) = ft.jit.plans(backend)
    lines = str(plan).splitlines()
    assert [line.split()[-1] for line in lines[2:5]] == ["matmul", "tanh", "multiply"]
    assert "matmul" in plan.to_dot()


def test_who_computes_a_contraction_is_known_when_it_ran(backend, monkeypatch):
    step(backend)
    with ft.jit.profile() as report:
        step(backend)
    (plan,) = report.plans
    assert str(plan).splitlines()[2].split()[1] == "contraction"
    assert "contraction" in plan.to_dot()
    assert "contraction" not in {row.kind for row in report.rows}
    monkeypatch.setattr(registry, "active_library", lambda: None)
    with ft.jit.profile() as report:
        step(backend)
    assert works(report)["matmul"].kind == "numpy"


def test_a_backend_without_plans():
    with pytest.raises(ft.ArgumentError, match="'numpy' makes no plans"):
        ft.jit.plans("numpy")
