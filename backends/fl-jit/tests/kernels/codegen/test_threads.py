"""Kernels on several threads: the same bits whatever their number, and calls at the same time."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from kernel_programs import computed, empty, run
from test_rows import cross_entropy, layer_norm_gradient, softmax

import fl_tensor as ft
from fl_jit.kernels.codegen import compile, kernel, target, threads, workspace
from fl_jit.kernels.codegen.grid import CHUNK
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.codegen.thread_pools import HEADER, Gomp, OwnThreads
from fl_tensor.dtypes import float32, int64
from fl_tensor.threads import pools


@pytest.fixture
def every_thread(monkeypatch):
    """Work is shared out however little it is; the number of threads is put back."""
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 0.001)
    before = ft.get_num_threads()
    yield
    ft.set_num_threads(before)


@pytest.fixture(params=[Gomp, OwnThreads])
def pool(request, monkeypatch, every_thread):
    try:
        found = request.param()
    except (OSError, AttributeError) as error:
        pytest.skip(f"{request.param.name}: {error}")
    monkeypatch.setattr(threads, "pool", lambda: found)
    return found


def total_and_words():
    b = Builder(1)
    x = b.input(float32, "c")
    b.output(b.reduce("sum", x, "all"), ".")
    b.output(b("random_bits", b.scalar(int64), b.scalar(int64), parameter=(1, 0)), "c")
    return b.program()


def embedding_gradient():
    b = Builder(2)
    index, g = b.input(int64, "s."), b.input(float32, "sc")
    b.output(g, ".c", at=index)
    return b.program()


def draw(*shapes):
    rng = np.random.default_rng(2)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


CASES = {
    "softmax": (softmax, draw((300, 70)), (300, 70), ()),
    "layer_norm_gradient": (
        layer_norm_gradient,
        draw((600, 100), (600, 100), (1, 100)),
        (600, 100),
        (100,),
    ),
    "cross_entropy": (
        cross_entropy,
        [*draw((500, 90)), np.arange(500)[:, None] % 90],
        (500, 90),
        (0.002,),
    ),
    "total": (total_and_words, draw((200_001,)), (200_001,), (5, 6)),
    "wide_columns": (
        layer_norm_gradient,
        draw((40, 5000), (40, 5000), (1, 5000)),
        (40, 5000),
        (5000,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_threads_changes_no_bit(name, pool):
    make, inputs, sizes, scalars = CASES[name]
    program = make()
    found = []
    for count in (1, 2, 3, 7):
        ft.set_num_threads(count)
        found.append([x.tobytes() for x in run(program, inputs, sizes, scalars)])
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("name", CASES)
def test_the_order_of_chunks_changes_no_bit(name, pool, monkeypatch):
    make, inputs, sizes, scalars = CASES[name]
    program, found = make(), []
    for count in (1, 3):
        ft.set_num_threads(count)
        for turned in (0, 1):
            monkeypatch.setattr(kernel, "_directions", itertools.repeat(turned))
            found.append([x.tobytes() for x in run(program, inputs, sizes, scalars)])
    assert found[1:] == found[:1] * 3


def test_every_second_launch_goes_from_the_last_chunk_to_the_first(monkeypatch):
    """All rows are written to one place: who comes last is seen there."""
    b = Builder(2)
    b.output(b("negative", b.input(float32, "sc")), "sc")
    rows = 4 * CHUNK // 64
    x = np.repeat(np.arange(rows, dtype=np.float32)[:, None], 64, 1)
    y = np.zeros(64, np.float32)
    launch = Kernel.of(b.program()).bind((rows, 64), [(64, 1), (0, 1)])
    monkeypatch.setattr(threads, "limit", lambda: 1)
    found = []
    for _ in range(4):
        launch([x.ctypes.data, y.ctypes.data])
        found.append(-y[0])
    assert sorted(found[:2]) == [rows // 4 - 1, rows - 1]
    assert found[2:] == found[:2]


def test_rows_that_are_added_to_by_several_threads(pool):
    index, g = np.arange(900)[:, None] ** 2 % 17, draw((900, 333))[0]
    want = np.zeros((17, 333), np.float32)
    np.add.at(want, index[:, 0], g)
    for count in (1, 2, 5):
        ft.set_num_threads(count)
        table = np.zeros((17, 333), np.float32)
        run(embedding_gradient(), [index, g], (900, 333), (), [table.T[None]])
        np.testing.assert_array_equal(table, want)


def test_calls_from_several_threads_at_once(pool):
    ft.set_num_threads(2)
    program = softmax()
    inputs = draw(*[(200, 50 + 16 * i) for i in range(4)])
    want = [run(program, [x], x.shape)[0] for x in inputs]
    wrong = []

    def work(x, expected):
        kernel = Kernel.of(program)
        for _ in range(100):
            outputs = empty(program, x.shape)
            run(program, [x], x.shape, (), outputs, kernel)
            if not np.array_equal(outputs[0], expected):
                wrong.append(x.shape)

    workers = [threading.Thread(target=work, args=pair) for pair in zip(inputs * 2, want * 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_memory_to_work_in_is_had_by_one_call_at_a_time():
    first, second = workspace.take(5000), workspace.take(5000)
    assert first.address != second.address and first.address % 64 == second.address % 64 == 0
    first.give_back()
    assert workspace.take(8192) is first and workspace.take(100) is not first
    first.give_back()
    second.give_back()


def test_without_any_pool(monkeypatch, every_thread):
    monkeypatch.setattr(threads, "pool", lambda: None)
    ft.set_num_threads(4)
    make, inputs, sizes, scalars = CASES["softmax"]
    np.testing.assert_allclose(
        run(make(), inputs, sizes, scalars)[0], computed(make(), inputs, sizes)[0], rtol=1e-5
    )


def test_a_missing_libgomp_is_no_error(monkeypatch):
    def missing():
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(threads, "Gomp", missing)
    threads.pool.cache_clear()
    try:
        found = threads.pool()
        assert found is None or found.name == "own threads"
    finally:
        threads.pool.cache_clear()


def test_the_pool_says_what_it_is():
    if threads.pool() is None:
        pytest.skip("no threads here")
    states = {pool.name: pool.state() for pool in pools()}
    assert threads.pool().name in states["kernels"] and "20 us" in states["kernels"]


def test_little_work_is_done_by_the_caller():
    assert threads.workers(work=1000.0, items=64, most=8) == 1
    assert threads.workers(work=1e9, items=64, most=8) == 8
    assert threads.workers(work=1e9, items=3, most=8) == 3
    assert threads.workers(work=1e9, items=64, most=1) == 1


FORK = """
import os, sys
sys.path.insert(0, {folder!r})
import numpy as np
import fl_tensor as ft
from kernel_programs import run
from test_rows import softmax
ft.set_num_threads(2)
x = np.ones((500, 500), np.float32)
want = run(softmax(), [x], x.shape)[0]
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(run(softmax(), [x], x.shape)[0], want) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_computes_alone():
    script = FORK.format(folder=os.path.dirname(__file__))
    assert subprocess.run([sys.executable, "-c", script], timeout=120).returncode == 0


def test_machine_code_is_made_once_however_many_threads_ask():
    made, ready = [], threading.Barrier(8)

    @compile.once
    def code(name: str) -> object:
        made.append(name)
        time.sleep(0.01)
        return object()

    def ask(_: int) -> object:
        ready.wait()
        return code("kernel")

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(ask, range(8)))
    assert made == ["kernel"] and len(found) == 1
    assert code("another") not in found


#: A function that adds the number of its items to its first word.
COUNT = f"""
target triple = "{target.triple()}"
define void @count(ptr %words, i64 %begin, i64 %end, i64 %number) {{
  %items = sub i64 %end, %begin
  %old = atomicrmw add ptr %words, i64 %items seq_cst
  ret void
}}
"""


def test_threads_outlive_whoever_made_them():
    code = compile.load(COUNT, lambda: COUNT, target.host())
    job = (ctypes.c_int64 * (HEADER + 1))(code.address("count"), 12, 0, 0)
    pool = OwnThreads()
    pool.run(ctypes.addressof(job), 3)
    assert job[HEADER] == 12
    kept = weakref.ref(pool)
    del pool
    gc.collect()
    assert kept() is not None  # they sleep in its code, on its semaphores


INTERRUPTED = """
import ctypes, signal, sys, threading, time
from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.thread_pools import HEADER, OwnThreads

COUNT = '''{count}'''
code = compile.load(COUNT, lambda: COUNT, target.host())
job = (ctypes.c_int64 * (HEADER + 1))(code.address("count"), 12, 0, 0)
pool = OwnThreads()
pool.run(ctypes.addressof(job), 3)
signal.signal(signal.SIGUSR1, lambda *_: None)
for _ in range(5):
    for thread in threading.enumerate():
        if thread.name == "fl kernel":
            signal.pthread_kill(thread.ident, signal.SIGUSR1)
    time.sleep(0.02)
print(job[HEADER])
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system has no such signals")
def test_a_signal_wakes_no_thread_for_a_job_that_is_done():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(count=COUNT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
