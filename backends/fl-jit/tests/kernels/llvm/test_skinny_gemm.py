"""Products of few rows with the transpose of a matrix: dot products, of any sizes."""

from __future__ import annotations

import numpy as np
import pytest
from bias_and_activation import followed
from checked_kernel import CheckedKernels
from gemm_cases import lay

import fl_tensor as ft
from fl_jit.kernels import Epilogue, Layout, Matmul, row_major
from fl_jit.kernels.codegen import Builder, target
from fl_jit.kernels.llvm.gemm import skinny_gemm
from fl_tensor.dtypes import dtype, float32

TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def product(library, x, w, out, **more):
    """x @ w.T into ``out``."""
    kernel = library.find(Matmul(lay(x), lay(w.T), lay(out), **more))
    assert kernel.about.startswith("dots")
    kernel(x.ctypes.data, w.ctypes.data, out.ctypes.data)
    return out


def agree(found, expected):
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() <= TOLERANCE[found.dtype.name] * scale


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 8, 17, 32])
@pytest.mark.parametrize("k,n", [(32, 1), (33, 5), (100, 6), (1000, 13), (257, 64)])
def test_rows_columns_and_lengths(library, rng, kind, m, k, n):
    x, w = (rng.standard_normal(s).astype(kind) for s in ((m, k), (n, k)))
    out = np.full((m, n), np.nan, kind)
    agree(product(library, x, w, out), x.astype(float) @ w.T.astype(float))


def test_k_in_several_blocks(library, rng):
    k = 3 * skinny_gemm.k_block(20, 1 << 20, float32) + 5
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((20, k), (9, k)))
    found = product(library, x, w, np.full((20, 9), np.nan, np.float32))
    agree(found, x.astype(float) @ w.T.astype(float))


def test_rows_with_gaps_and_nothing_beyond_is_touched(library, rng):
    x, w, out = (np.full(s, np.nan, np.float32) for s in ((6, 90), (11, 80), (6, 30)))
    x, w, part = x[:, 3:53], w[:, 7:57], out[:, 4:15]
    x[...], w[...] = rng.standard_normal(x.shape), rng.standard_normal(w.shape)
    agree(product(library, x, w, part), x.astype(float) @ w.T.astype(float))
    assert np.isnan(out[:, :4]).all() and np.isnan(out[:, 15:]).all()


def test_sums_are_added_to_what_is_there(library, rng):
    x, w, out = (rng.standard_normal(s, dtype=np.float32) for s in ((5, 70), (14, 70), (5, 14)))
    expected = out + x.astype(float) @ w.T.astype(float)
    agree(product(library, x, w, out, accumulate=True), expected)


def test_bias_and_activation_follow(library, rng):
    x, w, b = (rng.standard_normal(s, dtype=np.float32) for s in ((5, 70), (100, 70), (1, 100)))
    out = np.full((5, 100), np.nan, np.float32)
    descriptor = followed(Matmul(*map(lay, (x, w.T, out))), lay(b), "relu")
    kernel = library.find(descriptor)
    assert kernel.about.startswith("dots")
    kernel(*(array.ctypes.data for array in (x, w, b, out)))
    agree(out, np.maximum(x.astype(float) @ w.T.astype(float) + b, 0))


def test_the_number_of_threads_changes_no_bit(rng):
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((3, 3000), (501, 3000)))
    before = ft.get_num_threads()
    found = []
    try:
        for count in (1, 2, 5):
            ft.set_num_threads(count)
            found.append(product(CheckedKernels(), x, w, np.empty((3, 501), np.float32)))
    finally:
        ft.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("m,k,batch", [(33, 100, ()), (4, 31, ()), (4, 100, (3,))])
def test_others_are_products_of_tiles(library, m, k, batch):
    x, out = row_major(float32, (*batch, m, k)), row_major(float32, (*batch, m, 9))
    steps = (9 * k, 1, k) if batch else (1, k)
    kernel = library.find(Matmul(x, Layout(float32, (*batch, k, 9), steps), out))
    assert not kernel.about.startswith("dots")


@pytest.mark.parametrize("m", [33, 100, 128, 129])
def test_long_columns_of_a_second_factor_are_read_as_rows(library, rng, m):
    x, w = (rng.standard_normal(s, dtype=np.float32) for s in ((m, 2100), (150, 2100)))
    out = np.full((m, 150), np.nan, np.float32)
    descriptor = Matmul(lay(x), lay(w.T), lay(out))
    kernel = library.find(descriptor)
    kernel(x.ctypes.data, w.ctypes.data, out.ctypes.data)
    agree(out, x.astype(float) @ w.T.astype(float))
    b = Builder(2)
    b.output(b("negative", b.input(float32, "sc")), "sc")
    follow = Epilogue(b.program(), (m, 150), ((150, 1), (150, 1)))
    assert (library.find(descriptor._replace(epilogue=follow)) is None) == (m <= 128)


@pytest.mark.parametrize("machine", [target.generic(), target.avx2(), target.processor()])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_it_is_emitted_for_every_width(machine, kind):
    text = skinny_gemm.assembly(dtype(kind), machine)
    lanes = machine.lanes(dtype(kind).itemsize)
    assert f"<{lanes} x " in text and skinny_gemm.shape(machine, lanes).vectors <= lanes
