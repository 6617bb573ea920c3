"""Nodes for values that are computed outside of the tape."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend


def _shares(ops: Any, g: Any, shares: Any) -> list[Any]:
    return [ops.multiply(g, ops.constant(share, g)) for share in shares]


log_sum = extend.defnode("log_sum", _shares)


def log_sum_of(*numbers: Any) -> Any:
    """log(sum(exp(x))) of scalars, by Python."""
    total = sum(math.exp(x.item()) for x in numbers)
    return log_sum(math.log(total), numbers, [math.exp(x.item()) / total for x in numbers])


def test_any_number_of_operands_has_one_node(leaf: Any, close: Any) -> None:
    for count in (1, 2, 5):
        xs = [leaf(0.3 * i) for i in range(count)]
        y = log_sum_of(*xs)
        assert y.grad_fn.name == "log_sum" and y.grad_fn.ins == tuple(x._node for x in xs)
        assert y.shape == () and y.dtype is ft.float64
        ag.check_grads(log_sum_of, xs)


def test_nodes_meet_those_of_the_tape(leaf: Any, close: Any) -> None:
    x = leaf([0.5, -1.0])
    y = log_sum_of(x[0] * 2.0, x[1], x[0]) * 3.0
    y.backward()
    a, b, c = math.exp(1.0), math.exp(-1.0), math.exp(0.5)
    close(x.grad, [3 * (2 * a + c) / (a + b + c), 3 * b / (a + b + c)])


def test_values_may_be_arrays(leaf: Any, close: Any) -> None:
    double = extend.defnode("double", lambda ops, g: [ops.add(g, g)])
    x = leaf([1.0, 2.0])
    y = double(x.detach().tensor * 2.0, [x])
    close(y, [2.0, 4.0])
    close(ag.grad(y.sum(), x), [2.0, 2.0])


def test_gradients_may_be_tensors(leaf: Any, close: Any) -> None:
    def gradients(ops: Any, g: Any, factors: ft.Tensor) -> list[ft.Array]:
        return [ft.Tensor(g, factors.backend) * factors]

    scaled = extend.defnode("scaled", gradients)
    x = leaf([1.0, 2.0])
    factors = x.detach().tensor + 2.0
    y = scaled(x.detach().tensor * factors, [x], factors)
    close(ag.grad(y.sum(), x), [3.0, 4.0])


def test_saved_values_have_names_and_operands_may_be_pruned(leaf: Any, close: Any) -> None:
    x, y = leaf(1.0), leaf(2.0)
    z = log_sum_of(x, y)
    assert z.grad_fn.saved_value("shares")[0] == pytest.approx(1 / (1 + math.e))
    assert extend.prune(z.grad_fn, 0) is z.grad_fn
    z.backward()
    assert x.grad is None and 0.7 < y.grad.item() < 0.75


def test_operands_without_a_gradient(leaf: Any) -> None:
    x, constant = leaf(1.0), ft.asarray(2.0, dtype=ft.float64)
    y = log_sum_of(constant, x)
    assert y.grad_fn.ins == (None, x._node)
    assert log_sum_of(constant, ag.Variable(constant)).grad_fn is None
    with ag.no_grad():
        assert log_sum_of(x).grad_fn is None


def test_recorders_see_the_nodes(leaf: Any) -> None:
    class Drop(extend.Recorder):
        def recorded(self, node: Any, result: Any) -> Any:
            return None if node.name == "log_sum" else node

    x = leaf(1.0)
    with Drop():
        assert not log_sum_of(x, x * 2.0).requires_grad


def test_nodes_are_freed_with_the_last_result(leaf: Any) -> None:
    class Value:
        pass

    keep = extend.defnode("keep", lambda ops, g, held: [g])
    x = leaf(1.0)
    held = Value()
    gone = weakref.ref(held)
    y = keep(1.0, [x], held)
    del held
    gc.disable()
    try:
        y.backward()
        assert gone() is None, "a backward pass frees what nodes save"
        held = Value()
        gone = weakref.ref(held)
        y = keep(1.0, [x], held)
        del held, y
        assert gone() is None
    finally:
        gc.enable()


def test_there_is_no_second_derivative(leaf: Any) -> None:
    x = leaf(1.0)
    with pytest.raises(ag.GradError, match=r"\[log_sum\] has no second derivative.*defop"):
        ag.grad(log_sum_of(x, x), x, create_graph=True)


def test_mistakes_are_reported(leaf: Any) -> None:
    x = leaf(1.0)
    with pytest.raises(ag.GradError, match=r"\[defnode\] name 3: expected a string"):
        extend.defnode(3, _shares)
    for bad in (None, 3, lambda: None, lambda ops, g, *, factor: [g], lambda ops, *rest: [], max):
        with pytest.raises(ag.GradError, match=r"\[bad\] gradients: expected a function"):
            extend.defnode("bad", bad)
    with pytest.raises(ag.GradError, match=r"\[log_sum\] saves shares: got 0"):
        log_sum(1.0, [x])
    for operands in ([], None, [2.0], [x, 2.0]):
        with pytest.raises(ft.DTypeError, match=r"\[log_sum\]"):
            log_sum(1.0, operands, [0.5])
    with pytest.raises(ft.DTypeError, match=r"\[log_sum\]"):
        log_sum("one", [x], [1.0])
    with pytest.raises(ag.GradError, match=r"\[log_sum\] 1 gradients for 2 operands"):
        log_sum(1.0, [x, x], [1.0]).backward()
    for result in (lambda ops, g: g, lambda ops, g: None):
        with pytest.raises(ag.GradError, match=r"\[single\] its gradients are a .*list of one per"):
            extend.defnode("single", result)(1.0, [x]).backward()
    for name in {"numpy", "jit"} & set(ft.available_backends()) - {x.backend.name}:
        with pytest.raises(ag.GradError, match=r"\[log_sum\] an operand on backend"):
            log_sum(1.0, [x, x.detach().to(name)], [0.5, 0.5])
    wrong = extend.defnode("wrong", lambda ops, g: [2.0])
    with pytest.raises(ft.BackendError, match="wrong"):
        wrong(1.0, [x]).backward()


def test_an_error_in_the_gradients_leaves_the_leaves_as_they_were(leaf: Any, close: Any) -> None:
    def fails(ops: Any, g: Any) -> Any:
        raise ZeroDivisionError("in the gradient")

    x, y = leaf(1.0), leaf(2.0)
    z = extend.defnode("fails", fails)(1.0, [x]) + y
    with pytest.raises(ZeroDivisionError, match="in the gradient"):
        z.backward()
    assert x.grad is None
    y.zero_grad()
    (y * x).backward()
    close(x.grad, 2.0)
    close(y.grad, 1.0)
