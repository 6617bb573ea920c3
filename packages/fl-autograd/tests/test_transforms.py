"""vjp, jvp, jacobian, hessian."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def array(values: Any) -> Any:
    return ft.asarray(values, dtype="float64")


def test_vjp_gives_outputs_and_a_pullback_that_can_be_called_again(close: Any) -> None:
    x, w = array([1.0, 2.0]), array([[3.0, 0.0], [1.0, 1.0]])
    y, pullback = ag.vjp(lambda x, w: w @ x, x, w)
    close(y, [3.0, 3.0])
    assert not y.requires_grad
    for scale in (1.0, 2.0):
        gx, gw = pullback(array([scale, 10.0 * scale]))
        close(gx, [13.0 * scale, 10.0 * scale])
        close(gw, [[scale, 2 * scale], [10 * scale, 20 * scale]])


def test_vjp_of_several_outputs_and_unused_inputs(close: Any) -> None:
    (a, b), pullback = ag.vjp(
        lambda x, y: (x * 2.0, ft.ones(2, "float64") + x.detach()),
        *[array([1.0, 2.0]), array([5.0])],
    )
    close(b, [2.0, 3.0])
    gx, gy = pullback(array([1.0, 3.0]), array([7.0, 7.0]))
    close(gx, [2.0, 6.0])
    close(gy, [0.0])
    with pytest.raises(ag.GradError, match="2 outputs but 1 gradients"):
        pullback(a)


def test_vjp_touches_no_leaf_and_records_on_demand(leaf: Any, close: Any) -> None:
    x = leaf([2.0])
    _, pullback = ag.vjp(lambda v: v**3, x)
    slope = pullback(array([1.0]))
    assert x.grad is None
    assert not slope.requires_grad
    _, pullback = ag.vjp(lambda v: v**3, x, create_graph=True)
    close(ag.grad(pullback(array([1.0])), x), [12.0])  # second order, with respect to the argument


def test_jvp_is_the_slope_along_a_direction(normal: Any, close: Any) -> None:
    w, t = normal(3, 4).tensor, normal(4).tensor
    x = normal(4).tensor

    def f(v: Any) -> Any:
        return ft.tanh(w @ v), v.sum()

    (y, total), (dy, dtotal) = ag.jvp(f, (x,), (t,))
    step = 1e-6
    for got, value, slope in zip((y, total), f(x), (dy, dtotal)):
        close(got, value)
        i = 0 if value.shape else 1
        close(slope, (f(x + step * t)[i] - f(x - step * t)[i]) / (2 * step), rtol=1e-6, atol=1e-8)


def test_jvp_of_a_function_that_does_not_depend_on_its_input(close: Any) -> None:
    y, slope = ag.jvp(lambda v: ag.Variable(array([1.0, 2.0])), (array([1.0]),), (array([1.0]),))
    close(y, [1.0, 2.0])
    close(slope, [0.0, 0.0])


def test_jvp_can_be_differentiated(leaf: Any, close: Any) -> None:
    x = leaf([2.0])
    _, slope = ag.jvp(lambda v: v**3, (x,), (array([1.0]),), create_graph=True)
    close(slope, [12.0])
    close(ag.grad(slope, x), [12.0])


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_jacobians_have_the_shapes_of_outputs_and_inputs(
    normal: Any, close: Any, strategy: Any
) -> None:
    a, b = normal(2, 3).tensor, normal(3).tensor
    close(ag.jacobian(lambda v: a @ v, b, strategy=strategy), a)
    (by_a, by_b), (sum_a, sum_b) = ag.jacobian(
        lambda m, v: (m @ v, (v * v).sum()), (a, b), strategy=strategy
    )
    assert (by_a.shape, by_b.shape) == ((2, 2, 3), (2, 3))
    close(by_b, a)
    close(by_a[0, 0], b)
    close(by_a[0, 1], [0, 0, 0])
    assert (sum_a.shape, sum_b.shape) == ((2, 3), (3,))
    close(sum_b, 2 * b)
    assert ag.jacobian(lambda v: v[:0], b, strategy=strategy).shape == (0, 3)


def test_hessians(normal: Any, close: Any) -> None:
    x = array([1.0, 2.0])
    close(ag.hessian(lambda v: (v**3).sum(), x), [[6.0, 0.0], [0.0, 12.0]])
    m = normal(2, 3).tensor
    (xx, xy), (yx, yy) = ag.hessian(lambda x, y: x @ (m @ y), (x, normal(3)))
    close(xy, m)
    close(yx, m.T)
    assert not ft.any(xx)
    assert yy.shape == (3, 3)
    with pytest.raises(ag.GradError, match=r"shape \(2,\): expected one"):
        ag.hessian(lambda v: v * v, x)


def test_higher_orders_compose(leaf: Any, close: Any) -> None:
    x = leaf([2.0])
    second = ag.hessian(lambda v: (v**4).sum(), x, create_graph=True)
    close(second, [[48.0]])
    close(ag.grad(second.sum(), x), [48.0])
    third = ag.jacobian(lambda v: ag.hessian(lambda u: (u**4).sum(), v, create_graph=True), x)
    close(third, [[[48.0]]])


def test_mistakes_are_reported() -> None:
    x = array([1.0])
    with pytest.raises(ag.GradError, match="input 0 is int64"):
        ag.vjp(lambda v: v, ft.asarray([1]))
    with pytest.raises(ag.GradError, match="returned a Tensor"):
        ag.vjp(lambda v: v.tensor, x)
    with pytest.raises(ag.GradError, match="1 primals but 2 tangents"):
        ag.jvp(lambda v: v, (x,), (x, x))
    with pytest.raises(ag.GradError, match=r"shape \(2,\), float64 for an array of shape \(1,\)"):
        ag.jvp(lambda v: v, (x,), (array([1.0, 1.0]),))
    with pytest.raises(ag.GradError, match="strategy 'sideways'"):
        ag.jacobian(lambda v: v, x, strategy="sideways")  # type: ignore[arg-type]
