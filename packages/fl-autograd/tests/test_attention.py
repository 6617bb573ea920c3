"""The gradient of attention: with masks, biases, dropout and shared keys, and what is kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_memory
import fl_tensor as ft
from fl_tensor.testing import needs

DRAWS = ft.Generator(3)


def normal(*shape: int, dtype: ft.DType = ft.float64) -> ft.Tensor:
    return DRAWS.normal(shape, dtype=dtype)


def operands(n: int = 2, heads: int = 4, groups: int = 2, t: int = 2, s: int = 3) -> list[Any]:
    return [normal(n, heads, t, 2), normal(n, groups, s, 2), normal(n, groups, s, 3)]


MASKS = {
    "plain": {},
    "causal": {"causal": True},
    "some": {"allowed": ft.asarray([[True, False, True], [True, True, False]])},
    "a query without keys": {"allowed": ft.asarray([[True, True, False], [False] * 3])},
    "keys of one sequence": {
        "allowed": ft.asarray([True, True, False] + [True] * 3).reshape(2, 1, 1, 3)
    },
    "scale": {"scale": 0.3},
}


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_of_gradients(mask: str) -> None:
    def mixed(q: Any, k: Any, v: Any, bias: Any, keep: Any) -> Any:
        return ft.attention(q, k, v, bias, keep=keep, **MASKS[mask])

    more = [normal(4, 1, 3), normal(2, 1, 2, 3)]
    ag.check_grads(mixed, [*operands(), *more], order=2, rtol=1e-5)


def test_a_bias_of_minus_infinity_forbids_and_has_no_gradient(close: Any) -> None:
    values = operands()
    allowed = ft.asarray([[True, False, True], [False, False, False]])
    bias = ag.Variable(ft.where(allowed, 0.0, -math.inf).astype(ft.float64), requires_grad=True)
    leaves = [ag.Variable(v, requires_grad=True) for v in values]
    y = ft.attention(*leaves, bias)
    want = ft.attention(*leaves, allowed=allowed)
    close(y, want.numpy())
    g = normal(*y.shape)
    found, expected = ag.grad(y, [*leaves, bias], g), ag.grad(want, leaves, g)
    for a, b in zip(found, expected):
        close(a, b.numpy())
    assert (found[3].numpy()[~allowed.numpy()] == 0).all()
    assert (y.numpy()[:, :, 1] == 0).all()


def test_each_operand_may_be_the_only_one(close: Any) -> None:
    values = [*operands(), normal(1, 3), normal(2, 3)]

    def mixed(leaves: list[Any]) -> Any:
        return ft.attention(*leaves[:4], keep=leaves[4]).sum()

    leaves = [ag.Variable(v, requires_grad=True) for v in values]
    together = ag.grad(mixed(leaves), leaves)
    for i, want in enumerate(together):
        alone = [ag.Variable(v, requires_grad=i == j) for j, v in enumerate(values)]
        close(ag.grad(mixed(alone), alone[i]), want.numpy())


@needs("float16")
def test_half_precision_is_computed_in_float32() -> None:
    values = [v.astype(ft.float16) for v in operands(t=40, s=40)]
    gradients = []
    for dtype in (ft.float16, ft.float64):
        leaves = [ag.Variable(v.astype(dtype), requires_grad=True) for v in values]
        gradients.append(ag.grad(ft.attention(*leaves).sum(), leaves))
    for got, want in zip(*gradients):
        assert got.dtype is ft.float16
        error = np.abs(got.numpy().astype(float) - want.numpy()).max()
        assert error < 1.2e-3 * np.abs(want.numpy()).max()


def test_nothing_of_queries_times_keys_waits_for_the_backward_pass() -> None:
    length, manager = 256, fl_memory.current()
    shape = (2, 4, length, 8)
    leaves = [ag.Variable(normal(*shape, dtype=ft.float32), requires_grad=True) for _ in range(3)]
    ft.eval(*leaves)
    before = manager.stats().live_bytes
    y = ft.attention(*leaves, causal=True)
    ft.eval(y)
    assert manager.stats().live_bytes - before <= y.size * 4
    assert y.requires_grad


def test_operands_that_do_not_fit_are_named() -> None:
    q, k, v = operands()
    cases: list[tuple[Any, str]] = [
        ((q, k[..., :1], v), r"query \(2, 4, 2, 2\), key \(2, 2, 3, 1\).*size must agree"),
        ((q[:, :3], k, v), "and the heads of key divide those of query"),
        ((q, k, v[:, :, :2]), "as many keys as values"),
        ((q, k[:, :, :0], v[:, :, :0]), "there are no keys"),
        (
            (q, k, v, normal(5, 1, 1, 1)),
            r"bias \(5, 1, 1, 1\) does not broadcast to \(2, 4, 2, 3\)",
        ),
    ]
    for arguments, message in cases:
        with pytest.raises(ft.ShapeError, match=message):
            ft.attention(*arguments)
    with pytest.raises(ft.DTypeError, match="allowed is float64: expected bool"):
        ft.attention(q, k, v, allowed=normal(3))
