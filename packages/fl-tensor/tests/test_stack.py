"""Layers above a backend: wrappers of one's own among overrides, in any order."""

from __future__ import annotations

import contextvars
import threading

import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dispatch.stack import active


class Names(ft.Wrapper):
    """The names of all operations, in the order in which they begin."""

    def __init__(self):
        self.seen = []

    def call(self, operation, *arguments, **options):
        self.seen.append(operation.name)
        return operation.run(*arguments, **options)


def through(name, order):
    def replacement(inner, *arguments):
        order.append("override")
        return getattr(inner, name)(*arguments)

    return ft.override(**{name: replacement})


class OwnSoftmax(NumpyBackend):
    CONTRACT = (1, 0)
    name = "own"

    def softmax(self, x, axis):
        return self.full(x.shape, 0.25, x.dtype, x.device)


def test_a_wrapper_sees_operations_on_tensors_made_before():
    x = ft.ones((2, 2))
    with Names() as names:
        x + x
        x @ x
    x - x
    assert names.seen == ["add", "matmul"]


def test_the_default_call_changes_nothing():
    x = ft.asarray([1.0, 2.0])
    with ft.Wrapper():
        assert ft.softmax(x).tolist() == ft.softmax(x).tolist()


def test_data_that_enters_and_leaves_and_numbers_are_seen():
    with Names() as names:
        x = ft.asarray([1.0, 2.0])
        (x * 3).tolist()
        ft.Generator(1).normal((2,))
        ft.zeros(2)
    assert names.seen[:4] == ["from_host", "scalar", "multiply", "to_host"]
    assert {"normal", "random_bits", "full", "constant"} <= set(names.seen)


def test_a_composition_is_seen_with_its_pieces_inside():
    composed = {}

    class Nested(Names):
        def call(self, operation, *arguments, **options):
            composed[operation.name] = operation.composed
            result = super().call(operation, *arguments, **options)
            self.seen.append(f"end {operation.name}")
            return result

    with Nested() as names:
        ft.softmax(ft.ones(3))
    start, end = names.seen.index("softmax"), names.seen.index("end softmax")
    assert start < names.seen.index("exp") < names.seen.index("end exp") < end
    assert composed["softmax"]
    assert not composed["exp"]


def test_an_operation_that_the_backend_writes_itself_is_one_call():
    x = ft.asarray([1.0, 2.0], backend=OwnSoftmax())
    with Names() as names:
        y = ft.softmax(x)
    assert names.seen == ["softmax"]
    assert y.tolist() == [0.25, 0.25]


def test_under_an_override_the_composition_runs_wherever_the_wrapper_stands():
    x = ft.asarray([1.0, 2.0], backend=OwnSoftmax())
    for outer_first in (True, False):
        names, order = Names(), []
        layers = [names, through("exp", order)]
        first, second = layers if outer_first else reversed(layers)
        with first, second:
            assert ft.softmax(x).tolist() != [0.25, 0.25]
        assert order == ["override"]
        assert {"softmax", "exp", "sum"} <= set(names.seen)


def test_the_innermost_is_called_first_and_overrides_call_what_is_below():
    order = []

    class Says(ft.Wrapper):
        def __init__(self, name):
            self.name = name

        def call(self, operation, *arguments, **options):
            order.append(self.name)
            return operation.run(*arguments, **options)

    x = ft.ones(1)
    with Says("outer"), through("add", order), Says("inner"):
        x + x
    assert order == ["inner", "override", "outer"]


def test_pieces_of_a_composition_pass_all_layers():
    x = ft.ones(3)
    above, below, order = Names(), Names(), []
    with below, through("exp", order), above:
        ft.softmax(x)
    assert above.seen == below.seen
    assert order == ["override"]


def test_what_an_override_asks_for_is_seen_below_it_only():
    above, below = Names(), Names()
    with below, ft.override(add=lambda inner, x, y: inner.hypot(x, y)), above:
        assert (ft.full(1, 3.0) + ft.full(1, 4.0)).item() == 5
    assert "hypot" in below.seen
    assert "hypot" not in above.seen


def test_a_wrapper_may_change_results():
    class Doubles(ft.Wrapper):
        def call(self, operation, *arguments, **options):
            result = operation.run(*arguments, **options)
            return operation.backend.add(result, result) if operation.name == "exp" else result

    x = ft.zeros(2)
    with Names() as names, Doubles():
        assert ft.exp(x).tolist() == [2.0, 2.0]
    assert "add" not in names.seen, "a wrapper's own arithmetic is nobody else's business"


def test_options_reach_the_operation():
    x = ft.ops_for(ft.current_backend()).full((2, 3), 1, ft.float32, ft.CPU)
    with ft.Wrapper():
        ops = ft.ops_for(ft.current_backend())
        assert ops.sum(x, (0,), keepdims=True).shape == (1, 3)
        assert (ops.name, ops.has_values) == ("numpy", True)


def test_threads_in_a_copied_context_are_seen_and_others_are_not():
    x = ft.ones(2)
    with Names() as names:
        context = contextvars.copy_context()
        for run in (lambda: context.run(lambda: x + x), lambda: x * x):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert names.seen == ["add"]


def test_one_wrapper_entered_twice_and_in_two_threads():
    names, x = Names(), ft.ones(2)
    inside, leave = threading.Event(), threading.Event()

    def other():
        with names:
            inside.set()
            leave.wait(10)
            x - x

    thread = threading.Thread(target=other)
    with names, names:
        thread.start()
        inside.wait(10)
        x + x
    leave.set()
    thread.join()
    assert names.seen == ["add", "add", "subtract"]
    x * x
    assert len(names.seen) == 3


def test_an_error_inside_leaves_the_stack_clean():
    names = Names()
    with pytest.raises(ft.ShapeError, match="matmul"), names:
        ft.ones((2, 3)) @ ft.ones((2, 3))
    assert list(active(ft.Wrapper)) == []


def test_blocks_left_out_of_order_are_an_error():
    first, second = Names(), Names()
    first.__enter__()
    second.__enter__()
    with pytest.raises(ft.BackendError, match="reverse order"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert list(active(ft.Wrapper)) == []


def test_without_layers_the_backend_is_called_directly():
    assert ft.ops_for(ft.current_backend()) is ft.current_backend()


@pytest.mark.defect("V19", "item 10")
@pytest.mark.parametrize("replacement", [3, None, "add"])
def test_what_cannot_be_called_is_refused_when_it_is_given(replacement):
    with pytest.raises(ft.DTypeError, match=r"\[override\] add=.*expected a function") as caught:
        ft.override(multiply=lambda inner, x, y: x, add=replacement)
    assert isinstance(caught.value, TypeError)
