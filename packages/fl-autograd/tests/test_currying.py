"""Transforms of the function alone: `ag.grad(f)(x)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

pytestmark = pytest.mark.defect("N33")


def array(values: Any) -> Any:
    return ft.asarray(values, dtype="float64")


def energy(x: Any, y: Any, scale: float = 1.0) -> Any:
    return (x * x * y).sum() * scale


X, Y = [1.0, -2.0], [3.0, 5.0]


def test_grad_of_a_function_is_a_function(close: Any) -> None:
    close(ag.grad(energy)(array(X), array(Y)), [6.0, -20.0])
    close(ag.grad(energy, argnums=1)(array(X), array(Y), scale=2.0), [2.0, 8.0])
    gx, gy = ag.grad(energy, argnums=(0, 1))(array(X), array(Y))
    close(gx, [6.0, -20.0])
    close(gy, [1.0, 4.0])
    assert not gx.requires_grad
    assert ag.grad(energy).__name__ == "energy"


def test_curried_gradients_nest(close: Any) -> None:
    def cube(x: Any) -> Any:
        return (x**3).sum()

    second = ag.grad(lambda x: ag.grad(cube)(x).sum())
    close(second(array([2.0, 3.0])), [12.0, 18.0])
    close(ag.jacobian(ag.grad(cube))(array([2.0, 3.0])), [[12.0, 0.0], [0.0, 18.0]])


@pytest.mark.parametrize("name", ["jacobian", "hessian"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
def test_matrices_agree_with_the_inputs_given_at_once(name: str, argnums: Any, close: Any) -> None:
    transform, arguments = getattr(ag, name), [array(X), array(Y)]
    function = energy if name == "hessian" else lambda x, y: x * x * y
    chosen = [argnums] if isinstance(argnums, int) else list(argnums)

    def of_chosen(*points: Any) -> Any:
        given = list(arguments)
        for i, x in zip(chosen, points):
            given[i] = x
        return function(*given)

    inputs = [arguments[i] for i in chosen]
    want = transform(of_chosen, inputs[0] if isinstance(argnums, int) else inputs)
    found = transform(function, argnums=argnums)(*arguments)
    assert type(found) is type(want)
    for one, other in zip(_flat(found), _flat(want), strict=True):
        close(one, other)


@pytest.mark.parametrize("argnums", [-1, np.int64(1), np.int64(-1), [-1], (np.int8(-1), 0)])
def test_numbers_of_arguments_count_from_the_end_and_may_be_numpys(argnums: Any) -> None:
    several = isinstance(argnums, (list, tuple))
    wanted = tuple(int(n) % 2 for n in argnums) if several else 1
    for transform in (ag.grad, ag.jacobian, ag.hessian):
        found = transform(energy, argnums=argnums)(array(X), array(Y))
        want = transform(energy, argnums=wanted)(array(X), array(Y))
        assert type(found) is type(want)
        for one, other in zip(_flat(found), _flat(want), strict=True):
            assert one.tolist() == other.tolist()


def _flat(found: Any) -> list[Any]:
    return [x for part in found for x in _flat(part)] if isinstance(found, tuple) else [found]


def test_a_list_of_numbers_is_one_argument(close: Any) -> None:
    close(ag.jacobian(lambda x: x * x)([1.0, 2.0]), [[2.0, 0.0], [0.0, 4.0]])
    close(ag.hessian(lambda x: (x * x).sum())([1.0, 2.0]), [[2.0, 0.0], [0.0, 2.0]])


def test_options_stay_with_the_function(close: Any) -> None:
    x = ag.Variable(array(X), requires_grad=True)
    slope = ag.grad(lambda v: (v**3).sum(), create_graph=True)(x)
    close(ag.grad(slope.sum(), x), [6.0, -12.0])
    forward = ag.jacobian(lambda v: v * v, strategy="forward-mode", create_graph=True)(x)
    close(ag.grad(forward.sum(), x), [2.0, 2.0])


def test_products_with_jacobians(close: Any) -> None:
    y, pullback = ag.vjp(lambda x, y: x * y)(array(X), array(Y))
    close(y, [3.0, -10.0])
    gx, gy = pullback(array([1.0, 10.0]))
    close(gx, [3.0, 50.0])
    close(gy, [1.0, -20.0])
    y, slope = ag.jvp(lambda x: x * x)([array(X)], [array([1.0, 10.0])])
    close(y, [1.0, 4.0])
    close(slope, [2.0, -40.0])


def test_arguments_in_the_wrong_place_are_refused() -> None:
    untyped: Any = ag
    x = ag.Variable(array(X), requires_grad=True)
    with pytest.raises(ag.GradError, match=r"grad\(f\)\(x\)"):
        untyped.grad(energy, x)
    with pytest.raises(ag.GradError, match=r"give the inputs, as in grad\(y, x\)"):
        untyped.grad((x * x).sum())
    with pytest.raises(ag.GradError, match="argnums is for a function"):
        untyped.grad((x * x).sum(), x, argnums=0)
    with pytest.raises(ag.GradError, match="all of them are differentiated"):
        untyped.jacobian(energy, [x, x], argnums=1)
    with pytest.raises(ag.GradError, match="argument 2 of 2 does not exist"):
        ag.hessian(energy, argnums=2)(x, x)
    with pytest.raises(ag.GradError, match="argument -3 of 2 does not exist"):
        ag.grad(energy, argnums=-3)(x, x)
    for transform in (untyped.jacobian, untyped.hessian, untyped.vjp, untyped.jvp):
        with pytest.raises(ft.DTypeError, match="expected a function"):
            transform(3)
