"""``jit`` among threads and processes: several that record and run at once, values that change
hands, memory managers that change, forks, and failures on the way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft
from fl_jit import JitBackend
from fl_tensor.backends.numpy import NumpyBackend

N = 10_000


@pytest.fixture
def jit():
    backend = JitBackend()
    backend.plans.policy.patience = 0
    with ft.use(backend):
        yield backend


def together(works):
    """Run functions in threads that start at once; raises what one of them raises."""
    start, errors = threading.Barrier(len(works)), []

    def body(work):
        try:
            start.wait(30)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(w,), daemon=True) for w in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(t.is_alive() for t in threads), "threads wait for one another"
    if errors:
        raise errors[0]


def computation(x, k):
    y = ft.softmax(ft.reshape(x * float(k) + 1.0, (100, 100)), -1)
    return ft.sum(y * y, 0) + ft.max(y, 0)


def test_threads_record_and_run_the_same_computation(jit):
    x = ft.Generator(1).normal(N)
    ft.eval(x)
    with ft.use("numpy"):
        y = ft.asarray(np.asarray(x))
        wanted = [np.asarray(computation(y, k)) for k in range(6)]
    found = {}

    def work(thread):
        with ft.use(jit):
            found[thread] = [np.asarray(computation(x, k)) for k in range(6)]

    together([lambda t=t: work(t) for t in range(4)])
    for results in found.values():
        for a, b in zip(results, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_threads_finish_one_anothers_values(jit):
    """Each adds the other's unfinished value to its own, at the same time."""
    for _ in range(20):
        values, ready = {}, threading.Barrier(2)

        def work(me, values=values, ready=ready):
            with ft.use(jit):
                values[me] = ft.full(N, float(me + 1)) * 2.0
                ready.wait(30)
                other = values[1 - me]
                values["sum", me] = (values[me] + other)[0].item()

        together([lambda: work(0), lambda: work(1)])
        assert values["sum", 0] == values["sum", 1] == 6.0


def test_a_value_is_looked_at_by_many_threads_at_once(jit):
    for _ in range(10):
        y = ft.exp(ft.full(N, 1.0)) * 2.0
        found = []
        together([lambda y=y, found=found: found.append(y[5].item()) for _ in range(6)])
        assert len(set(found)) == 1 and found[0] == pytest.approx(2 * np.e)


def test_a_value_that_another_thread_has_just_computed_is_waited_for(jit):
    """It has its array, and its thread has not come to say so yet."""
    computed, go_on = threading.Event(), threading.Event()
    found = []

    def execute(trace, seen):
        jit._execute(trace, seen)
        computed.set()
        go_on.wait(30)

    def work():
        with ft.use(jit):
            jit._pending.execute = execute
            found.append(ft.full(N, 3.0) * 2.0)
            ft.eval(found[0])

    def look():
        computed.wait(30)
        threading.Timer(0.2, go_on.set).start()
        with ft.use(jit):
            assert (found[0] + 1.0)[7].item() == 7.0

    together([work, look])


def test_a_value_outlives_the_thread_that_began_it(jit):
    found = []

    def work():
        with ft.use(jit):
            found.append(ft.full(N, 3.0) * 2.0)

    together([work])
    assert (found[0] + 1.0)[7].item() == 7.0


def test_memory_managers_change_while_operations_are_deferred(jit):
    managers = [type(fl_memory.get("system"))(small_bytes=0) for _ in range(2)]
    for _ in range(3):  # call by call, and by plans
        x = ft.full(N, 1.0)
        with fl_memory.use(managers[0]):
            y = x + 1.0
            with fl_memory.use(managers[1]):
                z = y * 2.0
            w = z + y
        assert w[0].item() == 6.0
        assert managers[0].stats().live_bytes // 100 == (y.nbytes + w.nbytes) // 100
        assert managers[1].stats().live_bytes // 100 == z.nbytes // 100
        del y, z, w
        assert max(m.stats().live_bytes for m in managers) < 100  # a number that a plan keeps


def test_a_managers_bytes_are_those_of_what_was_called_under_it_in_any_thread(jit):
    manager = type(fl_memory.get("system"))(small_bytes=0)
    with fl_memory.use(manager):
        y = ft.full(N, 1.0) + 1.0
    together([lambda: y.tolist()])
    assert manager.stats().live_bytes // 100 == y.nbytes // 100


class Failing(NumpyBackend):
    """Whose ``exp`` fails so often."""

    CONTRACT = (1, 1)
    failures = 0

    def exp(self, x):
        if self.failures:
            self.failures -= 1
            raise MemoryError("no room")
        return super().exp(x)


@pytest.mark.parametrize("planned", [False, True])
def test_what_failed_in_the_middle_is_tried_again(planned):
    jit = JitBackend()
    jit.plans.policy.patience = 0
    jit.eager = jit.plans.eager = Failing()
    jit.plans.fusible = lambda node: False
    jit.plans.compile_after = 2 if planned else 1 << 30
    with ft.use(jit):
        for failures in (0, 0, 2, 0):
            x = ft.full(N, 1.0) * 2.0
            y = ft.exp(x)
            z = y + x
            jit.eager.failures = failures
            for _ in range(failures):
                with pytest.raises(MemoryError, match="no room"):
                    z.tolist()
            assert (x[0].item(), z.shape) == (2.0, (N,))
            assert z[1].item() == pytest.approx(np.exp(2.0) + 2.0)
            assert y[1].item() == pytest.approx(np.exp(2.0))


def test_more_is_deferred_after_a_failure():
    jit = JitBackend()
    jit.eager = jit.plans.eager = Failing()
    jit.plans.compile_after = 1 << 30
    with ft.use(jit):
        y = ft.exp(ft.full(N, 0.0))
        jit.eager.failures = 1
        with pytest.raises(MemoryError):
            y.tolist()
        z = y + 1.0
        assert z[0].item() == 2.0


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX")


def in_child(work):
    """What ``work()`` returns in a forked process, as bytes; fails if that takes a minute."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of pytest may run here
        try:
            os.write(send, repr(work()).encode())
        finally:
            os._exit(0)
    os.close(send)
    done = threading.Timer(60, os.kill, (child, 9))
    done.start()
    with os.fdopen(receive) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    done.cancel()
    return text


@forks
def test_a_forked_process_goes_on(jit):
    x = ft.Generator(1).normal(N)
    wanted = [np.asarray(computation(x, 2)).sum() for _ in range(3)][-1]
    jit.plans.wait()
    pending = x * 2.0  # deferred before, finished on both sides

    def work():
        found = [float(np.asarray(computation(x, 2)).sum()) for _ in range(3)]  # planned here, too
        new = [float(np.asarray(ft.exp(x * 0.0) + ft.tanh(x) * 0.0).sum()) for _ in range(3)]
        return found[-1], new[-1], float(np.asarray(pending)[3])

    text = in_child(work)
    found = eval(text, {"nan": np.nan})
    assert found == (pytest.approx(wanted, rel=1e-6), N, np.asarray(pending)[3])


@forks
def test_a_fork_while_another_thread_computes(jit):
    stop, warm = threading.Event(), threading.Event()

    def busy():
        with ft.use(jit):
            for k in range(1 << 30):
                ft.eval(computation(ft.full(N, 1.0), 1))
                if k == 5:
                    warm.set()  # for forks during the first steps see fl-nn's test_forks.py
                if stop.is_set():
                    return

    thread = threading.Thread(target=busy, daemon=True)
    thread.start()
    assert warm.wait(60)
    try:
        for _ in range(5):
            text = in_child(lambda: (ft.full(N, 2.0) * 3.0 + 1.0)[0].item())
            assert text == "7.0"
    finally:
        stop.set()
        thread.join(30)


SPAWNING = """
import multiprocessing

import fl_tensor as ft


def spawned(queue):
    with ft.use("jit"):
        queue.put([(ft.full(65536, float(k)) * 2.0)[0].item() for k in range(3)])


if __name__ == "__main__":
    with ft.use("jit"):
        (ft.full(65536, 1.0) * 2.0)[0].item()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=spawned, args=(queue,))
    process.start()
    print(queue.get(timeout=120))
    process.join(30)
    assert process.exitcode == 0
"""


def test_a_spawned_process(tmp_path):
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (run.stdout, run.returncode) == ("[0.0, 2.0, 4.0]\n", 0), run.stderr
