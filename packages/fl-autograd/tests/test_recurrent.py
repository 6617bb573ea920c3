"""Backpropagation through time: in both directions, with lengths, and of higher order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.testing import needs

GATES = {"tanh": (1, 1), "relu": (1, 1), "lstm": (4, 2), "gru": (3, 1)}


def operands(cell: str, steps: int = 3, batch: int = 2, hidden: int = 2) -> list[ft.Tensor]:
    gates, kept = GATES[cell]
    shapes = [(steps, batch, gates * hidden), (kept, batch, hidden)]
    shapes += [(gates * hidden, hidden), (gates * hidden,)]
    draws = ft.Generator(7)
    return [draws.normal(shape, dtype=ft.float64) for shape in shapes]


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("lengths", [None, (1, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_gradients(cell: str, lengths: Any, reverse: bool) -> None:
    def states(*values: Any) -> Any:
        return ft.recurrent(*values, cell, lengths, reverse)

    ag.check_grads(states, operands(cell), order=2, rtol=1e-5)


@pytest.mark.parametrize("cell", GATES)
def test_each_operand_may_be_the_only_one(cell: str, close: Any) -> None:
    values = operands(cell)
    leaves = [ag.Variable(v, requires_grad=True) for v in values]
    together = ag.grad(ft.recurrent(*leaves, cell).sum(), leaves)
    for i, want in enumerate(together):
        alone = [ag.Variable(v, requires_grad=i == j) for j, v in enumerate(values)]
        close(ag.grad(ft.recurrent(*alone, cell).sum(), alone[i]), want.numpy())


@needs("float16")
@pytest.mark.parametrize("cell", GATES)
def test_half_precision_is_rounded_once(cell: str) -> None:
    values = [(0.5 * v).astype(ft.float16) for v in operands(cell, steps=60, hidden=8)]
    gradients = []
    for dtype in (ft.float16, ft.float64):
        leaves = [ag.Variable(v.astype(dtype), requires_grad=True) for v in values]
        gradients.append(ag.grad(ft.recurrent(*leaves, cell).sum(), leaves))
    for got, want in zip(*gradients):
        assert got.dtype is ft.float16
        error = np.abs(got.numpy().astype(float) - want.numpy()).max()
        assert error < 7e-4 * np.abs(want.numpy()).max()  # an eps of float16 is 9.8e-4


def test_the_weights_are_multiplied_once_per_step_and_once_for_all() -> None:
    leaves = [ag.Variable(v, requires_grad=True) for v in operands("lstm", steps=10)]
    loss = ft.recurrent(*leaves, "lstm").sum()
    with ft.count() as backward:
        loss.backward()
    assert backward["matmul"] == 10 + 2  # all gates again, and the gradient of the weights


def test_an_override_reaches_every_step_of_both_passes() -> None:
    calls = []

    def tanh(inner: Any, x: Any) -> Any:
        calls.append(x.shape)
        return inner.tanh(x)

    x = [ag.Variable(v, requires_grad=True) for v in operands("gru", steps=4)]
    with ft.override(tanh=tanh):
        ft.recurrent(*x, "gru").sum().backward()
    assert len(calls) == 4 * 2 + 2


def test_operands_that_do_not_fit_are_named() -> None:
    x, state, weight, bias = operands("gru")
    with pytest.raises(ft.ShapeError, match=r"\[recurrent\] x \(3, 2, 6\).*lstm expects"):
        ft.recurrent(x, state, weight, bias, "lstm")
    with pytest.raises(ft.ArgumentError, match="cell 'lstn': expected one of tanh, relu, lstm"):
        ft.recurrent(x, state, weight, bias, "lstn")
    with pytest.raises(ft.ShapeError, match=r"lengths \(1, 4\): expected 2 numbers from 0 to 3"):
        ft.recurrent(x, state, weight, bias, "gru", [1, 4])
    with pytest.raises(ft.ShapeError, match="there are no steps"):
        ft.recurrent(x[:0], state, weight, bias, "gru")
