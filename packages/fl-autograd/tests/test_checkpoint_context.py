"""What surrounds a checkpointed function: its second run finds the context of the first one."""

from __future__ import annotations

import contextvars
import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

import fl_autograd as ag
import fl_memory as mem
import fl_tensor as ft
from fl_autograd import extend

X = [[0.5, -1.5, 2.0], [1.0, 0.25, -3.0]]


def function(x: Any) -> Any:
    return ft.exp(ft.tanh(x) + x) * (x + 1.0)


def checkpointed(function: Any, *args: Any) -> Any:
    return ag.checkpoint(function, *args)


def plain(function: Any, *args: Any) -> Any:
    return function(*args)


class Coarse(ft.Wrapper):
    """Rounds every floating result to sixteenths: a wrapper that changes results."""

    def call(self, operation: Any, /, *arguments: Any, **options: Any) -> Any:
        result = operation.run(*arguments, **options)
        ops = operation.backend
        if operation.composed or not getattr(result, "dtype", ft.bool).is_floating:
            return result
        scale = ops.full((), 16.0, result.dtype, result.device)
        return ops.divide(ops.round(ops.multiply(result, scale)), scale)


def doubled_tanh() -> ft.override:
    return ft.override(tanh=lambda inner, x: inner.add(inner.tanh(x), inner.tanh(x)))


@contextmanager
def both() -> Iterator[None]:
    with doubled_tanh(), Coarse():
        yield


CHANGES = {"override": doubled_tanh, "wrapper": Coarse, "both": both, "nothing": nullcontext}


# ---- what changes results is as it was -----------------------------------------------------------


@pytest.mark.parametrize("policy", [(), ("tanh", "add")], ids=str)
@pytest.mark.parametrize("backward", CHANGES)
@pytest.mark.parametrize("forward", CHANGES)
def test_blocks_around_either_pass_give_the_gradients_that_they_give_without_checkpoint(
    forward: str, backward: str, policy: Any
) -> None:
    def gradient(call: Any) -> Any:
        x = ag.Variable(X, requires_grad=True)
        with CHANGES[forward]():
            y = call(x)
        with CHANGES[backward]():
            y.sum().backward()
        return x.grad.tolist()

    assert gradient(lambda x: ag.checkpoint(function, x, policy=policy)) == gradient(function)


def test_the_default_backend_is_that_of_the_first_run(leaf: Any) -> None:
    other = type(ft.current_backend())()
    with ft.use(other):
        x = leaf([1.0, 2.0])
        y = ag.checkpoint(lambda v: ft.exp(v * ft.ones(2, "float64")), x)
    y.sum().backward()  # the default backend's ones would not go with x
    assert x.grad.tolist() == ft.exp(x).tolist()


def test_the_default_generator_is_that_of_the_first_run() -> None:
    def gradient(call: Any) -> Any:
        x = ag.Variable(ft.ones(8), requires_grad=True)

        def forward() -> Any:
            ft.set_default_generator(ft.Generator(7))
            return call(lambda v: ft.exp(v) * ft.rand(8), x)

        contextvars.copy_context().run(forward).sum().backward()
        return x.grad.tolist()

    before = ft.default_generator().state()
    assert gradient(checkpointed) == gradient(plain)
    assert ft.default_generator().state() == before


def test_context_variables_of_users_are_those_of_the_first_run(leaf: Any) -> None:
    scale: contextvars.ContextVar[float] = contextvars.ContextVar("scale", default=1.0)
    x = leaf([1.0, 2.0])
    token = scale.set(3.0)
    y = ag.checkpoint(lambda v: ft.exp(v * scale.get()), x)
    scale.reset(token)
    y.sum().backward()
    assert x.grad.tolist() == (3.0 * ft.exp(3.0 * x)).tolist()
    assert scale.get() == 1.0


def test_every_run_begins_with_the_same_context_and_sets_nothing_outside(leaf: Any) -> None:
    runs: contextvars.ContextVar[int] = contextvars.ContextVar("runs", default=0)

    def counting(v: Any) -> Any:
        runs.set(runs.get() + 1)
        return ft.exp(v * runs.get())

    x = leaf([1.0])
    y = ag.checkpoint(counting, x).sum()
    slopes = [ag.grad(y, x, retain_graph=True).item() for _ in range(3)]
    assert slopes == [y.item()] * 3
    assert runs.get() == 1


def test_the_backward_pass_may_run_in_another_thread(leaf: Any) -> None:
    x = leaf(X)
    with doubled_tanh():
        want = ag.grad(function(x).sum(), x).tolist()
        y = ag.checkpoint(function, x)
    thread = threading.Thread(target=y.sum().backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == want


def test_checkpoints_within_checkpoints_find_their_blocks_too(leaf: Any) -> None:
    def outer(call: Any, v: Any) -> Any:
        with doubled_tanh():
            v = call(function, v)
        return call(function, v) * 0.5

    def gradient(call: Any, policy: Any = ()) -> Any:
        x = leaf(X)
        y = outer(plain, x) if call is plain else ag.checkpoint(outer, call, x, policy=policy)
        y.sum().backward()
        return x.grad.tolist()

    want = gradient(plain)
    assert gradient(checkpointed) == want
    assert gradient(checkpointed, ("tanh", "add")) == want


# ---- what only watches is of the present ---------------------------------------------------------


def test_a_count_sees_the_second_run_if_it_is_there_then(leaf: Any) -> None:
    with ft.count() as forward:
        y = ag.checkpoint(function, leaf(X))
    seen = forward["exp"], forward["tanh"]
    with ft.count() as backward:
        y.sum().backward()
    assert seen == (forward["exp"], forward["tanh"]) == (1, 1), "its block has ended"
    assert (backward["exp"], backward["tanh"]) == (1, 1)


def test_a_count_around_both_sees_both_at_its_place(leaf: Any) -> None:
    with ft.count() as outside, doubled_tanh(), ft.count() as inside:
        ag.checkpoint(function, leaf(X)).sum().backward()
    assert outside["tanh"] == 4, "what the override makes of it, twice"
    assert inside["tanh"] == 2, "what the function asks for, twice"


def test_a_trace_that_has_ended_stays_as_it_is(leaf: Any) -> None:
    with ft.trace() as graph:
        y = ag.checkpoint(function, leaf(X))
    before = str(graph)
    y.sum().backward()
    assert str(graph) == before


def test_the_memory_manager_is_that_of_the_backward_pass() -> None:
    first, second = (type(mem.get("caching"))(small_bytes=0) for _ in range(2))
    x = ag.Variable(ft.ones((64, 64)), requires_grad=True)
    with mem.use(first):
        y = ag.checkpoint(function, x)
    served = first.stats().allocs
    with mem.use(second):
        y.sum().backward()
        ft.eval(x.grad)
    assert first.stats().allocs == served
    assert second.stats().allocs > 1


# ---- the second run is no business of others -----------------------------------------------------


def test_recorders_see_the_first_run_alone(leaf: Any) -> None:
    class Names(extend.Recorder):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def recorded(self, node: Any, result: Any) -> Any:
            self.seen.append(node.name)
            return node

    with Names() as names:
        y = ag.checkpoint(function, leaf(X))
        recorded = list(names.seen)
        y.sum().backward()
    assert "exp" in recorded
    assert names.seen == [*recorded, "sum"]


def test_a_recorder_that_keeps_nodes_makes_no_cycle(leaf: Any) -> None:
    class Keeping(extend.Recorder):
        def __init__(self) -> None:
            self.nodes: list[Any] = []

        def recorded(self, node: Any, result: Any) -> Any:
            self.nodes.append(node)
            return node

    gc.disable()
    try:
        with Keeping() as kept:
            y = ag.checkpoint(function, leaf(X))
        alive = weakref.ref(kept)
        del kept, y
        assert alive() is None
    finally:
        gc.enable()


def noisy(x: Any) -> Any:
    return ft.exp(x) * ft.rand(x.shape)


@pytest.mark.parametrize("inner", [plain, checkpointed])
def test_a_checkpointed_function_may_take_gradients(leaf: Any, inner: Any) -> None:
    def penalised(x: Any) -> Any:
        y = inner(noisy, x)
        slope = ag.grad(y.sum(), x, create_graph=True)
        again = ag.grad(y.sum(), x, create_graph=True)
        return y + slope * again * ft.rand(x.shape)

    def gradient(call: Any) -> Any:
        ft.seed(3)
        x = leaf(X)
        call(penalised, x).sum().backward()
        return x.grad.tolist(), ft.default_generator().state()

    assert gradient(checkpointed) == gradient(plain)


def test_a_checkpointed_function_may_take_gradients_of_an_earlier_one(leaf: Any) -> None:
    def gradient(call: Any) -> Any:
        ft.seed(3)
        x = leaf(X)
        y = call(noisy, x).sum()
        call(lambda v: noisy(v) * ag.grad(y, x, retain_graph=True), x).sum().backward()
        return x.grad.tolist(), ft.default_generator().state()

    assert gradient(checkpointed) == gradient(plain)


def test_a_policy_notices_that_the_function_computes_something_else(leaf: Any) -> None:
    def once(v: Any) -> Any:
        if not ag.is_recomputing():
            ft.exp(ft.ones(2))
        return ft.exp(v)

    x = leaf([1.0, 2.0])
    ag.checkpoint(once, x).sum().backward()
    with pytest.raises(ag.GradError, match=r"2 operations kept values, then 1"):
        ag.checkpoint(once, x, policy=("exp",)).sum().backward()
