"""The gradient suite fails when a rule is wrong, and when nothing would check an operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

import fl_tensor as ft
from fl_autograd import extend
from fl_autograd.rules import RULES
from fl_autograd.slice_gradients import SliceGradients
from fl_autograd.testing import GradientSuite
from fl_autograd.testing.suite import complex_ids, gradient_ids
from fl_tensor.testing import CASES
from fl_tensor.testing.harness import Harness

OPERANDS = [(name, operand) for name, rule in sorted(RULES.items()) for operand in rule.operands]


class _Suite(GradientSuite):
    backend = ft.current_backend()


@pytest.fixture(scope="module")
def harness() -> Harness:
    return Harness(ft.current_backend())


@pytest.fixture(scope="module")
def checks() -> list[tuple[str, Callable[[Harness, str], None]]]:
    """The suite's cases, of real and of complex numbers, and the test of each."""
    backend, suite = ft.current_backend(), _Suite()
    real = [(name, suite.test_gradient) for name in gradient_ids(backend)]
    return [*real, *((name, suite.test_complex_gradient) for name in complex_ids(backend))]


def slightly_wrong(vjp: Callable[..., Any], position: int | None = None) -> Callable[..., Any]:
    """The same function with its result (the one at ``position``) 0.1 % too large."""

    def spoil(ops: Any, g: Any) -> Any:
        g = g.to_dense(ops) if isinstance(g, SliceGradients) else g
        return None if g is None else ops.multiply(g, ops.constant(1.001, g))

    @wraps(vjp)
    def wrong(ops: Any, *arguments: Any) -> Any:
        result = vjp(ops, *arguments)
        if position is None:
            return spoil(ops, result)
        return tuple(spoil(ops, r) if i == position else r for i, r in enumerate(result))

    return wrong


@pytest.mark.parametrize(("name", "operand"), OPERANDS)
def test_a_slightly_wrong_rule_is_caught(
    harness: Harness, checks: list[Any], name: str, operand: str
) -> None:
    mine = [(case, test) for case, test in checks if case.split("-", 1)[0] == name]
    if not mine and "f" not in CASES[name].kinds:
        pytest.skip("the backend has no complex numbers")
    rule = RULES[name]
    if rule.joint is not None:
        position = rule.operands.index(operand)
        faulty: dict[str, Any] = {
            "joint": slightly_wrong(rule.joint, position),
            "operands": rule.operands,
        }
    else:
        faulty = {**rule.vjps, operand: slightly_wrong(rule.vjps[operand])}
    caught = 0
    with extend.replace_rule(name, **faulty):
        for gradient, test in mine:
            try:
                test(harness, gradient)
            except AssertionError as error:
                assert "slope" in str(error)
                caught += 1
    assert caught


def test_an_operation_without_gradient_samples_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    _Suite().test_every_operation_has_a_gradient_case()
    monkeypatch.setitem(CASES, "exp", dataclasses.replace(CASES["exp"], grad=()))
    with pytest.raises(AssertionError, match="no gradient samples in the operation table: exp"):
        _Suite().test_every_operation_has_a_gradient_case()
