"""Gradients, first and second order, of special functions, scans, segments and matrix functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = needs("float64")
RNG = np.random.default_rng(4)


def apart(*shape: int) -> Any:
    """Numbers at least 1/4 from one another and from 0, so that no extremum changes hands."""
    count = math.prod(shape)
    return (RNG.permutation(count) / 2.0 - count / 4.0 + 0.3).reshape(shape)


@pytest.mark.parametrize(
    "function",
    [ft.lgamma, ft.digamma, lambda x: ft.polygamma(1, x), lambda x: ft.polygamma(4, x)],
    ids=["lgamma", "digamma", "trigamma", "polygamma"],
)
def test_gamma_functions(function: Callable[..., Any]) -> None:
    ag.check_grads(function, [np.array([0.4, 0.9, 1.5, 2.0, 3.3, 8.0, 15.0])], order=2)


@pytest.mark.parametrize("function", [ft.lgamma, ft.digamma])
def test_gamma_functions_below_zero(function: Callable[..., Any]) -> None:
    ag.check_grads(function, [np.array([-0.4, -1.5, -3.3])], order=2, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_derivative_is_the_next_function(dtype: str) -> None:
    x = ag.Variable(ft.asarray([0.7, 2.5, 9.0], dtype=dtype), requires_grad=True)
    rtol = 1e-5 if dtype == "float32" else 1e-13
    chain = [ft.lgamma, ft.digamma, *(lambda v, n=n: ft.polygamma(n, v) for n in (1, 2, 3))]
    pairs = [*zip(chain, chain[1:], strict=False)]
    pairs.append(tuple((lambda v, n=n: ft.polygamma(n, v)) for n in (30, 31)))
    for function, derivative in pairs:
        (found,) = ag.grad(function(x).sum(), [x])
        assert found.dtype is x.dtype
        np.testing.assert_allclose(found, derivative(x.tensor), rtol=rtol)


def test_erfinv() -> None:
    ag.check_grads(ft.erfinv, [np.array([-0.95, -0.3, 0.0, 0.5, 0.9])], order=2)
    x = ag.Variable(ft.asarray([0.0, 1.0], dtype="float64"), requires_grad=True)
    ft.erfinv(x).sum().backward()
    assert np.allclose(x.grad, [math.sqrt(math.pi) / 2, math.inf])


def test_xlogy(leaf: Any) -> None:
    ag.check_grads(ft.xlogy, [np.array([[-0.5], [2.0]]), np.array([0.3, 1.0, 4.0])], order=2)
    x, y = leaf([0.0, 0.0, 0.0]), leaf([0.0, 2.0, -1.0])
    ft.xlogy(x, y).sum().backward()
    assert np.allclose(x.grad, [0.0, math.log(2.0), 0.0]) and np.allclose(y.grad, 0.0)


@pytest.mark.parametrize("axis", [0, 1])
def test_scans(axis: int) -> None:
    x = apart(4, 5)
    for function in (ft.cummax, ft.cummin):
        ag.check_grads(lambda v, f=function: f(v, axis).values ** 2, [x], order=2)
    ag.check_grads(lambda v: ft.logcumsumexp(v, axis), [RNG.standard_normal((4, 5))], order=2)


def test_a_running_logsumexp_has_a_gradient_behind_infinities(leaf: Any) -> None:
    x = leaf([-math.inf, -math.inf, 0.0, 1.0])
    ft.logcumsumexp(x)[3].backward()
    assert np.allclose(x.grad, [0.0, 0.0, *ft.softmax([0.0, 1.0], 0).tolist()])


def test_the_gradient_of_a_running_maximum_goes_to_where_it_is(leaf: Any) -> None:
    x = leaf([1.0, 3.0, 2.0, 3.0])
    found = ft.cummax(x)
    assert not found.indices.requires_grad
    found.values.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 0.0, 1.0]


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    x, y = RNG.standard_normal((4, 3)), RNG.standard_normal((2, 5, 3))
    ag.check_grads(lambda a, b: ft.cdist(a, b, p), [x, y], order=2, rtol=1e-5)
    if p == 2.0:
        ag.check_grads(lambda a, b: ft.cdist(a, b, by_matmul=True), [x, y], order=2, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"by_matmul": True}, {"p": 1.0}])
def test_no_distance_has_no_gradient(leaf: Any, options: dict[str, Any]) -> None:
    x = leaf([[1.0, 2.0]])
    ft.cdist(x, x.tensor, **options).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize(("places", "axis"), [((7,), 0), ((3, 2), 1)])
def test_scatter_by_extremes(mode: str, places: Any, axis: int) -> None:
    shape = (4, 3)
    indices = RNG.integers(0, shape[axis], places)
    updates = (*shape[:axis], *places, *shape[axis + 1 :])
    values = apart(math.prod(shape) + math.prod(updates))
    x, u = values[:12].reshape(shape), values[12:].reshape(updates)
    ag.check_grads(lambda a, b: ft.scatter(a, indices, b, axis, mode) ** 2, [x, u], order=2)


def test_equal_extremes_share_the_gradient(leaf: Any) -> None:
    x, updates = leaf([2.0, 0.0, 1.0]), leaf([2.0, 2.0, 1.0, 3.0, 3.0])
    ft.scatter(x, [0, 0, 0, 1, 1], updates, mode="max").sum().backward()
    assert np.allclose(x.grad, [1 / 3, 0.0, 1.0])
    assert np.allclose(updates.grad, [1 / 3, 1 / 3, 0.0, 0.5, 0.5])


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "softmax"])
@pytest.mark.parametrize("shape", [(8,), (8, 3)])
def test_segments(name: str, shape: Any) -> None:
    ids = [2, 0, 0, 4, 2, 2, 1, 4]
    held = [0, 1, 2, 4]

    def function(x: Any) -> Any:
        found = getattr(ft, f"segment_{name}")(x, ids, 6)
        return found if name == "softmax" else found[held] ** 2

    ag.check_grads(function, [apart(*shape)], order=2)


@needs("linalg")
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(lower: bool, unit: bool) -> None:
    x, y = RNG.standard_normal((2, 4, 4)) + 3.0 * np.eye(4), RNG.standard_normal((4, 3))
    options = {"lower": lower, "unit_diagonal": unit}
    ag.check_grads(lambda a, b: ft.linalg.solve_triangular(a, b, **options), [x, y], order=2)


@needs("linalg")
def test_blocks_of_triangles_have_the_gradient_of_the_whole(leaf: Any) -> None:
    size = 100
    matrix = np.tri(size) * RNG.standard_normal((size, size)) / size + np.eye(size)
    weights = ft.asarray(RNG.standard_normal((size, 2)))
    grads = []
    for solve in (lambda a, b: ft.linalg.solve_triangular(a, b, lower=True), ft.linalg.solve):
        x, y = leaf(matrix), leaf(np.ones((size, 2)))
        (solve(x, y) * weights).sum().backward()
        grads.append((ft.tril(x.grad), x.grad, y.grad))
    np.testing.assert_allclose(grads[0][1], grads[1][0], atol=1e-12)
    np.testing.assert_allclose(grads[0][2], grads[1][2], atol=1e-12)


@needs("linalg")
@pytest.mark.parametrize(
    ("ord", "axis"),
    [(None, None), ("nuc", (0, 2)), (1, (2, 1)), (2, (0, 1)), (3, 1), (-math.inf, 0)],
)
def test_norms(ord: Any, axis: Any) -> None:
    ag.check_grads(lambda v: ft.linalg.norm(v, ord, axis), [apart(2, 3, 4)], order=2, rtol=1e-5)


@pytest.mark.defect("N20")
@needs("complex128", "fft")
@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2"])
def test_transforms_of_two_axes(name: str) -> None:
    x = RNG.standard_normal((2, 4, 3)) + 1j * RNG.standard_normal((2, 4, 3))
    transform = getattr(ft.fft, name)

    def function(v: Any) -> Any:
        found = transform(v, (3, 5), norm="ortho")
        return ft.absolute(found) ** 2 + ft.real(found) + ft.angle(found + 9.0)

    ag.check_grads(function, [x.real if name == "rfft2" else x], order=2)


def test_the_log_probability_of_classes() -> None:
    logits, values = RNG.standard_normal((2, 4)), np.array([[0, 3], [1, 1], [2, 0]])
    ag.check_grads(lambda v: ft.random.categorical_log_prob(v, values), [logits], order=2)


def test_draws_have_no_gradient_but_by_their_scale(leaf: Any) -> None:
    logits, scale = leaf([[0.0, 1.0]]), leaf([1.0, 2.0])
    assert isinstance(ft.random.categorical(logits, 3), ft.Tensor)
    assert isinstance(ft.random.poisson(scale), ft.Tensor)
    draws = {
        "exponential": lambda: ft.random.exponential(scale),
        "gamma": lambda: ft.random.gamma(2.0, scale, 2),
    }
    for draw in draws.values():
        found = draw()
        (slope,) = ag.grad(found.sum(), [scale])
        assert np.allclose(slope, found / scale)


def test_log_additions_have_half_of_the_gradient_where_operands_are_equal(leaf: Any) -> None:
    for value in (0.0, 3.0, math.inf, -math.inf):
        x, y = leaf(value), leaf(value)
        first = ag.grad(ft.logaddexp(x, y), [x, y], create_graph=True)
        assert [g.item() for g in first] == [0.5, 0.5]
        second = ag.grad(first[0], [x, y])
        share = 0.25 if math.isfinite(value) else 0.0
        assert [g.item() for g in second] == [share, -share]
    for a, b, share in ((math.inf, 1.0, 1.0), (1.0, -math.inf, 1.0), (-math.inf, math.inf, 0.0)):
        assert ag.grad(ft.logaddexp(x := leaf(a), leaf(b)), x).item() == share
    assert math.isnan(ag.grad(ft.logaddexp(x := leaf(math.nan), leaf(1.0)), x).item())
    assert ft.logaddexp(x, x).grad_fn.name == "logaddexp"
