"""``linalg.norm``, ``linalg.cond`` and ``linalg.solve_triangular`` against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64", "linalg")
ORDERS = [None, 1, -1, 2, -2, 0, 3, 0.5, np.inf, -np.inf, "fro", "nuc"]


def outcome(function, *arguments):
    try:
        return np.asarray(function(*arguments))
    except (ValueError, TypeError):
        return None


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("axis", [None, 0, -1, (0,), (0, 1), (1, 0), (-1, 0)])
def test_norm_is_numpys_or_refused_where_numpy_refuses(ord, shape, axis):
    x = np.random.default_rng(0).standard_normal(shape)
    for keepdims in (False, True):
        want = outcome(np.linalg.norm, x, ord, axis, keepdims)
        found = outcome(ft.linalg.norm, ft.asarray(x), ord, axis, keepdims)
        assert (found is None) == (want is None)
        if want is not None:
            assert found.shape == want.shape
            np.testing.assert_allclose(found, want, rtol=1e-12)


@needs("complex128")
def test_the_norm_of_complex_numbers_is_real():
    x = np.asarray([[3 + 4j, 0], [1j, 2]])
    for ord in (None, "nuc", 1, 2):
        found = ft.linalg.norm(ft.asarray(x), ord)
        assert found.dtype is ft.float64
        np.testing.assert_allclose(found, np.linalg.norm(x, ord))


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, "fro", "nuc"])
def test_condition_numbers(p):
    x = np.random.default_rng(1).standard_normal((2, 4, 4))
    want = [np.linalg.cond(m, p) for m in x]
    np.testing.assert_allclose(ft.linalg.cond(ft.asarray(x), p), want, rtol=1e-9)


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, "fro"])
def test_singular_matrices_have_infinite_condition_numbers(p):
    x = np.stack([np.zeros((3, 3)), np.eye(3), np.diag([1.0, 0.0, 2.0])])
    np.testing.assert_allclose(ft.linalg.cond(ft.asarray(x), p), [np.linalg.cond(m, p) for m in x])
    with pytest.raises(ft.LinAlgError, match="without elements have no condition number"):
        ft.linalg.cond(ft.zeros((2, 0, 0)), p)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("size", [40, 150])
def test_badly_scaled_triangular_systems_are_solved_by_substitution(lower, size):
    rng = np.random.default_rng(size)
    x = np.tril(rng.standard_normal((size, size)) * 0.3) + np.eye(size)
    x *= 10.0 ** rng.uniform(-8, 8, (size, 1))
    x = x if lower else x[::-1, ::-1].copy()
    exact = rng.standard_normal((size, 1))
    y = x @ exact
    found = np.asarray(ft.linalg.solve_triangular(ft.asarray(x), ft.asarray(y), lower=lower))
    want = linalg.solve_triangular(x, y, lower=lower)
    assert np.abs(found - exact).max() <= 10 * np.abs(want - exact).max()


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("size", [1, 5, 64, 65, 150])
def test_solve_triangular_reads_one_triangle(lower, unit_diagonal, size):
    rng = np.random.default_rng(size)
    x = rng.standard_normal((2, size, size)) / size + np.eye(size)
    y = rng.standard_normal((2, size, 3))
    options = {"lower": lower, "unit_diagonal": unit_diagonal}
    want = [linalg.solve_triangular(m, b, **options) for m, b in zip(x, y, strict=True)]
    hidden = np.tri(size, k=0 if unit_diagonal else -1, dtype=bool)
    x[:, hidden.T if lower else hidden] = np.nan
    if unit_diagonal:
        x[:, np.arange(size), np.arange(size)] = np.nan
    found = ft.linalg.solve_triangular(ft.asarray(x), ft.asarray(y), **options)
    np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-12)


def test_triangular_systems_of_vectors_and_batches():
    x, y = ft.asarray([[2.0, 0.0], [1.0, 4.0]], dtype="float64"), ft.asarray([2.0, 9.0])
    assert ft.linalg.solve_triangular(x, y, lower=True).tolist() == [1.0, 2.0]
    wide = ft.broadcast_to(x, (3, 1, 2, 2))
    assert ft.linalg.solve_triangular(wide, ft.ones((5, 2, 7))).shape == (3, 5, 2, 7)


def test_refused_triangular_systems():
    with pytest.raises(ft.LinAlgError):
        ft.linalg.solve_triangular(ft.zeros((2, 2)), ft.ones(2))
    with pytest.raises(ft.ShapeError, match=r"x \(2, 3\)"):
        ft.linalg.solve_triangular(ft.ones((2, 3)), ft.ones(2))
    with pytest.raises(ft.ShapeError, match=r"y \(3, 1\)"):
        ft.linalg.solve_triangular(ft.ones((2, 2)), ft.ones(3))
