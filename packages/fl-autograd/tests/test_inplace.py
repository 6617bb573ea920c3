"""``p -= x`` and its like on leaves that learn: updates under ``no_grad``, elsewhere errors."""

from __future__ import annotations

import operator
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

ARITHMETIC = {
    "+=": (operator.iadd, operator.add),
    "-=": (operator.isub, operator.sub),
    "*=": (operator.imul, operator.mul),
    "/=": (operator.itruediv, operator.truediv),
    "//=": (operator.ifloordiv, operator.floordiv),
    "%=": (operator.imod, operator.mod),
    "**=": (operator.ipow, operator.pow),
    "@=": (operator.imatmul, operator.matmul),
}
START = [[1.0, -2.0], [3.0, 4.5]]


def leaf(values: Any = START, dtype: Any = None) -> ag.Variable:
    return ag.Variable(ft.asarray(values, dtype), requires_grad=True)


@pytest.mark.defect("N2", "V5")
@pytest.mark.parametrize("name", ARITHMETIC)
def test_under_no_grad_an_inplace_operator_updates_the_leaf_itself(name: str) -> None:
    inplace, plain = ARITHMETIC[name]
    p, other = leaf(), ft.asarray([[2.0, 2.0], [3.0, 1.0]])
    with ag.no_grad():
        result = inplace(p, other)
    assert result is p
    assert p.is_leaf and p.requires_grad
    assert p.tolist() == plain(ft.asarray(START), other).tolist()


@pytest.mark.defect("N2", "V5")
def test_the_loop_of_every_tutorial_trains() -> None:
    w = leaf([5.0, -3.0])
    for _ in range(60):
        ((w - ft.asarray([1.0, 2.0])) ** 2).sum().backward()
        with ag.no_grad():
            w -= 0.1 * w.grad
        w.zero_grad()
    assert ft.max(ft.absolute(w.tensor - ft.asarray([1.0, 2.0]))).item() < 1e-4


@pytest.mark.defect("N2", "V5")
def test_all_names_of_a_leaf_see_the_update() -> None:
    parameters = [leaf(), leaf()]
    with ag.no_grad():
        for p in parameters:
            p *= 0.0
    assert [p.tolist() for p in parameters] == [[[0.0, 0.0], [0.0, 0.0]]] * 2


@pytest.mark.defect("N2", "V5")
@pytest.mark.parametrize("name", ARITHMETIC)
def test_where_operations_are_recorded_it_is_refused_naming_both_ways(name: str) -> None:
    p = leaf()
    with pytest.raises(ag.GradError, match=r"with ag\.no_grad\(\): p .*`p\.tensor = ") as caught:
        ARITHMETIC[name][0](p, ft.ones((2, 2)))
    assert name in str(caught.value)
    assert p.tolist() == START


def test_graphs_recorded_before_an_update_keep_the_old_value() -> None:
    p = leaf([3.0])
    y = (p * p).sum()
    with ag.no_grad():
        p += 100.0
    y.backward()
    assert p.grad is not None and p.grad.tolist() == [6.0]


def test_hooks_and_gradients_of_the_leaf_stay() -> None:
    p, seen = leaf([3.0]), []
    p.register_hook(lambda grad: seen.append(grad.item()))
    p.sum().backward()
    with ag.no_grad():
        p += 1.0
    assert p.grad is not None and p.grad.item() == 1.0
    (2.0 * p).sum().backward()
    assert p.grad.item() == 3.0 and seen == [1.0, 2.0]


@pytest.mark.defect("N2", "V5")
def test_a_result_of_another_shape_is_refused() -> None:
    p = leaf([1.0, 2.0])
    with ag.no_grad(), pytest.raises(ft.ShapeError, match=r"shape \(2,\).*\(3, 2\)"):
        p += ft.ones((3, 2))
    assert p.tolist() == [1.0, 2.0]


@needs("float64")
@pytest.mark.defect("N2", "V5")
def test_a_wider_result_is_cast_to_the_dtype_of_the_leaf() -> None:
    p = leaf([1.0, 2.0], ft.float32)
    with ag.no_grad():
        p += ft.asarray([0.5, 1e-12], ft.float64)
    assert p.dtype is ft.float32 and p.tolist() == [1.5, 2.0]


@needs("complex64")
@pytest.mark.defect("N2", "V5")
def test_complex_numbers_are_not_cast_to_a_floating_leaf() -> None:
    p = leaf([1.0, 2.0])
    with ag.no_grad(), pytest.raises(ft.DTypeError, match="float32.*complex64"):
        p *= ft.asarray([1j, 1j])
    assert p.tolist() == [1.0, 2.0]


def test_bitwise_operators_of_a_floating_leaf_say_what_they_want() -> None:
    p = leaf()
    with ag.no_grad(), pytest.raises(ft.DTypeError, match="integers or bools"):
        p |= 1


def test_the_result_of_an_operation_is_a_new_variable_and_stays_recorded() -> None:
    p = leaf([2.0])
    h = first = p * 3.0
    h += 1.0
    assert h is not first and first.tolist() == [6.0]
    h.sum().backward()
    assert p.grad is not None and p.grad.tolist() == [3.0]


def test_a_variable_that_requires_no_gradient_becomes_a_new_one() -> None:
    x = first = ag.Variable(ft.asarray([1.0]))
    x += leaf([2.0])
    assert x is not first and x.requires_grad and first.tolist() == [1.0]


def test_assigning_to_a_part_updates_the_leaf_too() -> None:
    p = leaf()
    with ag.no_grad():
        p[0] += 1.0
        p[1] = [0.0, 0.0]
    assert p.tolist() == [[2.0, -1.0], [0.0, 0.0]]
    with pytest.raises(ag.GradError, match="no_grad"):
        p[0] += 1.0
    with pytest.raises(ag.GradError, match="no_grad"):
        p[0] = 1.0
