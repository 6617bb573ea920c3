"""Special functions, scans, distances, segments and triangular systems against PyTorch: values and
gradients on random cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")
CASES = range(5)


def agree(
    ours: Callable[..., Any], theirs: Callable[..., Any], inputs: Sequence[Any], rtol: float = 1e-9
) -> None:
    """Values, gradients, and gradients of the gradients."""
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, z = ours(*xs), theirs(*ts)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=rtol, atol=1e-11)
    weights = np.cos(np.arange(y.size)).reshape(y.shape).astype(inputs[0].dtype)
    found = ag.grad(y, xs, ft.asarray(weights), create_graph=True)
    wanted = torch.autograd.grad(z, ts, torch.tensor(weights), create_graph=True)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=rtol, atol=1e-9)
    ours_total, total = (sum((g * g).sum() for g in grads) for grads in (found, wanted))
    if not (ours_total.requires_grad and total.requires_grad):
        return  # piecewise linear
    second = ag.grad(ours_total, xs, allow_unused=True)
    for a, b in zip(second, torch.autograd.grad(total, ts, allow_unused=True), strict=True):
        if a is not None and b is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=100 * rtol, atol=1e-8)


def rng(case: int) -> np.random.Generator:
    return np.random.default_rng([7, case])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["lgamma", "digamma", "erfinv"])
def test_special_functions(name: str, case: int) -> None:
    draw = rng(case)
    x = draw.uniform(-0.95, 0.95, 20) if name == "erfinv" else draw.uniform(0.05, 20.0, 20)
    agree(getattr(ft, name), getattr(torch, name), [x])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_polygamma(n: int) -> None:
    x = rng(n).uniform(0.5, 15.0, 20)
    agree(lambda v: ft.polygamma(n, v), lambda v: torch.polygamma(n, v), [x])


@pytest.mark.parametrize("case", CASES)
def test_xlogy(case: int) -> None:
    draw = rng(case)
    agree(ft.xlogy, torch.xlogy, [draw.standard_normal((4, 1)), draw.uniform(0.1, 4.0, 5)])


def test_xlogy_at_zeros() -> None:
    inputs = [np.array([0.0, 0.0, 2.0]), np.array([0.5, 3.0, 1.0])]
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    ft.xlogy(*xs).sum().backward()
    torch.xlogy(*ts).sum().backward()
    for x, t in zip(xs, ts, strict=True):
        np.testing.assert_allclose(x.grad, t.grad)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(name: str, axis: int) -> None:
    x = rng(axis).integers(0, 5, (4, 6, 3)).astype("float64")
    x[1, 2] = np.nan
    found, wanted = (
        getattr(ft, name)(ft.asarray(x), axis),
        getattr(torch, name)(torch.tensor(x), axis),
    )
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    x = rng(axis).standard_normal((4, 6, 3))
    agree(
        lambda v: getattr(ft, name)(v, axis).values, lambda v: getattr(torch, name)(v, axis)[0], [x]
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_logcumsumexp(axis: int) -> None:
    x = 10.0 * rng(axis).standard_normal((5, 7))
    agree(lambda v: ft.logcumsumexp(v, axis), lambda v: torch.logcumsumexp(v, axis), [x])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, float("inf")])
def test_cdist(p: float) -> None:
    x, y = rng(1).standard_normal((2, 6, 3)), rng(2).standard_normal((2, 5, 3))
    np.testing.assert_allclose(
        ft.cdist(x, y, p), torch.cdist(torch.tensor(x), torch.tensor(y), p), rtol=1e-9
    )
    xs, ts = ag.Variable(ft.asarray(x), requires_grad=True), torch.tensor(x, requires_grad=True)
    (ft.cdist(xs, y, p) ** 2).sum().backward()
    (torch.cdist(ts, torch.tensor(y), p) ** 2).sum().backward()
    np.testing.assert_allclose(xs.grad, ts.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["max", "min"])
def test_scatter_by_extremes_with_ties(mode: str, case: int) -> None:
    draw = rng(case)
    x, updates = (draw.integers(0, 4, n).astype("float64") for n in (5, 30))
    indices = draw.integers(0, 5, 30)
    places = torch.tensor(indices)
    agree(
        lambda a, b: ft.scatter(a, indices, b, mode=mode),
        lambda a, b: torch.scatter_reduce(a, 0, places, b, f"a{mode}"),
        [x, updates],
    )


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_segments(name: str) -> None:
    draw = rng(3)
    x, ids = draw.standard_normal((30, 3)), draw.integers(0, 8, 30)
    places = torch.tensor(ids)[:, None].expand(30, 3)

    def theirs(v: Any) -> Any:
        empty = torch.zeros(8, 3, dtype=torch.float64)
        return empty.scatter_reduce(0, places, v, name, include_self=False)

    agree(lambda v: getattr(ft, f"segment_{name}")(v, ids, 8), theirs, [x])


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_solve_triangular(lower: bool, unit: bool) -> None:
    x = rng(4).standard_normal((2, 6, 6)) + 4.0 * np.eye(6)
    y = rng(5).standard_normal((2, 6, 3))
    agree(
        lambda a, b: ft.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit),
        [x, y],
    )


@pytest.mark.parametrize("ord", [None, "fro", "nuc", 1, -1, 2, float("inf")])
def test_matrix_norms(ord: Any) -> None:
    x = rng(6).standard_normal((3, 4))
    agree(lambda v: ft.linalg.norm(v, ord), lambda v: torch.linalg.norm(v, ord), [x])


@pytest.mark.defect("N20")
@pytest.mark.parametrize("name", ["rfft2", "fft2"])
def test_transforms_of_two_axes(name: str) -> None:
    x = rng(7).standard_normal((2, 4, 5))
    agree(
        lambda v: ft.absolute(getattr(ft.fft, name)(v)),
        lambda v: torch.abs(getattr(torch.fft, name)(v)),
        [x],
    )


def test_log_probabilities_of_classes() -> None:
    logits, values = rng(8).standard_normal((3, 5)), rng(9).integers(0, 5, (4, 3))
    agree(
        lambda v: ft.random.categorical_log_prob(v, values),
        lambda v: torch.distributions.Categorical(logits=v).log_prob(torch.tensor(values)),
        [logits],
    )
