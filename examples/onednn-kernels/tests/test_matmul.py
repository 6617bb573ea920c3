"""Matrix products by oneDNN: any strides, batches, accumulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fl_jit.kernels import Epilogue, Matmul, UnsupportedError, any_layout, row_major
from fl_jit.kernels.codegen import Builder
from fl_tensor.dtypes import float32
from onednn_kernels import matmul

KINDS = ("matmul", "sgemm", "packed")


def close(found, expected, depth):
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * math.sqrt(depth) + 1e-6)


ORDERS = ("CCC", "FCC", "CFC", "FFC")
COLUMNS = ("CCF", "FFF")  # the BLAS call alone writes columns


@pytest.mark.parametrize(
    "kind,orders",
    [(kind, orders) for kind in KINDS for orders in ORDERS]
    + [("sgemm", orders) for orders in COLUMNS],
)
@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (3, 5, 7), (1, 33, 17), (65, 1, 19), (70, 129, 31)])
def test_rows_and_columns(library, only, layout, normal, unset, kind, m, k, n, orders):
    if kind == "packed":  # which is for many rows alone
        m += 64
    library.forget()
    only(kind)
    x_order, y_order, out_order = ("C" if order == "C" else (1, 0) for order in orders)
    x, y, out = (
        normal(m, k, order=x_order),
        normal(k, n, order=y_order),
        unset(m, n, order=out_order),
    )
    descriptor = Matmul(layout(x), layout(y), layout(out))
    kernel = library.find(descriptor)
    assert kernel is not None, library.why_not(descriptor)
    assert ("sgemm" in kernel.about) == (kind == "sgemm")
    kernel(x.ctypes.data, y.ctypes.data, out.ctypes.data)
    close(out, x.astype(float) @ y, k)
    library.forget()


def test_parts_of_larger_arrays(run, layout, normal):
    x, y = normal(20, 30)[3:17, 2:22], normal(40, 25)[4:24, 5:25]
    whole = np.zeros((20, 40), np.float32)
    out = whole[2:16, 10:30]
    run(Matmul(layout(x), layout(y), layout(out)), x, y, out)
    close(out, x.astype(float) @ y, 20)
    whole[2:16, 10:30] = 0
    assert not whole.any(), "nothing else was written"


def test_batches_broadcast(run, layout, normal, unset):
    for x_shape, y_shape, out_shape in (
        ((6, 5, 7), (6, 7, 4), (6, 5, 4)),
        ((2, 1, 5, 7), (1, 3, 7, 4), (2, 3, 5, 4)),
        ((1, 5, 7), (9, 7, 4), (9, 5, 4)),
    ):
        x, y, out = normal(*x_shape), normal(*y_shape), unset(*out_shape)
        run(Matmul(layout(x), layout(y), layout(out)), x, y, out)
        close(out, x.astype(float) @ y, 7)


def test_heads_of_attention_need_no_copies(run, layout, normal, unset):
    qkv = normal(2, 10, 3, 4, 8)  # batch, place, which, head, feature
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = unset(2, 4, 10, 10)
    run(Matmul(layout(q), layout(k.swapaxes(2, 3)), layout(scores)), q, k, scores)
    close(scores, q.astype(float) @ k.swapaxes(2, 3), 8)
    out = unset(2, 10, 4, 8).transpose(0, 2, 1, 3)
    run(Matmul(layout(scores), layout(v), layout(out)), scores, v, out)
    close(out, scores.astype(float) @ v, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_results_accumulate(library, only, run, layout, normal, kind):
    library.forget()
    only(kind)
    x, y, out = normal(70, 12), normal(12, 15), normal(70, 15)
    expected = out + x.astype(float) @ y
    run(Matmul(layout(x), layout(y), layout(out), accumulate=True), x, y, out)
    close(out, expected, 12)
    library.forget()


@pytest.mark.parametrize("kind", KINDS)
def test_nans_and_infinities_go_through(library, only, run, layout, normal, unset, kind):
    library.forget()
    only(kind)
    x, y, out = normal(66, 40), normal(40, 21), unset(66, 21)
    x[0, 3], x[1, 5], x[2, 0], y[7, 4], y[0, 9] = np.nan, np.inf, 0, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        expected = x.astype(float) @ y
    run(Matmul(layout(x), layout(y), layout(out)), x, y, out)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    library.forget()


def test_weights_are_packed_once_by_who_keeps_them(library, run, layout, normal, unset):
    from fl_jit.kernels import Packed, Reorder

    x, y, out = normal(5, 40), normal(40, 33), unset(5, 33)
    free = any_layout(float32, (40, 33))
    kernel = library.find(Matmul(layout(x), free, layout(out)))
    packed = kernel.operands[1]
    assert isinstance(packed, Packed) and packed.nbytes >= y.nbytes
    kept = np.zeros(packed.nbytes, np.uint8)
    run(Reorder(layout(y), packed), y, kept)
    kernel(x.ctypes.data, kept.ctypes.data, out.ctypes.data)
    close(out, x.astype(float) @ y, 40)
    back = np.empty_like(y)
    run(Reorder(packed, layout(back)), kept, back)
    np.testing.assert_array_equal(back, y)
    other = unset(5, 33)
    run(Matmul(layout(x), packed, layout(other)), x, kept, other)
    np.testing.assert_array_equal(other, out)


def test_what_cannot_be_done_is_said(library, layout, normal, unset):
    x, y, out = normal(3, 4), normal(4, 5), unset(3, 5)
    reversed_rows = layout(x[::-1])
    repeated = layout(np.broadcast_to(x[:1], (3, 4)))
    for bad, reason in (
        (Matmul(reversed_rows, layout(y), layout(out)), "repeat or overlap"),
        (Matmul(repeated, layout(y), layout(out)), "repeat or overlap"),
        (Matmul(layout(x[:0]), layout(y), layout(out[:0])), "with elements"),
    ):
        assert library.find(bad) is None
        assert reason in library.why_not(bad)
        with pytest.raises(UnsupportedError, match=reason):
            library.prepare(bad)


def test_sgemm_says_what_it_has_not(library, layout, normal, unset):
    y, out = normal(4, 5), unset(3, 5)
    every_other = layout(normal(6, 8)[::2, ::2])
    with pytest.raises(UnsupportedError, match="contiguous rows or columns"):
        matmul.Sgemm(library.binding, Matmul(every_other, layout(y), layout(out)))


def test_onednn_gets_no_epilogues(library):
    b = Builder(2)
    b.output(b("negative", b.input(float32, "sc")), "sc")
    follow = Epilogue(b.program(), (40, 40), ((40, 1), (40, 1)))
    descriptor = Matmul(*[row_major(float32, (40, 40))] * 3)
    assert library.find(descriptor) is not None
    assert library.find(descriptor._replace(epilogue=follow)) is None
