"""SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, linalg, optimize, signal, sparse, special

import fl_autograd as ag
import fl_tensor as ft


@pytest.mark.row("SciPy", "special.expit(x)")
def test_a_special_function_with_a_counterpart_is_ours(v):
    for function, ours in ((special.expit, ft.sigmoid), (special.erf, ft.erf)):
        found = function(v)
        assert found.tolist() == ours(v).tolist()
        assert ag.grad(found.sum(), v).tolist() == ag.grad(ours(v).sum(), v).tolist()


@pytest.mark.row("SciPy", "special.j0(x)")
def test_another_special_function_names_the_array(v):
    with pytest.raises(ft.DTypeError, match=r"special.j0\(np.asarray\(x\)\) computes it without"):
        special.j0(v)
    assert special.j0(np.asarray(v)).shape == (3,)


@pytest.mark.row("SciPy", "optimize.minimize(ag.value_and_grad(f), a, jac=True)")
def test_a_minimum_is_found_by_our_gradients():
    def rosenbrock(p):
        return (100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2).sum()

    found = optimize.minimize(ag.value_and_grad(rosenbrock), np.zeros(4), jac=True)
    np.testing.assert_allclose(found.x, 1, rtol=1e-4)


@pytest.mark.defect("N22")
@pytest.mark.row("SciPy", "optimize.brentq(f, 0, 1)")
def test_a_root_of_a_function_that_returns_a_tensor():
    def of_tensor(q):
        return ft.cos(ft.asarray(q, ft.float64)) - q

    def of_variable(q):
        p = ag.Variable(ft.asarray([q], ft.float64), requires_grad=True)
        return (ft.cos(p) - p).sum()

    for function in (of_tensor, of_variable):
        for method in (optimize.brentq, optimize.bisect, optimize.ridder):
            assert method(function, 0, 1) == pytest.approx(0.7390851332)


@pytest.mark.row("SciPy", "linalg.solve(a, x)")
def test_other_functions_read_tensors_and_give_arrays(x, y):
    assert linalg.solve(np.eye(3), y).tolist() == [2, 4, 8]
    assert signal.convolve(x, [1.0, 1.0]).tolist() == [1, 3, 6, 4]
    area, _ = integrate.quad(lambda q: ft.exp(ft.asarray(q, ft.float64)), 0, 1)
    assert area == pytest.approx(np.e - 1)


@pytest.mark.row("SciPy", "s @ x")
def test_a_sparse_matrix_times_a_tensor_is_an_array(v):
    found = sparse.csr_array(np.diag([1.0, 2.0, 3.0])) @ v
    assert isinstance(found, np.ndarray) and found.tolist() == [1, 4, 12]


@pytest.mark.row("SciPy", "x @ s")
def test_a_sparse_matrix_is_no_operand(x):
    matrix = sparse.csr_array(np.eye(3))
    for use in (lambda: x @ matrix, lambda: x * matrix, lambda: ft.asarray(matrix)):
        with pytest.raises(ft.DTypeError, match=r"csr_array is sparse: .*x.toarray\(\)"):
            use()
    assert (x @ matrix.toarray()).tolist() == x.tolist()
