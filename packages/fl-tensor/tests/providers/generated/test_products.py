"""Generated matrix products: any sizes, strides, batches and dtypes, on any number of threads."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import fl_tensor as ft
from fl_tensor.backends.providers import Layout, Matmul, Reorder, chosen, row_major
from fl_tensor.backends.providers.generated import caches, tile
from fl_tensor.backends.providers.generated.products import blocks
from fl_tensor.backends.providers.generated.provider import Generated
from fl_tensor.codegen import target
from fl_tensor.dtypes import bfloat16, dtype, float32, float64

#: Relative to the largest element, for sums of a few hundred products.
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3}


@pytest.fixture(scope="module")
def provider():
    return Generated()


@pytest.fixture(autouse=True)
def threads():
    before = ft.get_num_threads()
    yield ft.set_num_threads
    ft.set_num_threads(before)


def lay(array):
    strides = tuple(step // array.itemsize for step in array.strides)
    return Layout(dtype(array.dtype.name), array.shape, strides)


def run(provider, problem, *arrays):
    kernel = provider.find(problem)
    assert kernel is not None, provider.why_not(problem)
    kernel(*(array.ctypes.data for array in arrays))
    return kernel


def check(provider, x, y, out, accumulate=False, tolerance=None):
    expected = x.astype(float) @ y.astype(float) + (out.astype(float) if accumulate else 0)
    run(provider, Matmul(lay(x), lay(y), lay(out), accumulate=accumulate), x, y, out)
    error = np.abs(out - expected).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30)
    assert error <= (tolerance or TOLERANCE[out.dtype.name])


def matrix(rng, shape, order, kind="float32"):
    """Rows or columns side by side, or neither; part of a larger array, whose rest is NaN."""
    *batch, m, n = shape
    if order == "columns":
        return matrix(rng, (*batch, n, m), "rows", kind).swapaxes(-1, -2)
    step = 2 if order == "steps" else 1
    whole = np.full((*batch, step * m + 1, step * n + 3), np.nan, kind)
    part = whole[..., : step * m : step, : step * n : step]
    part[...] = rng.standard_normal(shape)
    return part


ORDERS = ("rows", "columns", "steps")
SIZES = [
    (1, 1, 1),
    (5, 7, 9),
    (33, 70, 65),
    (130, 300, 170),
    (3, 900, 40),
    (40, 3, 600),
    (11, 29, 530),
    (300, 9, 2),
]


@pytest.mark.parametrize("kind", TOLERANCE)
@pytest.mark.parametrize("orders", [*itertools.product(ORDERS, repeat=3)], ids=" ".join)
def test_every_order_of_every_operand(provider, orders, kind):
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        for accumulate in (False, True):
            shapes = (m, k), (k, n), (m, n)
            x, y, out = (matrix(rng, s, o, kind) for s, o in zip(shapes, orders, strict=True))
            whole = out
            while whole.base is not None:
                whole = whole.base
            holes = np.isnan(whole).sum()
            check(provider, x, y, out, accumulate)
            assert np.isnan(whole).sum() == holes, "nothing but the result was written"


@pytest.mark.parametrize("n", range(1, 140, 7))
@pytest.mark.parametrize("m", [1, 2, 6, 7, 13, 15])
def test_edges(provider, m, n):
    rng = np.random.default_rng(m * n)
    check(provider, *(matrix(rng, s, "rows") for s in ((m, 17), (17, n), (m, n))))
    check(provider, *(matrix(rng, s, "rows", "float64") for s in ((m, 17), (17, n), (m, n))))


def test_batches_broadcast(provider):
    rng = np.random.default_rng(1)
    for x_batch, y_batch, batch in (
        ((6,), (6,), (6,)),
        ((2, 1), (1, 3), (2, 3)),
        ((1,), (9,), (9,)),
        ((9,), (1,), (9,)),
        ((2, 1, 4), (1, 3, 4), (2, 3, 4)),
    ):
        x = rng.standard_normal((*x_batch, 20, 30), dtype=np.float32)
        y = rng.standard_normal((*y_batch, 30, 40), dtype=np.float32)
        check(provider, x, y, np.full((*batch, 20, 40), np.nan, np.float32))
        turned = y.swapaxes(-1, -2).copy().swapaxes(-1, -2)
        check(provider, x, turned, np.ones((*batch, 20, 40), np.float32), accumulate=True)


def test_heads_of_attention_lie_where_they_are(provider):
    rng = np.random.default_rng(2)
    qkv = rng.standard_normal((2, 10, 3, 4, 8), dtype=np.float32)  # batch, place, which, head
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = np.zeros((2, 4, 10, 10), np.float32)
    check(provider, q, k.swapaxes(2, 3), scores)
    check(provider, scores, v, np.zeros((2, 10, 4, 8), np.float32).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)], ids=str)
def test_empty_sides(provider, shape):
    m, k, n = shape
    out = np.ones((m, n), np.float32)
    check(provider, np.ones((m, k), np.float32), np.ones((k, n), np.float32), out)
    check(provider, np.ones((m, k), np.float32), np.ones((k, n), np.float32), out, accumulate=True)


def test_rows_backwards_and_repeated(provider):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((50, 50), dtype=np.float32) for _ in range(2))
    out = np.zeros((50, 50), np.float32)
    check(provider, x[::-1], y[:, ::-1], out)
    check(provider, x[:, ::-1], y[::-1], out[::-1])
    check(provider, np.broadcast_to(x[:1], (50, 50)), np.broadcast_to(y[:, :1], (50, 50)), out)


def test_bfloat16(provider):
    rng = np.random.default_rng(4)

    def half(values):  # bits of bfloat16, truncated
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    def wide(bits):
        return (bits.astype(np.uint32) << 16).view(np.float32)

    x, y = (half(rng.standard_normal((70, 70), dtype=np.float32)) for _ in range(2))
    out = np.zeros((70, 70), np.uint16)
    problem = Matmul(*(row_major(bfloat16, (70, 70)) for _ in range(3)))
    run(provider, problem, x, y, out)
    expected = wide(x).astype(float) @ wide(y)
    np.testing.assert_allclose(wide(out), expected, rtol=2**-8, atol=1e-5)
    sums = np.zeros((70, 70), np.float32)
    run(provider, problem._replace(out=lay(sums)), x, y, sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(900, 70), (3, 50, 130), (1, 1), (64, 64), (0, 4)], ids=str)
def test_a_factor_packed_beforehand(provider, shape):
    rng = np.random.default_rng(5)
    *batch, k, n = shape
    x = rng.standard_normal((*batch, 40, k), dtype=np.float32)
    y = rng.standard_normal(shape, dtype=np.float32)
    out = np.full((*batch, 40, n), np.nan, np.float32)
    problem = Matmul(lay(x), chosen(float32, shape), lay(out))
    kernel = provider.find(problem)
    packed = np.full(kernel.operands[1].nbytes // 4, np.nan, np.float32)
    run(provider, Reorder(lay(y), kernel.operands[1]), y, packed)
    assert not np.isnan(packed).any(), "what pads is zero"
    run(provider, problem._replace(y=kernel.operands[1]), x, packed, out)
    np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-5, atol=1e-4)
    back = np.full_like(y.swapaxes(-1, -2).copy(), np.nan).swapaxes(-1, -2)
    run(provider, Reorder(kernel.operands[1], lay(back)), packed, back)
    np.testing.assert_array_equal(back, y)


def test_a_factor_is_packed_in_one_way_whatever_it_is_multiplied_with(provider):
    shape, layouts = (300, 70), []
    for rows in (1, 5, 100, 1000):
        x, out = row_major(float32, (rows, 300)), row_major(float32, (rows, 70))
        chose = provider.find(Matmul(x, chosen(float32, shape), out)).operands[1]
        assert provider.kept(Matmul(x, row_major(float32, shape), out)) == chose
        layouts.append(chose)
    assert layouts == layouts[:1] * 4


def test_a_reason_that_all_tiles_share_is_said_once(provider):
    shapes = ((4, 5), (5, 7), (4, 7))
    problem = Matmul(*(row_major(dtype("int32"), shape) for shape in shapes))
    assert provider.why_not(problem) == "a product of int32 and int32 as int32"


def test_shapes_that_do_not_fit_are_refused(provider):
    def problem(x, y, out):
        return Matmul(*(row_major(float32, shape) for shape in (x, y, out)))

    for shapes in (
        ((4, 5), (6, 7), (4, 7)),
        ((4, 5), (5, 7), (3, 7)),
        ((4, 5), (5, 7), (4, 8)),
        ((2, 4, 5), (3, 5, 7), (3, 4, 7)),
        ((4, 5), (5, 7), (1, 4, 7)),
    ):
        assert provider.find(problem(*shapes)) is None
        assert provider.why_not(problem(*shapes))


def test_bias_and_activation(provider):
    rng = np.random.default_rng(6)
    x, y, bias = (rng.standard_normal(s, dtype=np.float32) for s in ((70, 500), (500, 90), (1, 90)))
    product = x.astype(float) @ y + bias
    erf = np.vectorize(math.erf)
    expected = {
        "": product,
        "relu": np.maximum(product, 0),
        "gelu": product * 0.5 * (1 + erf(product * math.sqrt(0.5))),
    }
    for activation, wanted in expected.items():
        out = np.full((70, 90), np.nan, np.float32)
        run(provider, Matmul(lay(x), lay(y), lay(out), lay(bias), activation), x, y, bias, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-4)
    turned = np.zeros((90, 70), np.float32).T
    run(provider, Matmul(lay(x), lay(y), lay(turned), lay(bias), "relu"), x, y, bias, turned)
    np.testing.assert_allclose(turned, expected["relu"], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "shape",
    [(1, 300, 250, 300), (5, 90, 60, 70), (1, 20, 400, 2000), (1, 12, 300, 1500)],
    ids=str,
)
def test_threads_change_nothing(provider, threads, shape):
    """Not a bit, whether there are too many of them, or more than items."""
    batch, m, k, n = shape
    rng = np.random.default_rng(7)
    x = rng.standard_normal((batch, m, k), dtype=np.float32)
    y = rng.standard_normal((batch, k, n), dtype=np.float32)
    results = []
    for count in (1, 2, 3, 7, 64):
        threads(count)
        out = np.full((batch, m, n), np.nan, np.float32)
        run(provider, Matmul(lay(x), lay(y), lay(out)), x, y, out)
        results.append(out)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    np.testing.assert_allclose(results[0], x.astype(float) @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(700, 900, 130), (3, 400, 300, 40)], ids=str)
def test_threads_pack_together(provider, threads, shape, order):
    """More threads than there are columns for: a factor that several need is packed once."""
    *batch, m, k, n = shape
    rng = np.random.default_rng(10)
    x, y = rng.standard_normal((*batch, m, k), dtype=np.float32), matrix(rng, (k, n), order)
    out = np.full((*batch, m, n), np.nan, np.float32)
    y = y if not batch else np.broadcast_to(y, (1, k, n))
    threads(1)
    check(provider, x, y, out)
    alone = out.copy()
    for count in (2, 16, 64):
        threads(count)
        check(provider, x, y, out)
        np.testing.assert_array_equal(out, alone)


@pytest.mark.parametrize("order", ORDERS)
def test_factors_of_a_batch_are_packed_each(provider, threads, order):
    """There are more threads than matrices, so that several have to do with one."""
    rng = np.random.default_rng(11)
    threads(16)
    x, y = rng.standard_normal((2, 300, 200), dtype=np.float32), matrix(rng, (2, 200, 40), order)
    check(provider, x, y, np.full((2, 300, 40), np.nan, np.float32))


def test_a_kernel_may_be_called_with_fewer_threads_than_it_was_made_for(provider, threads):
    rng = np.random.default_rng(12)
    x, y = (rng.standard_normal((400, 400), dtype=np.float32) for _ in range(2))
    threads(8)
    kernel = provider.find(Matmul(lay(x), lay(y), lay(x)))
    for count in (8, 3, 1):
        threads(count)
        out = np.full((400, 400), np.nan, np.float32)
        kernel(*(array.ctypes.data for array in (x, y, out)))
        np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-4, atol=1e-4)


FORKED = """
import os, sys
import numpy as np
import fl_tensor as ft
from fl_tensor.backends.providers import ConvolutionWeights, Matmul, channels_last, row_major
from fl_tensor.backends.providers.generated.provider import Generated

ft.set_num_threads(2)
matrix, image = row_major(ft.float32, (256, 256)), channels_last(ft.float32, (1, 256, 16, 16))
rest = row_major(ft.float32, (256, 256, 1, 1)), (1, 1), ((0, 0), (0, 0)), (1, 1)
problems = Matmul(matrix, matrix, matrix), ConvolutionWeights(image, image, *rest)
kernels = [Generated().find(problem) for problem in problems]
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


def test_calls_may_overlap_in_time(provider, threads):
    threads(2)
    rng = np.random.default_rng(8)
    x, y = (rng.standard_normal((200, 200), dtype=np.float32) for _ in range(2))
    problem = Matmul(lay(x), lay(y), lay(x))
    kernel = provider.find(problem)
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


def test_blocks_follow_the_machine():
    """Shallow for few products, never deeper than the caches are for."""
    assert blocks.k_block(10, 6, 4) == 10
    assert blocks.k_block(0, 6, 4) == 2
    assert all(blocks.k_block(k, 6, 4) % 2 == 0 for k in range(1, 3000, 37))
    assert blocks.k_block(10_000, 6, 8) <= blocks.k_block(10_000, 6, 4) < 2000


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0, (2 << 20) // 3),  # none
        (16 << 20, 4 << 20),  # a quarter of what a processor has
        (128 << 20, (2 << 20) // 3),  # all of a host: not this system's alone, and far away
    ],
)
def test_a_block_of_columns_fits_a_cache_of_our_own(share, expected, monkeypatch):
    sizes = {1: 48 << 10, 2: 2 << 20, 3: share}
    monkeypatch.setattr(caches, "level", sizes.__getitem__)
    assert blocks.column_block(512, 4) == expected // (512 * 4)
    assert blocks.column_block(1 << 30, 8) == 1


def test_threads_get_equal_parts():
    # 6 panels, the last one of a third: columns cannot be cut equally in two, rows can.
    assert blocks.parts(128, 6, 1 / 3, 100, 1, 2) == (2, 1)
    # Equal either way: columns, as each thread packs its own.
    assert blocks.parts(128, 6, 1.0, 100, 1, 2) == (1, 2)
    # One row of tiles: columns. A batch that all threads are busy with: neither.
    assert blocks.parts(1, 6, 1 / 3, 100, 1, 2) == (1, 2)
    assert blocks.parts(22, 2, 1.0, 20, 96, 2) == (1, 1)
    # No more columns than fit the cache, whatever the threads.
    assert blocks.parts(683, 64, 1.0, 21, 1, 1) == (1, 4)
    for tiles, panels, threads in itertools.product((0, 1, 7, 200), (1, 5, 64), (1, 3, 64)):
        rows, columns = blocks.parts(tiles, panels, 0.5, 100, 1, threads)
        assert 1 <= rows <= max(tiles, 1) and 1 <= columns <= panels


@pytest.mark.skipif(tile.registers(target.host()) < 32, reason="one tile for all")
def test_panels_are_equal_where_rows_lie_apart():
    machine = target.host()
    assert [tile.of_product(machine, 100, n, by_columns=True).vectors for n in (48, 32, 16, 8)] == [
        *(3, 4, 4, 4)
    ]
    assert tile.of_product(machine, 100, 48).vectors == 4


def test_a_micro_kernel_of_a_user_computes_products(provider):
    made = []

    def maker(kernel, machine):
        made.append(kernel)
        return ft.jit.built_in_micro_kernel(kernel, machine)

    rng = np.random.default_rng(9)
    x, y, out = (rng.standard_normal((40, 40), dtype=np.float32) for _ in range(3))
    check(provider, x, y, out)
    expected = out.copy()
    with ft.jit.register_micro_kernel(maker):
        check(provider, x, y, out)
    np.testing.assert_array_equal(out, expected)
    assert made, "prepared anew, with the maker"
    before = len(made)
    check(provider, x, y, out)
    assert len(made) == before, "and without it once it is gone"


@pytest.mark.parametrize("kind", [float32, float64], ids=str)
def test_other_dtypes_are_refused(provider, kind):
    problem = Matmul(
        *(row_major(kind, (4, 4)) for _ in range(2)), row_major(dtype("int32"), (4, 4))
    )
    assert provider.find(problem) is None
    assert "int32" in provider.why_not(problem)


@pytest.mark.parametrize(
    ("m", "k", "n", "copied"),
    [
        *[(768, 300, 130, True), (1024, 300, 130, True), (200, 300, 130, False)],
        *[(600, 400, 600, True), (600, 400, 500, False), (500, 400, 600, False)],
        *[(600, 50, 600, False), (1001, 400, 513, True)],
    ],
)
def test_steps_of_k_that_do_not_stay_in_the_first_cache_are_copied_where_the_third_is_far(
    monkeypatch, m, k, n, copied
):
    rng = np.random.default_rng(m)
    x = rng.standard_normal((k, m), dtype=np.float32).T
    y = rng.standard_normal((k, n), dtype=np.float32)
    out = np.empty((m, n), np.float32)
    monkeypatch.setattr(caches, "near_third", lambda: 0)
    monkeypatch.setattr(caches, "level", {1: 48 << 10, 2: 2 << 20, 3: 0}.__getitem__)
    kernel = run(Generated(), Matmul(lay(x), lay(y), lay(out)), x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-4, atol=1e-4)
    assert ("copy" in kernel.about) is copied
    monkeypatch.setattr(caches, "near_third", lambda: 16 << 20)
    near = Generated().find(Matmul(lay(x), lay(y), lay(out)))
    assert "copy" not in near.about, "where a third level is near, they are read as they lie"


@pytest.mark.parametrize("offset", [0, 1, 8], ids="{} elements off".format)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_results_too_large_for_caches_are_written_past_them(monkeypatch, threads, batch, offset):
    monkeypatch.setattr(target, "STREAMED", 1)
    provider, rng = Generated(), np.random.default_rng(offset)
    for count, (m, k, n) in itertools.product((1, 2), ((40, 32, 200), (7, 3, 130), (3, 0, 128))):
        threads(count)
        x = rng.standard_normal((*batch, m, k), dtype=np.float32)
        y = rng.standard_normal((*batch, k, n), dtype=np.float32)
        whole = np.full(16 + (*batch, 1)[0] * (m + 1) * 256 + offset, np.nan, np.float32)
        begin = -(whole.ctypes.data // 4) % 16 + offset  # of a line of 64 bytes, or not
        whole = whole[begin:][: (*batch, 1)[0] * (m + 1) * 256]
        out = whole.reshape(*batch, m + 1, 256)[..., :m, :n]
        kernel = run(provider, Matmul(lay(x), lay(y), lay(out)), x, y, out)
        assert "past caches" in kernel.about
        np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)
        assert np.isnan(whole).sum() == whole.size - out.size, "nothing beside it is written"
        again = provider.find(Matmul(lay(x), lay(y), lay(out), accumulate=True))
        assert "past caches" not in again.about, "what is there has to be read"


def test_results_of_rows_that_begin_anywhere_are_not(monkeypatch):
    monkeypatch.setattr(target, "STREAMED", 1)
    x, y = (row_major(float32, s) for s in ((40, 32), (32, 200)))
    for out in (row_major(float32, (40, 201)), row_major(float32, (40, 200))):
        out = Layout(float32, (40, 200), out.strides)
        assert "past caches" not in Generated().find(Matmul(x, y, out)).about
    monkeypatch.undo()
    large = [row_major(float32, s) for s in ((4096, 32), (32, 4096), (4096, 4096))]
    assert "past caches" in Generated().find(Matmul(*large)).about


TOGETHER = """
import threading
import numpy as np
from fl_tensor.backends.providers import Matmul, row_major
from fl_tensor.backends.providers.generated.provider import Generated
from fl_tensor.dtypes import float32

provider, ready, wrong = Generated(), threading.Barrier(4), []
rng = np.random.default_rng(0)
x, y = (rng.standard_normal(s, dtype=np.float32) for s in ((45, 300), (300, 90)))

def compute():
    problem = Matmul(*(row_major(float32, s) for s in ((45, 300), (300, 90), (45, 90))))
    ready.wait()
    for _ in range(200):
        out = np.empty((45, 90), np.float32)
        provider.find(problem)(*(a.ctypes.data for a in (x, y, out)))
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
