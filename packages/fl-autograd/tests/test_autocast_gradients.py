"""Gradients under ``autocast`` are as before: in float32, of every order, from checkpoints, too."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

pytestmark = pytest.mark.skipif(
    ft.float16 not in ft.current_backend().dtypes, reason="the backend has no float16"
)


def leaf(values=((0.5, 0.25), (0.25, 0.75)), dtype=ft.float32):
    return ag.Variable(ft.asarray(values, dtype), requires_grad=True)


def network(x, weights):
    a, b, scale = weights
    h = ft.layer_norm(ft.gelu(ft.linear(x, a)), scale)
    return ft.cross_entropy(ft.tanh(h @ b), ft.asarray([0, 1, 2, 0])).mean()


def weights_of(network_seed=0):
    g = ft.Generator(network_seed)
    shapes = [(8, 5), (8, 3), (8,)]
    return [ag.Variable(g.normal(shape) * 0.5, requires_grad=True) for shape in shapes]


def gradients(level, compute="float16", seed=0):
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of(seed)
    with ag.autocast(level, compute=compute):
        loss = network(x, weights)
    loss.backward()
    return loss, [w.grad for w in weights]


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_gradients_arrive_in_float32_and_are_close_to_those_of_float32(level):
    loss, expected = gradients("DEFAULT")
    found, made = gradients(level)
    assert found.item() == pytest.approx(loss.item(), rel=5e-3)
    for one, other in zip(made, expected):
        assert one.dtype is ft.float32
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=0.01 * abs(other).max().item())


def test_a_weight_is_cast_once_in_a_block_and_its_gradients_are_added_in_float32():
    w = leaf([[1.0]])
    tiny = ag.Variable(ft.asarray([[2.0**-12]]))
    seen = ft.count()
    with ag.autocast("O1"), seen:
        big = w @ ag.Variable(ft.asarray([[1.0]], ft.float16))
        small = [w @ tiny.astype("float16") for _ in range(8)]
    assert seen["cast"] == 2  # w, and tiny
    total = sum((y.astype("float32") for y in small), big.astype("float32"))
    total.backward()
    # Each gradient alone is exact in float16; added up there, the small ones would be lost.
    assert w.grad.item() == 1.0 + 8 * 2.0**-12


def test_a_weight_that_changes_inside_a_block_is_cast_anew():
    w, x = leaf([[1.0]]), ag.Variable(ft.asarray([[1.0]]))
    with ag.autocast("O1"):
        assert (x @ w).item() == 1.0
        w.tensor = ft.asarray([[2.0]])
        assert (x @ w).item() == 2.0
        y = w * 1.0
        assert (x @ y).item() == 2.0
        y[0, 0] = 3.0
        assert (x @ y).item() == 3.0


def test_casts_do_not_outlive_their_variables():
    block = ag.autocast("O1")
    x = leaf()
    with block:
        for _ in range(5):
            (x * 1.0) @ (x * 2.0)
        assert len(block._casts) == 0
        x @ x
        assert len(block._casts) == 1
    assert len(block._casts) == 0


def test_a_backward_pass_inside_the_block_gives_the_same_gradients():
    _, expected = gradients("O1")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    with ag.autocast("O1"):
        network(x, weights).backward()
        network(x, weights).backward()
    for weight, other in zip(weights, expected):
        assert weight.grad.tolist() == (other + other).tolist()


@pytest.mark.parametrize("inside", [False, True])
def test_second_order(inside):
    def slope(level):
        x = leaf([[0.5, -1.0]])
        with ag.autocast(level):
            y = (ft.tanh(x @ x.T) ** 2).sum()
            if inside:
                first = ag.grad(y, x, create_graph=True)
        if not inside:
            first = ag.grad(y, x, create_graph=True)
        assert first.dtype is ft.float32
        (first * first).sum().backward()
        return x.grad

    np.testing.assert_allclose(slope("O1").numpy(), slope("DEFAULT").numpy(), rtol=2e-2)


def test_gradients_are_added_as_they_are_whatever_the_policy_says_of_add():
    x = leaf()
    with ag.autocast(ag.Policy("O1", operations={"add": "compute", "multiply": "compute"})):
        y = ft.exp(x).sum()
        slope = ag.grad([y, y], x, create_graph=True)
        slope.sum().backward()
    assert slope.dtype is x.grad.dtype is ft.float32
    assert slope.tolist() == (2.0 * ft.exp(x.tensor)).tolist()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("policy", [(), ("matmul", "linear")])
def test_checkpoints_compute_again_in_the_same_dtypes(policy, inside):
    _, expected = gradients("O1")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    with ag.autocast("O1"):
        loss = ag.checkpoint(network, x, weights, policy=policy)
        if inside:
            loss.backward()
    if not inside:
        with ag.autocast("O3"):  # what surrounds the backward pass does not matter
            loss.backward()
    assert [w.grad.tolist() for w in weights] == [g.tolist() for g in expected]


def test_a_checkpoint_outside_computes_again_without_casts():
    _, expected = gradients("DEFAULT")
    x, weights = ft.randn((4, 5), ft.Generator(9)), weights_of()
    loss = ag.checkpoint(network, x, weights)
    with ag.autocast("O1"):
        loss.backward()
    assert [w.grad.tolist() for w in weights] == [g.tolist() for g in expected]
