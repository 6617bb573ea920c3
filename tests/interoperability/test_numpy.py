"""NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft


@pytest.mark.row("NumPy", "ft.asarray(a)")
def test_an_array_is_copied():
    a = np.ones(3)
    x = ft.asarray(a)
    a[0] = 9
    assert x.tolist() == [1, 1, 1] and x.dtype is ft.float64


@pytest.mark.row("NumPy", "ft.asarray(a, copy=False)")
def test_an_array_is_borrowed():
    a = np.ones(3)
    for x in (ft.asarray(a, copy=False), ft.from_dlpack(a)):
        assert np.shares_memory(np.asarray(x), a)


@pytest.mark.row("NumPy", "np.asarray(x)")
def test_a_tensor_is_seen_as_a_read_only_array(v, y):
    for array in (np.asarray(v), v.numpy(), np.from_dlpack(v.detach())):
        assert np.shares_memory(array, np.asarray(v.tensor)) and not array.flags.writeable
    np.testing.assert_array_equal(np.asarray(y), [2, 4, 8])


@pytest.mark.row("NumPy", "np.exp(x)")
def test_a_ufunc_is_ours(v):
    found = np.exp(v)
    assert isinstance(found, ag.Variable)
    np.testing.assert_allclose(np.asarray(found), np.exp([1.0, 2.0, 4.0]), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ag.grad(found.sum(), v)), np.asarray(found))


@pytest.mark.row("NumPy", "np.mean(x)")
def test_a_reduction_is_ours(v):
    for function in (np.mean, np.sum, np.std, np.max, np.prod):
        found = function(v)
        assert found.requires_grad
        assert found.item() == pytest.approx(float(function([1.0, 2.0, 4.0])), rel=1e-6)


@pytest.mark.row("NumPy", "a + x")
def test_operators_are_ours_on_either_side(v):
    a = np.asarray([3.0, 2.0, 1.0])
    for found in (a * v, v * a, np.float64(2) * v):
        assert isinstance(found, ag.Variable)
    assert ag.grad((a * v).sum(), v).tolist() == [3, 2, 1]


@pytest.mark.row("NumPy", "a += x")
def test_an_array_is_added_to_in_place(x, v):
    a = np.zeros(3)
    a += x
    assert isinstance(a, np.ndarray) and a.tolist() == [1, 2, 4]
    with pytest.raises(ft.ArgumentError, match=r"a = a \+ v"):
        a += v


@pytest.mark.row("NumPy", "np.stack([x, y])")
def test_other_functions_give_arrays(v, y):
    for found in (np.stack([v, y]), np.where(v > 1, v, 0), np.sort(v), np.linspace(v[0], v[-1], 3)):
        assert isinstance(found, np.ndarray)
    assert np.allclose(v, y / 2)
