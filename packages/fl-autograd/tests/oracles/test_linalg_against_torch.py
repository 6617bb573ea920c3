"""Gradients of factorisations against PyTorch in float64, to second order. Where a factorisation is
unique up to signs, functions that do not see the signs are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")

SQUARE = [(3, 3), (1, 1), (2, 4, 4)]
SHAPES = [(4, 2), (2, 4), (3, 3), (2, 3, 2)]
Function = Callable[..., Any]


def mt(x: Any) -> Any:
    return x.mT if isinstance(x, torch.Tensor) else ft.linalg.matrix_transpose(x)


def matrices(shape: tuple[int, ...], seed: int = 0) -> Any:
    x = np.random.default_rng(seed).standard_normal(shape)
    return x + 3 * np.eye(shape[-1]) if shape[-1] == shape[-2] else x


def positive(x: Any) -> Any:
    # Symmetric as a function of x: which triangle is read makes no difference.
    return x @ mt(x) * 0.1 + x * 0 + EYES[type(x)](x.shape[-1])


EYES: dict[Any, Any] = {
    ag.Variable: lambda n: ft.eye(n, dtype="float64"),
    torch.Tensor: lambda n: torch.eye(n, dtype=torch.float64),
}


def agree(function: Function, *inputs: Any, rtol: float = 1e-7) -> None:
    """The same function, told the namespace, in both libraries: value, gradient, and the gradient
    of a weighted sum of the gradients."""
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, z = function(ft.linalg, *xs), function(torch.linalg, *ts)
    near(y, z, rtol)
    weights = np.cos(np.arange(y.size)).reshape(y.shape)
    gx = ag.grad(y, xs, ft.asarray(weights), create_graph=True)
    gt = torch.autograd.grad(z, ts, torch.tensor(weights), create_graph=True)
    for a, b in zip(gx, gt, strict=True):
        near(a, b, rtol)
    if not all(a.requires_grad and b.requires_grad for a, b in zip(gx, gt, strict=True)):
        return  # a piecewise linear function
    again = [np.sin(1.0 + np.arange(a.size)).reshape(a.shape) for a in gx]
    hx = ag.grad(gx, xs, [ft.asarray(w) for w in again])
    ht = torch.autograd.grad(gt, ts, [torch.tensor(w) for w in again])
    for a, b in zip(hx, ht, strict=True):
        near(a, b, 100 * rtol)


def near(ours: Any, theirs: Any, rtol: float) -> None:
    want = theirs.detach().numpy()
    size = max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(ours.numpy(), want, rtol=0, atol=rtol * size)


@pytest.mark.parametrize("shape", SQUARE)
def test_equations_and_determinants(shape: Any) -> None:
    x, y = matrices(shape), matrices((*shape[:-1], 2), 1)
    agree(lambda la, a, b: la.solve(a, b), x, y)
    agree(lambda la, a: la.inv(a), x)
    agree(lambda la, a: la.det(a), x)
    agree(lambda la, a: la.slogdet(a)[1], x)
    agree(lambda la, a: la.matrix_power(a, 3) + la.matrix_power(a, -2), x)


def test_solve_sums_gradients_over_broadcast_axes() -> None:
    agree(lambda la, a, b: la.solve(a, b), matrices((3, 3)), matrices((2, 3, 2), 1))
    agree(lambda la, a, b: la.solve(a, b), matrices((2, 1, 3, 3)), matrices((4, 3, 2), 1))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", SQUARE)
def test_cholesky(shape: Any, upper: bool) -> None:
    agree(lambda la, a: la.cholesky(positive(a), upper=upper), matrices(shape))


@pytest.mark.parametrize("shape", SQUARE)
def test_eigh(shape: Any) -> None:
    x = matrices(shape)
    agree(lambda la, a: la.eigvalsh(positive(a)), x)
    agree(lambda la, a: la.eigh(positive(a))[0], x)
    agree(lambda la, a: la.eigh(positive(a))[1] ** 2, x)


@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape: Any) -> None:
    x = matrices(shape)
    agree(lambda la, a: la.qr(a)[0] ** 2, x)
    agree(lambda la, a: la.qr(a)[1] ** 2, x)
    agree(lambda la, a: la.qr(a)[0] @ (la.qr(a)[1] * 2), x)


@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape: Any) -> None:
    x = matrices(shape)
    agree(lambda la, a: la.svdvals(a), x)
    agree(lambda la, a: la.svd(a, full_matrices=False)[0] ** 2, x)
    agree(lambda la, a: la.svd(a, full_matrices=False)[2] ** 2, x)


@pytest.mark.parametrize("shape", SHAPES)
def test_pseudo_inverse_and_norms(shape: Any) -> None:
    x = matrices(shape)
    agree(lambda la, a: la.pinv(a), x)
    for ord in ("fro", "nuc", 2, -2, 1, float("inf")):
        agree(lambda la, a, ord=ord: la.matrix_norm(a, ord=ord), x)
