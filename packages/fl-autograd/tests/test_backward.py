"""The backward pass: what it computes, frees, prunes and refuses."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

import fl_autograd as ag
import fl_tensor as ft


def test_gradients_accumulate_in_leaves(leaf: Any, close: Any) -> None:
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    close(x.grad, [5.0, 7.0])
    assert x.grad is first  # one handle for whoever holds it


def test_a_value_used_twice_gets_both_contributions(leaf: Any, close: Any) -> None:
    x = leaf([2.0])
    y = x * x
    (y * y + y).sum().backward()
    close(x.grad, [4 * 8 + 2 * 2])


def test_the_seed_is_one_or_given(leaf: Any, close: Any) -> None:
    x = leaf([1.0, 2.0])
    (x * x).backward(ft.asarray([1.0, 10.0], dtype="float64"))
    close(x.grad, [2.0, 40.0])
    x.zero_grad()
    (x * x).backward(0.5)
    close(x.grad, [1.0, 2.0])
    with pytest.raises(ag.GradError, match=r"shape \(2,\).*Reduce it"):
        (x * x).backward()
    with pytest.raises(ValueError, match=r"gradient is \(3,\), the output \(2,\)"):
        (x * x).backward(ft.zeros(3, "float64"))
    with pytest.raises(TypeError, match="float32, the output float64"):
        (x * x).backward(ft.zeros(2))


def test_without_history_is_an_error() -> None:
    with pytest.raises(ag.GradError, match="requires no gradient"):
        (ag.Variable([1.0]) * 2).backward()


def test_the_graph_is_freed_unless_retained(leaf: Any, close: Any) -> None:
    x = leaf(3.0)
    y = x * x
    z = y * 1
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 12.0)
    with pytest.raises(ag.GraphFreedError, match="retain_graph=True"):
        y.backward()
    with pytest.raises(ag.GraphFreedError):
        z.backward()
    with pytest.raises(ag.GraphFreedError):
        ag.grad(y, x)


def test_saved_values_are_freed_on_the_way(leaf: Any) -> None:
    x = leaf([1.0, 2.0])
    y = ft.exp(x)
    node = y._node
    assert node.saved
    y.sum().backward()
    assert node.saved is None
    assert node.ins is None


def test_only_what_is_needed_is_kept(leaf: Any) -> None:
    x, c = leaf([1.0, 2.0]), ag.Variable(ft.asarray([3.0, 4.0], dtype="float64"))
    assert (x + c)._node.saved == ()
    kept = (x * c)._node.saved
    assert [v for v in kept if v is not None] == [c._adapter]
    y = ft.exp(x)
    assert y._node.saved == (y._adapter,)
    assert y._node.ins == (x._node,)


def test_branches_without_gradient_are_pruned(leaf: Any) -> None:
    """No matrix product is spent on the gradient of a constant."""
    x = ag.Variable(ft.ones((4, 3), "float64"))
    w = leaf([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    calls = []

    def count(inner: Any, a: Any, b: Any) -> Any:
        calls.append((a.shape, b.shape))
        return inner.matmul(a, b)

    with ft.override(matmul=count):
        ft.matmul(x, w).sum().backward()
    assert calls == [((4, 3), (3, 2)), ((3, 4), (4, 2))]


def test_grad_prunes_what_does_not_lead_to_its_inputs(leaf: Any) -> None:
    x, w = leaf([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    calls = []

    def count(inner: Any, a: Any, b: Any) -> Any:
        calls.append(a.shape)
        return inner.matmul(a, b)

    with ft.override(matmul=count):
        ag.grad(ft.matmul(x, w).sum(), w)
    assert len(calls) == 2


def test_a_long_chain_needs_no_recursion(leaf: Any, close: Any) -> None:
    x, a = leaf(1.0), leaf(1.0)
    y = x
    for _ in range(50_000):
        y = y * a + x
    y.backward()
    close(x.grad, 50_001.0)


def test_a_long_chain_is_dropped_without_recursion(leaf: Any) -> None:
    y = x = leaf(1.0)
    for _ in range(100_000):
        y = -y
    del y
    assert x.grad is None


def test_graphs_have_no_reference_cycles(normal: Any, leaves_no_cycles: Any) -> None:
    def step() -> None:
        x, w = normal(4, 3), normal(2, 3)
        y = ft.log_softmax(ft.relu(ft.linear(x, w)), -1)
        loss = ft.mean(y * y)
        loss.backward()
        unused = ft.exp(loss)
        del unused

    leaves_no_cycles(step)


def test_results_die_with_their_last_handle(leaf: Any) -> None:
    import weakref

    x = leaf([1.0, 2.0])
    y = ft.exp(x)
    seen = weakref.ref(y)
    z = y * 2
    del y
    assert seen() is None  # the graph holds values, not variables
    z.sum().backward()
    assert x.grad is not None


def test_backward_from_several_threads(close: Any) -> None:
    """Threads may share leaves' values; each has its own graph and its own leaves."""
    results: dict[int, list[float]] = {}

    def work(n: int) -> None:
        x = ag.Variable([float(n), 2.0], requires_grad=True)
        for _ in range(20):
            x.zero_grad()
            (x * x * x).sum().backward()
        assert x.grad is not None
        results[n] = x.grad.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {n: [3.0 * n * n, 12.0] for n in range(4)}


def test_overrides_are_seen_forward_and_backward(leaf: Any) -> None:
    x = leaf([1.0, 2.0])
    calls = []

    def count(inner: Any, a: Any, b: Any) -> Any:
        calls.append(1)
        return inner.multiply(a, b)

    with ft.override(multiply=count):
        y = (x * x).sum()
        assert len(calls) == 1
        y.backward()
        assert len(calls) == 3
        ft.log_softmax(x * 1).sum().backward()
        assert len(calls) > 4


def test_moving_between_backends_is_differentiable(leaf: Any, close: Any) -> None:
    class Other(type(ft.get_backend("numpy"))):  # type: ignore[misc]
        CONTRACT = (1, 0)
        name = "other"

    other = Other()
    x = leaf([1.0, 2.0])
    y = (x * 3).to(other)
    assert y.backend is other
    (y * y + y).sum().backward()
    close(x.grad, [21.0, 39.0])
    assert x.grad.backend is x.backend
    assert x.to("float32").dtype is ft.float32
    assert x.to(x.backend) is x


def test_hooks_see_and_replace_gradients(leaf: Any, close: Any) -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    remove = x.register_hook(lambda g: g * 10)
    (y * y).sum().backward(retain_graph=True)
    assert seen == [[4.0, 8.0]]
    close(x.grad, [80.0, 160.0])
    remove()
    x.zero_grad()
    (y * 1).sum().backward()
    close(x.grad, [2.0, 2.0])


def test_a_leaf_hook_is_called_once_and_as_early_as_possible(leaf: Any) -> None:
    """Deep layers first: their gradients can be sent while the rest is computed."""
    ws = [leaf([1.0 + i]) for i in range(4)]
    order: list[int] = []
    for i, w in enumerate(ws):
        w.register_hook(lambda g, i=i: order.append(i))
    h = leaf([1.0])
    h.register_hook(lambda g: order.append(-1))
    y = h
    for w in ws:
        y = ft.tanh(y * w) + w
    y.sum().backward()
    assert order == [3, 2, 1, 0, -1]


def test_nothing_looks_for_cycles_around_a_large_graph():
    assert gc.isenabled()
    with ag.large_graph():
        assert not gc.isenabled()
        with ag.large_graph():
            pass
        assert not gc.isenabled(), "the outer block goes on"
    assert gc.isenabled()
    gc.disable()
    try:
        with ag.large_graph():
            pass
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()


def test_hooks_after_accumulation_may_take_the_gradient() -> None:
    x = ag.Variable(ft.ones((2,)), requires_grad=True)
    taken = []

    def take(variable: ag.Variable) -> None:
        assert variable is x
        taken.append(variable.grad.tolist())
        variable.grad = None

    remove = x.register_post_accumulate_grad_hook(take)
    y = x * 3.0
    (ft.sum(y * x) + ft.sum(y)).backward()  # one pass, two paths: called once
    assert taken == [[9.0, 9.0]] and x.grad is None
    ft.sum(x * 2.0).backward()
    assert taken == [[9.0, 9.0], [2.0, 2.0]] and x.grad is None
    remove()
    ft.sum(x * 2.0).backward()
    assert len(taken) == 2 and x.grad.tolist() == [2.0, 2.0]
    ag.grad(ft.sum(x * 2.0), [x])
    assert len(taken) == 2


def test_hooks_after_accumulation_see_the_sum() -> None:
    x = ag.Variable(ft.ones(()), requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda v: seen.append(v.grad.item()))
    (x * 2.0).backward()
    (x * 3.0).backward()
    assert seen == [2.0, 5.0]


def test_only_leaves_have_hooks_after_accumulation() -> None:
    x = ag.Variable(ft.ones(()), requires_grad=True)
    for other in (x * 2.0, ag.Variable(ft.ones(()))):
        with pytest.raises(ag.GradError, match="only a leaf"):
            other.register_post_accumulate_grad_hook(print)
    with pytest.raises(ft.FlError, match="hook"):
        x.register_post_accumulate_grad_hook(3)
