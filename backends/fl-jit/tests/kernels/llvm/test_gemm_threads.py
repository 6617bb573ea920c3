"""Products on any number of threads, in forks, and called by several threads at once."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from gemm_cases import ORDERS, check, lay, matrix, run

from fl_jit.kernels import Matmul
from fl_jit.kernels.llvm.gemm import blocking


@pytest.mark.parametrize(
    "shape",
    [(1, 300, 250, 300), (5, 90, 60, 70), (1, 20, 400, 2000), (1, 12, 300, 1500)],
    ids=str,
)
def test_threads_change_nothing(library, threads, shape):
    """Not a bit, whether there are too many of them, or more than items."""
    batch, m, k, n = shape
    rng = np.random.default_rng(7)
    x = rng.standard_normal((batch, m, k), dtype=np.float32)
    y = rng.standard_normal((batch, k, n), dtype=np.float32)
    results = []
    for count in (1, 2, 3, 7, 64):
        threads(count)
        out = np.full((batch, m, n), np.nan, np.float32)
        run(library, Matmul(lay(x), lay(y), lay(out)), x, y, out)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    np.testing.assert_allclose(results[0], x.astype(float) @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(700, 900, 130), (3, 400, 300, 40)], ids=str)
def test_threads_pack_together(library, threads, shape, order):
    """More threads than there are columns for: a factor that several need is packed once."""
    *batch, m, k, n = shape
    rng = np.random.default_rng(10)
    x, y = rng.standard_normal((*batch, m, k), dtype=np.float32), matrix(rng, (k, n), order)
    out = np.full((*batch, m, n), np.nan, np.float32)
    y = y if not batch else np.broadcast_to(y, (1, k, n))
    threads(1)
    check(library, x, y, out)
    alone = out.copy()
    for count in (2, 16, 64):
        threads(count)
        check(library, x, y, out)
        np.testing.assert_array_equal(out, alone)


@pytest.mark.parametrize("order", ORDERS)
def test_factors_of_a_batch_are_packed_each(library, threads, order):
    """There are more threads than matrices, so that several have to do with one."""
    rng = np.random.default_rng(11)
    threads(16)
    x, y = rng.standard_normal((2, 300, 200), dtype=np.float32), matrix(rng, (2, 200, 40), order)
    check(library, x, y, np.full((2, 300, 40), np.nan, np.float32))


def test_a_kernel_may_be_called_with_fewer_threads_than_it_was_made_for(library, threads):
    rng = np.random.default_rng(12)
    x, y = (rng.standard_normal((400, 400), dtype=np.float32) for _ in range(2))
    threads(8)
    kernel = library.find(Matmul(lay(x), lay(y), lay(x)))
    for count in (8, 3, 1):
        threads(count)
        out = np.full((400, 400), np.nan, np.float32)
        kernel(*(array.ctypes.data for array in (x, y, out)))
        np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-4, atol=1e-4)


def test_threads_get_equal_parts():
    # 6 panels, the last one of a third: columns cannot be cut equally in two, rows can.
    assert blocking.parts(128, 6, 1 / 3, 100, 1, 2) == (2, 1)
    # Equal either way: columns, as each thread packs its own.
    assert blocking.parts(128, 6, 1.0, 100, 1, 2) == (1, 2)
    # One row of tiles: columns. A batch that all threads are busy with: neither.
    assert blocking.parts(1, 6, 1 / 3, 100, 1, 2) == (1, 2)
    assert blocking.parts(22, 2, 1.0, 20, 96, 2) == (1, 1)
    # No more columns than fit the cache, whatever the threads.
    assert blocking.parts(683, 64, 1.0, 21, 1, 1) == (1, 4)
    assert blocking.parts(132, 36, 1.0, 4, 1, 2) == (1, 12), "of nine blocks one would do five"
    # Many rows: rows, as each thread then reads its own, if there is one block of columns.
    assert blocking.parts(1536, 64, 1.0, 100, 1, 2, tall=True) == (2, 1)
    assert blocking.parts(1536, 64, 1.0, 32, 1, 4, tall=True) == (1, 4)
    for tiles, panels, threads in itertools.product((0, 1, 7, 200), (1, 5, 64), (1, 3, 64)):
        rows, columns = blocking.parts(tiles, panels, 0.5, 100, 1, threads)
        assert 1 <= rows <= max(tiles, 1) and 1 <= columns <= panels


FORKED = """
import os, sys
import numpy as np
import fl_tensor as ft
from fl_jit.kernels import ConvWeightGrad, Matmul, channels_last, row_major
from fl_jit.kernels.llvm.library import GeneratedKernels

ft.set_num_threads(2)
matrix, image = row_major(ft.float32, (256, 256)), channels_last(ft.float32, (1, 256, 16, 16))
rest = row_major(ft.float32, (256, 256, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1)
problems = Matmul(matrix, matrix, matrix), ConvWeightGrad(image, image, *rest)
kernels = [GeneratedKernels().find(problem) for problem in problems]
x, out = np.ones(1 << 16, np.float32), np.zeros((2, 1 << 16), np.float32)

def compute():
    out[...] = 0
    for kernel, result in zip(kernels, out):
        kernel(x.ctypes.data, x.ctypes.data, result.ctypes.data)

compute()  # threads have begun
child = os.fork()
compute()
right = bool((out == 256).all())
if not child:
    os._exit(not right)
print(right, os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_computes_alone():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_calls_may_overlap_in_time(library, threads):
    threads(2)
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((200, 200), dtype=np.float32) for _ in range(2))
    descriptor = Matmul(lay(x), lay(y), lay(x))
    kernel = library.find(descriptor)
    outs = [np.zeros((200, 200), np.float32) for _ in range(4)]

    def work(out):
        for _ in range(20):
            kernel(x.ctypes.data, y.ctypes.data, out.ctypes.data)

    workers = [threading.Thread(target=work, args=(out,)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for out in outs:
        np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-4, atol=1e-4)


TOGETHER = """
import threading
import numpy as np
from fl_jit.kernels import Matmul, row_major
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_tensor.dtypes import float32

library, ready, wrong = GeneratedKernels(), threading.Barrier(4), []
rng = np.random.default_rng(0)
x, y = (rng.standard_normal(s, dtype=np.float32) for s in ((45, 300), (300, 90)))

def compute():
    problem = Matmul(*(row_major(float32, s) for s in ((45, 300), (300, 90), (45, 90))))
    ready.wait()
    for _ in range(200):
        out = np.empty((45, 90), np.float32)
        library.find(problem)(*(a.ctypes.data for a in (x, y, out)))
        wrong.append(not np.allclose(out, x @ y, atol=1e-4))

threads = [threading.Thread(target=compute) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(wrong), any(wrong))
"""


def test_the_first_calls_of_all_may_come_at_once(tmp_path):
    env = {**os.environ, "FL_CACHE_DIR": str(tmp_path)}
    for _ in range(2):  # compiled, then loaded from files
        command = [sys.executable, "-c", TOGETHER]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.stdout.split() == ["800", "False"], (done.returncode, done.stderr)
