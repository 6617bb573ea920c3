"""Generated matrix products: any sizes, strides, batches and dtypes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from bias_and_activation import followed
from gemm_cases import ORDERS, TOLERANCE, check, lay, matrix, run

import fl_tensor as ft
from fl_jit.kernels import Matmul, Reorder, any_layout, row_major
from fl_tensor.dtypes import bfloat16, dtype, float32, float64

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
def test_every_order_of_every_operand(library, orders, kind):
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        for accumulate in (False, True):
            shapes = (m, k), (k, n), (m, n)
            x, y, out = (matrix(rng, s, o, kind) for s, o in zip(shapes, orders, strict=True))
            whole = out
            while whole.base is not None:
                whole = whole.base
            holes = np.isnan(whole).sum()
            check(library, x, y, out, accumulate)
            assert np.isnan(whole).sum() == holes, "nothing but the result was written"


@pytest.mark.parametrize("n", range(1, 140, 7))
@pytest.mark.parametrize("m", [1, 2, 6, 7, 13, 15])
def test_edges(library, m, n):
    rng = np.random.default_rng(m * n)
    check(library, *(matrix(rng, s, "rows") for s in ((m, 17), (17, n), (m, n))))
    check(library, *(matrix(rng, s, "rows", "float64") for s in ((m, 17), (17, n), (m, n))))


def test_batches_broadcast(library):
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
        check(library, x, y, np.full((*batch, 20, 40), np.nan, np.float32))
        turned = y.swapaxes(-1, -2).copy().swapaxes(-1, -2)
        check(library, x, turned, np.ones((*batch, 20, 40), np.float32), accumulate=True)


def test_heads_of_attention_lie_where_they_are(library):
    rng = np.random.default_rng(2)
    qkv = rng.standard_normal((2, 10, 3, 4, 8), dtype=np.float32)  # batch, place, which, head
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = np.zeros((2, 4, 10, 10), np.float32)
    check(library, q, k.swapaxes(2, 3), scores)
    check(library, scores, v, np.zeros((2, 10, 4, 8), np.float32).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)], ids=str)
def test_empty_sides(library, shape):
    m, k, n = shape
    out = np.ones((m, n), np.float32)
    check(library, np.ones((m, k), np.float32), np.ones((k, n), np.float32), out)
    check(library, np.ones((m, k), np.float32), np.ones((k, n), np.float32), out, accumulate=True)


def test_rows_backwards_and_repeated(library):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((50, 50), dtype=np.float32) for _ in range(2))
    out = np.zeros((50, 50), np.float32)
    check(library, x[::-1], y[:, ::-1], out)
    check(library, x[:, ::-1], y[::-1], out[::-1])
    check(library, np.broadcast_to(x[:1], (50, 50)), np.broadcast_to(y[:, :1], (50, 50)), out)


def test_bfloat16(library):
    rng = np.random.default_rng(4)

    def half(values):  # bits of bfloat16, truncated
        return (values.view(np.uint32) >> 16).astype(np.uint16)

    def wide(bits):
        return (bits.astype(np.uint32) << 16).view(np.float32)

    x, y = (half(rng.standard_normal((70, 70), dtype=np.float32)) for _ in range(2))
    out = np.zeros((70, 70), np.uint16)
    descriptor = Matmul(*(row_major(bfloat16, (70, 70)) for _ in range(3)))
    run(library, descriptor, x, y, out)
    expected = wide(x).astype(float) @ wide(y)
    np.testing.assert_allclose(wide(out), expected, rtol=2**-8, atol=1e-5)
    accumulators = np.zeros((70, 70), np.float32)
    run(library, descriptor._replace(out=lay(accumulators)), x, y, accumulators)
    np.testing.assert_allclose(accumulators, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(900, 70), (3, 50, 130), (1, 1), (64, 64), (0, 4)], ids=str)
def test_a_factor_packed_beforehand(library, shape):
    rng = np.random.default_rng(5)
    *batch, k, n = shape
    x = rng.standard_normal((*batch, 40, k), dtype=np.float32)
    y = rng.standard_normal(shape, dtype=np.float32)
    out = np.full((*batch, 40, n), np.nan, np.float32)
    descriptor = Matmul(lay(x), any_layout(float32, shape), lay(out))
    kernel = library.find(descriptor)
    packed = np.full(kernel.operands[1].nbytes // 4, np.nan, np.float32)
    run(library, Reorder(lay(y), kernel.operands[1]), y, packed)
    assert not np.isnan(packed).any(), "what pads is zero"
    run(library, descriptor._replace(y=kernel.operands[1]), x, packed, out)
    np.testing.assert_allclose(out, x.astype(float) @ y, rtol=1e-5, atol=1e-4)
    back = np.full_like(y.swapaxes(-1, -2).copy(), np.nan).swapaxes(-1, -2)
    run(library, Reorder(kernel.operands[1], lay(back)), packed, back)
    np.testing.assert_array_equal(back, y)


def test_a_factor_is_packed_in_one_way_whatever_it_is_multiplied_with(library):
    shape, layouts = (300, 70), []
    for rows in (1, 5, 100, 1000):
        x, out = row_major(float32, (rows, 300)), row_major(float32, (rows, 70))
        chose = library.find(Matmul(x, any_layout(float32, shape), out)).operands[1]
        assert library.prepacked_layout(Matmul(x, row_major(float32, shape), out)) == chose
        layouts.append(chose)
    assert layouts == layouts[:1] * 4


def test_a_reason_that_all_tiles_share_is_said_once(library):
    shapes = ((4, 5), (5, 7), (4, 7))
    descriptor = Matmul(*(row_major(dtype("int32"), shape) for shape in shapes))
    assert library.why_not(descriptor) == "a product of int32 and int32 as int32"


def test_shapes_that_do_not_fit_are_refused(library):
    def descriptor(x, y, out):
        return Matmul(*(row_major(float32, shape) for shape in (x, y, out)))

    for shapes in (
        ((4, 5), (6, 7), (4, 7)),
        ((4, 5), (5, 7), (3, 7)),
        ((4, 5), (5, 7), (4, 8)),
        ((2, 4, 5), (3, 5, 7), (3, 4, 7)),
        ((4, 5), (5, 7), (1, 4, 7)),
    ):
        assert library.find(descriptor(*shapes)) is None
        assert library.why_not(descriptor(*shapes))


def test_bias_and_activation(library):
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
        descriptor = followed(Matmul(lay(x), lay(y), lay(out)), lay(bias), activation)
        run(library, descriptor, x, y, bias, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-4)
    turned = np.zeros((90, 70), np.float32).T
    descriptor = followed(Matmul(lay(x), lay(y), lay(turned)), lay(bias), "relu")
    run(library, descriptor, x, y, bias, turned)
    np.testing.assert_allclose(turned, expected["relu"], rtol=1e-5, atol=1e-4)


def test_a_micro_kernel_of_a_user_computes_products(library):
    made = []

    def factory(kernel, machine):
        made.append(kernel)
        return ft.jit.built_in_micro_kernel(kernel, machine)

    rng = np.random.default_rng(9)
    x, y, out = (rng.standard_normal((40, 40), dtype=np.float32) for _ in range(3))
    check(library, x, y, out)
    expected = out.copy()
    with ft.jit.register_micro_kernel(factory):
        check(library, x, y, out)
    np.testing.assert_array_equal(out, expected)
    assert made, "prepared anew, with the factory"
    before = len(made)
    check(library, x, y, out)
    assert len(made) == before, "and without it once it is gone"


@pytest.mark.parametrize("kind", [float32, float64], ids=str)
def test_other_dtypes_are_refused(library, kind):
    descriptor = Matmul(
        *(row_major(kind, (4, 4)) for _ in range(2)), row_major(dtype("int32"), (4, 4))
    )
    assert library.find(descriptor) is None
    assert "int32" in library.why_not(descriptor)
