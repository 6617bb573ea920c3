"""Hooks on nodes, and what they may change."""

from __future__ import annotations

from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def test_grad_fn_is_the_node_of_a_result(leaf: Any) -> None:
    x = leaf([1.0, 2.0])
    assert x.grad_fn is None
    y = ft.exp(x)
    assert y.grad_fn is not None
    assert y.grad_fn.name == "exp"
    assert repr(y.grad_fn) == "<Node exp (2,)>"
    assert ag.Variable([1.0]).grad_fn is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_node_hooks_see_the_gradients_of_operands_and_result(
    leaf: Any, close: Any, create_graph: bool
) -> None:
    x, w = leaf([[1.0, 2.0]]), leaf([3.0])
    y = x * w
    seen: list[Any] = []
    remove = y.grad_fn.register_hook(lambda operands, g: seen.append((operands, g)))
    (y * y).sum().backward(retain_graph=True, create_graph=create_graph)
    ((gx, gw), g) = seen.pop()
    close(g, [[6.0, 12.0]])
    close(gx, [[18.0, 36.0]])
    close(gw, [30.0])  # summed to the operand's shape
    assert gx.requires_grad is create_graph
    remove()
    (y * y).sum().backward(retain_graph=True)
    assert not seen


def test_node_hooks_see_none_where_no_gradient_is_needed(leaf: Any) -> None:
    x = leaf([1.0])
    y = x * ag.Variable(ft.asarray([2.0], dtype="float64"))
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda operands, g: seen.extend(operands))
    y.backward()
    assert seen[1] is None


def test_hooks_replace_gradients(leaf: Any, close: Any) -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * w
    y.grad_fn.register_prehook(lambda g: g * 10.0)
    y.grad_fn.register_hook(lambda operands, g: (operands[0] * 2.0, operands[1]))
    y.sum().backward()
    close(x.grad, [60.0, 80.0])
    close(w.grad, [10.0, 20.0])


@pytest.mark.parametrize("bad", [3.0, (None,), "sum"])
def test_hooks_that_return_something_else_are_reported(leaf: Any, bad: Any) -> None:
    x = leaf([1.0, 2.0])
    y = ft.exp(x)
    y.grad_fn.register_hook(lambda operands, g: (g.sum(),) if bad == "sum" else bad)
    with pytest.raises(ag.GradError, match=r"\[exp\] a hook returned .*shapes \(2,\)"):
        y.sum().backward()
