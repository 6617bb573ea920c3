"""Cumulative sums by a kernel: those of NumPy, accumulated in float64, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.kernels.codegen import scan

SHAPES = [
    ((200_000,), 0),
    ((300, 500), 1),
    ((300, 500), 0),
    ((2, 70_000), 1),
    ((4, 50, 60), 1),
    ((4, 50, 60), 2),
    ((4, 5000, 1), 1),
    ((2, 3, 70_000), 2),
    ((0, 7), 1),
    ((70_000, 2), 0),
]


@pytest.fixture(params=[1, 2])
def threads(request):
    before = ft.get_num_threads()
    ft.set_num_threads(request.param)
    yield
    ft.set_num_threads(before)


@pytest.mark.parametrize("backend", ["jit", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_cumulative_sums_accumulate_in_float64(shape, axis, dtype, backend, threads):
    a = (1e4 + np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    x = ft.asarray(a, backend=backend)
    want = np.cumsum(a, axis, np.float64).astype(dtype)
    assert np.array_equal(ft.cumulative_sum(x, axis), want)


def test_a_view_is_read_in_its_own_order():
    a = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
    x = ft.asarray(a, backend="jit")
    want = np.cumsum(a, 0, np.float64).astype(np.float32).T
    assert np.array_equal(ft.cumulative_sum(x.T, 1), want)
    assert np.array_equal(
        ft.cumulative_sum(x[:, ::-2], 1), np.cumsum(a[:, ::-2], 1, np.float64).astype(np.float32)
    )


def test_infinities_become_nan_from_the_opposite_one_on():
    a = np.ones(5000, np.float32)
    a[100], a[200] = np.inf, -np.inf
    found = np.asarray(ft.cumulative_sum(ft.asarray(a, backend="jit")))
    assert np.isinf(found[100:200]).all() and np.isnan(found[200:]).all()


@pytest.mark.parametrize("backend", ["jit", "numpy"])
def test_sums_of_negative_zeros_are_negative_zeros(backend):
    found = ft.cumulative_sum(ft.asarray(np.full(5000, -0.0, np.float32), backend=backend))
    assert np.signbit(np.asarray(found)).all()


def test_the_kernel_reads_nothing_of_other_rows():
    a = np.arange(12, dtype=np.float64).reshape(3, 4)
    out = np.full((3, 4), -1.0)
    scan.cumulative_sum(ft.float64, a[1].ctypes.data, out[1].ctypes.data, 1, 4)
    assert out.tolist() == [[-1.0] * 4, [4.0, 9.0, 15.0, 22.0], [-1.0] * 4]
