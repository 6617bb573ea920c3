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


WRONG = {
    "a number": lambda g: 3.0,
    "another shape": lambda g: g.sum(),
    "another dtype": lambda g: g.astype("float32"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_hooks_of_variables_that_return_something_else_are_reported(leaf: Any, wrong: str) -> None:
    y = ft.exp(leaf([1.0, 2.0]))
    y.register_hook(WRONG[wrong])
    expected = r"\[exp\] a gradient hook returned .*: expected None or a Variable float64\(2,\)"
    with pytest.raises(ag.GradError, match=expected):
        y.sum().backward()


@pytest.mark.parametrize("wrong", [*WRONG, "no tuple", "too few"])
def test_hooks_of_nodes_that_return_something_else_are_reported(leaf: Any, wrong: str) -> None:
    y = ft.exp(leaf([1.0, 2.0]))
    replaced = {"no tuple": lambda g: g, "too few": lambda g: ()}
    replaced |= {name: lambda g, change=change: (change(g),) for name, change in WRONG.items()}
    y.grad_fn.register_hook(lambda operands, g: replaced[wrong](g))
    expected = r"\[exp\] a hook returned .*: expected None or a tuple \(a Variable float64\(2,\)\)"
    with pytest.raises(ag.GradError, match=expected):
        y.sum().backward()


def test_what_requires_no_gradient_has_no_hooks() -> None:
    with pytest.raises(ag.GradError, match="requires no gradient"):
        ag.Variable([1.0]).register_hook(lambda g: None)
