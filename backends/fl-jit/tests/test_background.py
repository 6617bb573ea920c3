"""Plans are made while the program goes on; when one takes over is counted, not timed."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_jit.planning.plan_cache import WARMUP_RUNS
from fl_jit.planning.plan_future import JitWarning

N = 10_000


@pytest.fixture
def jit():
    """A backend whose plans wait until ``backend.go`` is set."""
    backend = JitBackend()
    backend.plans.background, backend.plans.compile_after = True, 2
    backend.go = threading.Event()
    made = backend.plans._make

    def patiently(*arguments):
        assert backend.go.wait(60)
        return made(*arguments)

    backend.plans._make = patiently
    with ft.use(backend):
        yield backend
    backend.go.set()
    backend.plans.wait()


def step(k=1.0):
    x = ft.full(N, k)
    return ft.exp(x * 0.5) + x


def wanted(k=1.0):
    return pytest.approx(np.exp(k * 0.5) + k, rel=1e-5)


def test_steps_go_on_while_a_plan_is_made(jit):
    for k in range(1 + WARMUP_RUNS):
        assert step(float(k))[7].item() == wanted(float(k))
    assert jit.plans.entries() == []
    jit.go.set()
    assert step(5.0)[7].item() == wanted(5.0)
    assert len(jit.plans.entries()) == 1


@pytest.mark.defect("item 5")
def test_a_plan_whose_making_would_end_its_thread_is_not_waited_for(alarm, jit):
    def ending(*arguments):
        raise SystemExit

    jit.plans._make = ending
    for k in range(1 + WARMUP_RUNS):
        assert step(float(k))[7].item() == wanted(float(k))
    with pytest.warns(JitWarning, match="its plan could not be made"):
        assert step(5.0)[7].item() == wanted(5.0)


def test_when_a_plan_takes_over_depends_on_no_clock(jit):
    ran = []

    class Listening(type(jit.eager)):
        CONTRACT = (1, 1)

        def exp(self, x):
            ran.append("exp")
            return super().exp(x)

    jit.go.set()
    jit.plans.eager = Listening()
    for k in range(1 + WARMUP_RUNS + 3):
        step(float(k))[7].item()
        for making in jit.plans._all():
            making.wait()
    assert len(ran) == 1 + WARMUP_RUNS


def test_operations_that_recur_with_other_shapes_are_planned_at_their_second_run(jit):
    """Batches of changing length: a run of a shape that comes again is worth its plan at once."""
    jit.go.set()
    jit.policy.patience = 0  # small work is deferred, too
    shapes = range(N, N + 24)

    def epoch():
        planned = 0
        for n in shapes:
            x = ft.full(n, 2.0)
            before = len(jit.plans.entries())
            assert (ft.exp(x * 0.5) + x)[7].item() == wanted(2.0)
            planned += len(jit.plans.entries()) > before
        return planned

    assert epoch() == 0
    assert epoch() >= 20


def test_who_waits_for_plans_has_them_used_at_once(jit):
    for k in range(2):
        step(float(k))[7].item()
    jit.go.set()
    jit.plans.wait()
    assert step(5.0)[7].item() == wanted(5.0)
    assert jit.plans._all()[0].grace == 0


def test_a_plan_that_is_being_made_keeps_no_data_alive(jit):
    with fl_memory.use(type(fl_memory.get("caching"))()) as manager:
        x = ft.full(N, 1.0)
        x.tolist()
        for _ in range(2):
            y = x + 1.0
            y.tolist()
        del x, y
        gc.collect()
        assert manager.stats().live_bytes == 0


def test_a_failure_is_reported_once_and_costs_nothing_but_time(jit):
    def broken(*arguments):
        assert jit.go.wait(60)
        raise ZeroDivisionError("a pass is broken")

    jit.plans._make = broken
    for _ in range(1 + WARMUP_RUNS):
        assert step()[7].item() == wanted()
    jit.go.set()
    jit.plans.wait()
    with pytest.warns(JitWarning, match=r"runs one by one .* ZeroDivisionError: a pass is broken"):
        assert step(2.0)[7].item() == wanted(2.0)
    assert step(3.0)[7].item() == wanted(3.0)


def test_a_failure_in_the_foreground_is_no_different(jit):
    jit.plans.background = False
    jit.plans._make = lambda *arguments: 1 / 0
    step()[7].item()
    with pytest.warns(JitWarning, match="ZeroDivisionError"):
        assert step(2.0)[7].item() == wanted(2.0)


def test_other_strides_of_the_same_computation_are_no_new_beginning(jit):
    jit.plans.background = False
    jit.go.set()
    x = np.ones((100, 200), np.float32)
    for operand in (x, x, np.asfortranarray(x)):
        ft.eval(ft.exp(ft.from_dlpack(operand)) + 1.0)
    assert len(jit.plans.entries()) == 2


def test_a_heavy_computation_is_planned_when_it_is_first_seen(jit):
    jit.go.set()
    x = ft.full((1 << 10, 1 << 10), 0.5)
    y = x
    for _ in range(2):  # 2^30 products each
        y = y @ x
    ft.eval(y)
    assert len(jit.plans.entries()) == 1
    assert y[0, 0].item() == pytest.approx(0.5**3 * 2**20)


def run(script):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


PROGRAM = """
    import os
    import fl_tensor as ft

    ft.use("jit")

    def step(k, width):
        x = ft.full((100, width), k)
        return ft.softmax(ft.gelu(x * 0.5) + ft.tanh(x), -1)

    for width in range(100, 130):  # many plans on their way
        for k in range(2):
            ft.eval(step(float(k), width))
"""


def test_a_program_may_end_while_plans_are_made():
    run(PROGRAM)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="processes fork on POSIX")
def test_a_process_may_fork_while_plans_are_made():
    script = """
    child = os.fork()
    for k in range(20):
        for width in range(100, 130):
            assert abs(step(float(k), width)[3, 4].item() - 1 / width) < 1e-6
    ft.current_backend().plans.wait()
    assert abs(step(1.0, 129)[3, 4].item() - 1 / 129) < 1e-6
    if child:
        assert os.waitpid(child, 0)[1] == 0
        print("both ended")
    """
    assert (
        run(
            "import warnings; warnings.simplefilter('ignore')\n"
            + textwrap.dedent(PROGRAM)
            + textwrap.dedent(script)
        )
        == "both ended\n"
    )
