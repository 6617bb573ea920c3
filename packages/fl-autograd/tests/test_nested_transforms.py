"""Derivatives of derivatives: every transform within every other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft

Function = Callable[[Any], Any]

POINT = [0.5, -1.0, 2.0]
UNITS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
#: Second derivatives of ``cubic`` at POINT, by hand.
TWICE = [[9.0 + 6.0 * x if i == j else 9.0 for j in range(3)] for i, x in enumerate(POINT)]


def array(values: Any) -> Any:
    return ft.asarray(values, dtype="float64")


def cubic(x: Any) -> Any:
    """``sum(x)^3 + sum(x^3)``: second derivatives 6 sum(x), and 6 x more on the diagonal."""
    return x.sum() ** 3 + (x**3).sum()


def _by_rows(function: Function, x: Any, row: Callable[[Function, Any, int], Any]) -> Any:
    return ft.stack([row(function, x, i) for i in range(3)])


#: A function of one element into its gradient, by each transform.
GRADIENT: dict[str, Callable[[Function], Function]] = {
    "grad": lambda f: lambda x: ag.grad(f(x), x),
    "value_and_grad": lambda f: lambda x: ag.value_and_grad(f)(x)[1],
    "vjp": lambda f: lambda x: ag.vjp(f, x)[1](array(1.0)),
    "jvp": lambda f: lambda x: ft.stack([ag.jvp(f, [x], [array(u)])[1] for u in UNITS]),
    "jacobian": lambda f: lambda x: ag.jacobian(f, x),
    "forward-mode": lambda f: lambda x: ag.jacobian(f, x, strategy="forward-mode"),
}

#: The Jacobian of a function of three elements, by each transform.
JACOBIAN: dict[str, Callable[[Function, Any], Any]] = {
    "value_and_grad": lambda g, x: _by_rows(
        g, x, lambda g, x, i: ag.value_and_grad(lambda x: g(x)[i])(x)[1]
    ),
    "vjp": lambda g, x: _by_rows(g, x, lambda g, x, i: ag.vjp(g, x)[1](array(UNITS[i]))),
    "jvp": lambda g, x: _by_rows(g, x, lambda g, x, i: ag.jvp(g, [x], [array(UNITS[i])])[1]).T,
    "jacobian": ag.jacobian,
    "forward-mode": lambda g, x: ag.jacobian(g, x, strategy="forward-mode"),
}


@pytest.mark.defect("N6")
@pytest.mark.parametrize("inner", GRADIENT)
@pytest.mark.parametrize("outer", JACOBIAN)
def test_second_derivatives_by_two_transforms(close: Any, outer: str, inner: str) -> None:
    found = JACOBIAN[outer](GRADIENT[inner](cubic), array(POINT))
    close(found, TWICE)
    assert not found.requires_grad


@pytest.mark.defect("N6")
@pytest.mark.parametrize("inner", GRADIENT)
def test_third_derivatives_through_a_hessian(close: Any, inner: str) -> None:
    slope = GRADIENT[inner](cubic)
    # Of the sum of the gradient: 18 everywhere, and 6 more on the diagonal.
    want = [[24.0 if i == j else 18.0 for j in range(3)] for i in range(3)]
    close(ag.hessian(lambda x: slope(x).sum(), array(POINT)), want)
    close(ag.jacobian(lambda x: ag.hessian(cubic, x).sum(axis=0), array(POINT)), want)


@pytest.mark.defect("N6")
def test_values_of_an_inner_transform_keep_their_history(close: Any) -> None:
    x = array(POINT)
    want = ag.jacobian(cubic, x)
    close(ag.jacobian(lambda x: ag.value_and_grad(cubic)(x)[0], x), want)
    close(ag.jacobian(lambda x: ag.vjp(cubic, x)[0], x), want)
    close(ag.jacobian(lambda x: ag.jvp(cubic, [x], [array(UNITS[0])])[0], x), want)


@pytest.mark.defect("N6")
def test_what_an_inner_function_takes_from_around_it_is_differentiated(close: Any) -> None:
    def mixed(x: Any) -> Any:
        return ag.value_and_grad(lambda w: (w**2 * x).sum())(array([1.0, 2.0, 3.0]))[1]

    close(ag.jacobian(mixed, array(POINT)), [[2.0, 0, 0], [0, 4.0, 0], [0, 0, 6.0]])


@pytest.mark.defect("N6")
def test_a_pullback_is_linear_wherever_it_was_made(close: Any) -> None:
    x = array(POINT)
    _, pullback = ag.vjp(lambda x: x**2, x)
    close(ag.jacobian(pullback, array([1.0, 1.0, 1.0])), ag.jacobian(lambda x: x**2, x).T)


@pytest.mark.defect("N6")
def test_inner_transforms_are_measured_by_check_grads() -> None:
    ag.check_grads(lambda x: ag.value_and_grad(cubic)(x)[1], [array(POINT)], order=2)


@pytest.mark.defect("N6")
def test_inner_transforms_under_checkpoint(close: Any) -> None:
    slope = GRADIENT["value_and_grad"](cubic)
    close(ag.jacobian(lambda x: ag.checkpoint(slope, x), array(POINT)), TWICE)


def test_a_linear_function_has_a_gradient_that_depends_on_nothing(close: Any) -> None:
    for gradient in GRADIENT.values():
        close(ag.jacobian(gradient(lambda x: 2.0 * x.sum()), array(POINT)), ft.zeros((3, 3)))


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: ag.value_and_grad(cubic)(x)[1].detach(),
        lambda x: ag.value_and_grad(cubic, create_graph=False)(x)[1],
        lambda x: ag.grad(cubic(x), x, create_graph=False),
        ag.no_grad()(lambda x: ag.value_and_grad(cubic)(x)[1]),
        lambda x: ag.Variable(ft.ones(3, "float64")),
    ],
    ids=["detach", "create_graph=False", "grad", "no_grad", "a constant"],
)
def test_what_is_cut_off_on_purpose_is_a_constant(close: Any, cut: Function) -> None:
    close(ag.jacobian(cut, array(POINT)), ft.zeros((3, 3)))


@pytest.mark.defect("N6")
def test_gradients_that_backward_leaves_behind_are_refused() -> None:
    def slope(x: Any) -> Any:
        cubic(x).backward()
        return x.grad

    for transform in (ag.jacobian, lambda f, x: ag.vjp(f, x), lambda f, x: ag.jvp(f, [x], [x])):
        with pytest.raises(ag.GradError, match=r"called backward\(\).*fl_autograd.grad"):
            transform(slope, array(POINT))


def test_outside_of_transforms_nothing_is_recorded() -> None:
    x = ag.Variable(array(POINT), requires_grad=True)
    assert not ag.grad(cubic(x), x).requires_grad
    value, slope = ag.value_and_grad(cubic)(x)
    assert not value.requires_grad and not slope.requires_grad
    assert not ag.jacobian(cubic, x).requires_grad
    assert ag.value_and_grad(cubic, create_graph=True)(x)[1].requires_grad
