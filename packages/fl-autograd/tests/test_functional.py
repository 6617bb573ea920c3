"""grad, higher orders, value_and_grad, check_grads."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def test_grad_touches_no_leaf(leaf: Any, close: Any) -> None:
    x, w = leaf([1.0, 2.0]), leaf(3.0)
    g = ag.grad((x * x * w).sum(), x)
    close(g, [6.0, 12.0])
    assert x.grad is None
    assert w.grad is None
    assert not g.requires_grad


def test_grad_of_results_and_several_outputs(leaf: Any, close: Any) -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * y
    gy, gx = ag.grad([z, y], [y, x], [ft.ones(2, "float64"), ft.ones(2, "float64")])
    close(gy, [5.0, 9.0])
    close(gx, [10.0, 18.0])


def test_grad_stops_at_its_inputs(leaf: Any, close: Any) -> None:
    """Neither computes nor frees what lies behind them."""
    x = leaf([[1.0, 2.0]])
    y = ft.sum(x, 0)
    close(ag.grad((y * y).sum(), y), [2.0, 4.0])
    y.sum().backward()
    close(x.grad, [[1.0, 1.0]])


def test_unused_inputs(leaf: Any) -> None:
    x, w = leaf([1.0]), leaf([1.0])
    with pytest.raises(ag.GradError, match="do not depend on input 1"):
        ag.grad((x * 2).sum(), [x, w])
    gx, gw = ag.grad((x * 2).sum(), [x, w], allow_unused=True)
    assert gw is None
    assert gx.tolist() == [2.0]
    with pytest.raises(ag.GradError, match="input 0 of shape .* requires no gradient"):
        ag.grad((x * 2).sum(), ag.Variable([1.0]))


def test_orders_of_a_polynomial(leaf: Any, close: Any) -> None:
    x = leaf([2.0])
    y = x**5
    for want in (80.0, 160.0, 240.0, 240.0, 120.0):
        y = ag.grad(y.sum(), x, create_graph=True)
        close(y, [want])


def test_backward_with_create_graph_leaves_differentiable_gradients(leaf: Any, close: Any) -> None:
    x = leaf([3.0])
    (x * x * x).sum().backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.zero_grad()
    g.sum().backward()
    close(x.grad, [18.0])


def test_hessian_vector_product_of_a_network(normal: Any, close: Any) -> None:
    x, w, b, v = normal(5, 3), normal(4, 3), normal(4), normal(4, 3)

    def loss(weights: Any) -> Any:
        return ft.cross_entropy(
            ft.linear(ft.tanh(x.detach()), weights, b), ft.asarray([0, 3, 1, 2, 0])
        ).mean()

    g = ag.grad(loss(w), w, create_graph=True)
    exact = ag.grad((g * v.detach()).sum(), w)
    eps = 1e-6
    up = ag.grad(loss(ag.Variable(w.tensor + eps * v.tensor, True)), b)
    assert up.shape == b.shape
    shifted = [ag.Variable(w.tensor + s * eps * v.tensor, True) for s in (1, -1)]
    gp, gm = (ag.grad(loss(s), s) for s in shifted)
    close(exact, ((gp - gm) / (2 * eps)).numpy(), rtol=1e-5, atol=1e-8)


def test_value_and_grad(close: Any) -> None:
    def f(x: Any, y: Any, scale: float = 1.0) -> Any:
        return (x * y * scale).sum()

    value, g = ag.value_and_grad(f)(ft.asarray([1.0, 2.0]), ft.asarray([3.0, 4.0]), scale=2.0)
    close(value, 22.0)
    close(g, [6.0, 8.0])
    value, (gx, gy) = ag.value_and_grad(f, (0, 1))([1.0, 2.0], [3.0, 4.0])
    close(gx, [3.0, 4.0])
    close(gy, [1.0, 2.0])
    assert not value.requires_grad
    with pytest.raises(ag.GradError, match="argument 2 of 2"):
        ag.value_and_grad(f, 2)([1.0], [1.0])
    with ag.no_grad():
        assert ag.value_and_grad(f)([1.0], [1.0])[1].tolist() == [1.0]


def test_check_grads_accepts_right_and_refuses_wrong_gradients(normal: Any) -> None:
    x, y = normal(2, 3), normal(3)
    ag.check_grads(lambda a, b: (ft.tanh(a * b), a + b), [x, y], order=2)

    def detached(a: Any) -> Any:
        return a * a.detach()

    with pytest.raises(ag.GradCheckError, match=r"input 0 of shape \(2, 3\).*worst at element"):
        ag.check_grads(detached, [x])
    with pytest.raises(AssertionError):
        ag.check_grads(lambda a: ft.exp(a).detach(), [x])


def test_check_grads_finds_errors_of_second_order(normal: Any) -> None:
    from fl_autograd import extend

    def forward(ops: Any, x: Any) -> Any:
        return ops.multiply(x, ops.square(x))

    def detached(ops: Any, g: Any, x: Any) -> Any:  # first order right, history cut
        fixed = x.detach() if isinstance(x, ag.Variable) else x
        return ops.multiply(g, ops.multiply(ops.constant(3.0, x), ops.square(fixed)))

    cube = extend.defop("cube", forward, x=detached)
    x = normal(3)
    ag.check_grads(cube, [x])
    with pytest.raises(ag.GradCheckError, match="order 2"):
        ag.check_grads(cube, [x], order=2)


def test_check_grads_in_float32_and_with_integers() -> None:
    x = ft.asarray([[0.5, 1.5, -0.7], [1.0, 0.3, 0.2]])
    index = ft.asarray([1, 1, 0])
    ag.check_grads(lambda a, i: ft.exp(ft.gather(a, i, 1)), [x, index])
