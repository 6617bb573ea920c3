"""Inverses of batches of small matrices: accurate to the rounding of float32, and LAPACK's where
there is none."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft

COUNT = 300


def matrices(size, count=COUNT):
    return np.random.default_rng(size).standard_normal((count, size, size)).astype(np.float32)


def inverse(a):
    return np.asarray(ft.linalg.inv(ft.asarray(a, backend="jit")))


@pytest.mark.parametrize("size", range(1, 10))
def test_inverses_are_those_of_float64(size):
    a = matrices(size)
    want = np.linalg.inv(a.astype(np.float64))
    tolerance = 1e-7 if size <= 8 else 1e-3
    scale = np.abs(want).max((1, 2), keepdims=True)
    assert np.max(np.abs(inverse(a) - want) / scale) < tolerance


@pytest.mark.parametrize("size", [1, 3, 6])
def test_zeros_on_the_diagonal_need_an_exchange_of_rows(size):
    a = np.roll(np.eye(size, dtype=np.float32), 1, 0) * np.arange(1, COUNT + 1)[:, None, None]
    a = a.astype(np.float32)
    assert np.allclose(inverse(a) @ a, np.eye(size), atol=1e-6)


def test_views_and_several_axes_of_batches():
    a = matrices(3).reshape(20, 15, 3, 3)
    want = np.linalg.inv(a.astype(np.float64)).astype(np.float32)
    assert np.allclose(inverse(a), want, rtol=1e-6)
    x = ft.asarray(a, backend="jit")
    assert np.allclose(ft.linalg.inv(ft.permute(x, (0, 1, 3, 2))), want.swapaxes(2, 3), rtol=1e-6)
    assert np.allclose(ft.linalg.inv(x[::-1]), want[::-1], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_singular_matrix_among_many_is_an_error(size):
    a = matrices(size)
    a[123, -1] = 2 * a[123, 0] if size == 2 else 0
    with pytest.raises(ft.LinAlgError):
        inverse(a)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_elements_that_are_not_finite_are_left_to_lapack(value):
    a = matrices(4)
    a[123, 1, 2] = value
    with np.errstate(all="ignore"):
        assert np.array_equal(inverse(a), np.linalg.inv(a), equal_nan=True)


def test_the_gradient():
    a = matrices(2)[:, None]
    ag = pytest.importorskip("fl_autograd", reason="gradients are those of fl-autograd")
    x = ag.Variable(ft.asarray(a, backend="jit"), requires_grad=True)
    ft.linalg.inv(x).sum().backward()
    inverses = np.linalg.inv(a.astype(np.float64)).swapaxes(-1, -2)
    want = -inverses @ np.ones_like(inverses) @ inverses
    assert np.allclose(x.grad, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def test_the_number_of_threads_changes_nothing():
    a, before = matrices(5, 3000), ft.get_num_threads()
    try:
        ft.set_num_threads(1)
        one = inverse(a)
        ft.set_num_threads(3)
        assert np.array_equal(inverse(a), one)
    finally:
        ft.set_num_threads(before)
