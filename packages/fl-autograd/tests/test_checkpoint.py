"""checkpoint: the same gradients from less memory."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import fl_autograd as ag
import fl_memory as mem
import fl_tensor as ft

POLICIES = [(), ("matmul",), ("linear", "tanh"), ("uniform", "softmax")]


def network(depth: int, width: int) -> list[Any]:
    g = ft.Generator(1)
    return [
        ag.Variable(g.normal((width, width), std=width**-0.5), requires_grad=True)
        for _ in range(depth)
    ]


def block(x: Any, w: Any, noise: Any = None) -> Any:
    h = ft.softmax(ft.tanh(ft.linear(x, w)), -1) * 8.0
    keep = ft.rand(h.shape) if noise is None else noise.uniform(h.shape)
    return x + ft.gelu(h @ w) * (keep > 0.3)


def run(x: Any, weights: list[Any], wrap: Any = None) -> tuple[list[Any], Any, Any]:
    """(gradients, loss, the generator's state afterwards)"""
    ft.seed(5)
    h = x
    for w in weights:
        h = block(h, w) if wrap is None else wrap(block, h, w)
    loss = ft.mean(h * h)
    found = ag.grad(loss, [x, *weights])
    return [bytes(g.tobytes()) for g in found], loss.item(), ft.default_generator().state()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_gradients_are_the_same_bit_for_bit(policy: Any) -> None:
    x = ag.Variable(ft.Generator(2).normal((4, 8)), requires_grad=True)
    weights = network(3, 8)
    want = run(x, weights)
    assert run(x, weights, lambda f, h, w: ag.checkpoint(f, h, w, policy=policy)) == want
    assert run(x, weights, lambda f, h, w: ag.checkpoint(lambda v: f(v, w), h, policy=policy)) == (
        want
    )  # what a closure holds gets its gradient, too


def test_a_generator_of_ones_own_repeats_its_draws(close: Any) -> None:
    (w,) = network(1, 8)
    x = ft.ones((4, 8))
    plain, other = ft.Generator(3), ft.Generator(3)
    want = ag.grad(block(x, w, plain).sum(), w)
    y = ag.checkpoint(lambda v: block(v, w, other), x)
    assert other.state() == plain.state()
    close(ag.grad(y.sum(), w), want, rtol=0, atol=0)
    assert other.state() == plain.state()


def test_the_function_runs_again_once_and_knows_it() -> None:
    (w,) = network(1, 4)
    seen: list[bool] = []

    def noted(v: Any) -> Any:
        seen.append(ag.is_recomputing())
        return ft.exp(ft.tanh(v @ w))

    y = ag.checkpoint(noted, ft.ones((2, 4)))
    assert seen == [False]
    y.sum().backward(retain_graph=True)
    assert seen == [False, True]
    y.sum().backward()
    assert seen == [False, True, True]
    with ag.no_grad():
        ag.checkpoint(noted, ft.ones((2, 4)))
    assert seen == [False, True, True, False]


@pytest.mark.parametrize("policy", [(), ("matmul",)], ids=str)
def test_a_policy_spares_what_it_names(policy: Any) -> None:
    (w,) = network(1, 4)
    calls: list[str] = []

    class Note(ft.Wrapper):
        watches = True

        def call(self, operation: Any, /, *arguments: Any, **options: Any) -> Any:
            calls.append(operation.name)
            return operation.run(*arguments, **options)

    y = ag.checkpoint(lambda v: ft.exp(v @ w), ft.ones((2, 4)), policy=policy)
    with Note():
        y.sum().backward()
    assert calls.count("exp") == 1
    assert calls.count("matmul") == (2 if not policy else 1)  # one is the gradient of w


def test_several_and_nested_outputs(leaf: Any, close: Any) -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])

    def f(x: Any, pair: Any) -> Any:
        return {"a": ft.exp(x) * pair[1], "b": [ft.sin(x) * pair[0], 3]}

    out = ag.checkpoint(f, x, (2.0, y))
    assert out["b"][1] == 3
    (out["a"] + out["b"][0]).sum().backward()
    close(x.grad, ft.exp(x) * y + 2 * ft.cos(x))
    close(y.grad, ft.exp(x))


def test_higher_orders(leaf: Any, close: Any) -> None:
    x = leaf([0.3, -0.7])
    y = ag.checkpoint(lambda v: ft.tanh(v) * ft.exp(v), x)
    g = ag.grad(y.sum(), x, create_graph=True)
    z = ft.tanh(x) * ft.exp(x)
    h = ag.grad(z.sum(), x, create_graph=True)
    close(g, h, rtol=0)
    close(ag.grad(g.sum(), x), ag.grad(h.sum(), x), rtol=0)
    ag.check_grads(lambda v: ag.checkpoint(lambda u: ft.tanh(u * u), v), [x], order=2)


def test_checkpoints_within_checkpoints(leaf: Any) -> None:
    x = ag.Variable(ft.Generator(2).normal((4, 8)), requires_grad=True)
    weights = network(4, 8)

    def pair(h: Any, a: Any, b: Any) -> Any:
        return ag.checkpoint(block, ag.checkpoint(block, h, a, policy=("matmul",)), b)

    want = run(x, weights)
    ft.seed(5)
    h = ag.checkpoint(pair, ag.checkpoint(pair, x, *weights[:2]), *weights[2:])
    loss = ft.mean(h * h)
    found = ag.grad(loss, [x, *weights])
    assert [bytes(g.tobytes()) for g in found] == want[0]
    assert ft.default_generator().state() == want[2]


def test_assignment_to_an_argument_does_not_reach_what_is_computed_again(
    leaf: Any, close: Any
) -> None:
    x = leaf([2.0, 3.0])
    h = x * 1.0
    y = ag.checkpoint(lambda v: v * v * v, h)
    h[0] = 100.0
    y.sum().backward()
    close(x.grad, [12.0, 27.0])


def test_graphs_of_checkpoints_have_no_cycles(leaves_no_cycles: Any) -> None:
    x = ag.Variable(ft.ones((4, 8)), requires_grad=True)
    (w,) = network(1, 8)

    def step() -> None:
        y = ag.checkpoint(block, x, w).sum()
        unused = ag.checkpoint(block, x, w)
        y.backward()
        del unused

    for _ in range(3):  # also where what comes again is compiled
        step()
    leaves_no_cycles(step)


def test_a_function_that_does_something_else_is_reported(leaf: Any) -> None:
    x = leaf([1.0, 2.0])
    turns = iter([ft.exp, ft.tanh])
    y = ag.checkpoint(lambda v: next(turns)(v), x)
    with pytest.raises(ag.GradError, match=r"\[checkpoint\].*operation 0 was exp, then tanh"):
        y.sum().backward()
    with pytest.raises(ag.GradError, match="'matmull', which is no operation"):
        ag.checkpoint(ft.exp, x, policy=("matmull",))


def measured(policy: Any) -> tuple[int, int]:
    """(most bytes alive in forward and backward, bytes left alive), above those alive before.
    ``policy`` None: without checkpoints."""
    x, weights = ft.Generator(2).normal((256, 64)), network(12, 64)

    def step() -> None:
        h = ag.Variable(x)
        for w in weights:
            h = block(h, w) if policy is None else ag.checkpoint(block, h, w, policy=policy)
        loss = ft.mean(h * h)
        del h
        loss.backward()
        ft.eval(*(w.grad for w in weights))
        for w in weights:
            w.zero_grad()

    step()  # makes what is made once
    manager = type(mem.get("caching"))()
    gc.disable()
    try:
        with mem.use(manager):
            step()
        return manager.stats().peak_live_bytes, manager.stats().live_bytes
    finally:
        gc.enable()


@pytest.mark.fl_heavy
def test_the_peak_of_live_bytes_falls() -> None:
    whole, products, least = (measured(p) for p in (None, ("matmul", "linear"), ()))
    print(f"peak {whole[0]} bytes, {products[0]} with products kept, {least[0]} with nothing kept")
    assert least[0] < products[0] < whole[0]
    assert least[0] < 0.5 * whole[0]
    assert whole[1] == products[1] == least[1] == 0  # nothing waits for the garbage collector
