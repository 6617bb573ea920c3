"""Factorisations and transforms of variables: values, what has gradients, what says it has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

X = np.array([[3.0, 1.0, 0.5], [0.5, 2.0, -1.0], [1.0, -0.5, 4.0]])


def variable(values: Any = X, requires_grad: bool = True) -> ag.Variable:
    return ag.Variable(ft.asarray(values), requires_grad=requires_grad)


@needs("linalg")
def test_every_result_of_an_operation_has_its_own_gradient() -> None:
    x = variable()
    q, r = ft.linalg.qr(x)
    assert type(q) is type(r) is ag.Variable
    both = ag.grad((q @ r).sum(), x)
    np.testing.assert_allclose(both.numpy(), np.ones((3, 3)), atol=1e-12)
    alone = ag.grad(ft.linalg.svd(x).S.sum(), x).numpy()
    u, _, vh = np.linalg.svd(X)
    np.testing.assert_allclose(alone, u @ vh, atol=1e-12)


@needs("linalg")
@pytest.mark.defect("N10")
def test_least_squares_can_be_learned() -> None:
    target = ft.asarray([[1.0], [2.0], [3.0]], dtype="float64")
    x = variable(X[:, :2])
    found = ft.linalg.lstsq(x, target)
    rest = x @ found.solution - target
    slope = ag.grad((rest * rest).sum(), x, retain_graph=True).numpy()
    np.testing.assert_allclose(ag.grad(found.residuals.sum(), x).numpy(), slope, atol=1e-10)
    z = np.linalg.lstsq(X[:, :2], target.numpy())[0]
    np.testing.assert_allclose(slope, 2 * (X[:, :2] @ z - target.numpy()) @ z.T, atol=1e-10)


@needs("linalg")
def test_the_triangle_that_is_not_read_has_no_gradient() -> None:
    x = variable(X @ X.T)
    assert not np.triu(ag.grad(ft.linalg.cholesky(x).sum(), x).numpy(), 1).any()
    assert not np.tril(ag.grad(ft.linalg.cholesky(x, upper=True).sum(), x).numpy(), -1).any()
    assert not np.triu(ag.grad(ft.linalg.eigvalsh(x)[0], x).numpy(), 1).any()


@needs("linalg")
def test_arbitrary_columns_have_no_gradient() -> None:
    x = variable(X[:, :2])
    with pytest.raises(ag.GradError, match=r"\[qr\].*'reduced'"):
        ag.grad(ft.linalg.qr(x, mode="complete").Q.sum(), x)
    with pytest.raises(ag.GradError, match=r"\[svd\].*full_matrices=False"):
        ag.grad(ft.linalg.svd(x).U.sum(), x)
    assert ag.grad(ft.linalg.svd(x).S.sum(), x).shape == (3, 2)


@needs("linalg", "complex128")
@pytest.mark.parametrize("call", [ft.linalg.eig, ft.linalg.eigvals])
def test_eigenvectors_of_any_matrix_have_values_but_no_gradients(call: Any) -> None:
    constant = variable(requires_grad=False)
    found = call(constant)
    first = found[0] if isinstance(found, tuple) else found
    assert first.dtype is ft.complex128
    with pytest.raises(ag.MissingRuleError, match="gradient rule"):
        call(variable())
    with ag.no_grad():
        call(variable())


@needs("linalg")
def test_ranks_need_no_gradient() -> None:
    assert not ft.linalg.matrix_rank(variable()).requires_grad


def test_shifts_pass_gradients_on() -> None:
    x = variable()
    slope = ag.grad((ft.fft.fftshift(x) * ft.asarray(X)).sum(), x)
    np.testing.assert_array_equal(slope.numpy(), np.fft.ifftshift(X))
