"""A backend that answers with something else than a value is told so, by name and operation."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import fl_tensor as ft
from fl_memory import OutOfMemoryError
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.errors import BackendError


class Kelp(DelegatingBackend):
    CONTRACT = (1, 0)
    name = "kelp"


COMPUTING = "exp negative add multiply where slice_update scatter cast split"
CREATING = "full arange from_host"


def kelp(answer, wrongly=COMPUTING, *, checks_shapes=False, **fine):
    """A backend whose operations ``wrongly`` all give ``answer``, and values made before."""

    def wrong(self, *arguments, **options):
        return answer

    backend = Kelp()
    given = {name: ft.asarray(x, backend=backend) for name, x in fine.items()}
    methods = {"checks_shapes": checks_shapes, **dict.fromkeys(wrongly.split(), wrong)}
    backend.__class__ = type("Wrong", (Kelp,), {"CONTRACT": (1, 0), **methods})
    return backend, *given.values()


CALLS = {
    "exp": ft.exp,
    "negative": operator.neg,
    "add": lambda x: x + x,
    "multiply": lambda x: x * 2.0,
    "where": lambda x: ft.where(x > 0, x, x),
    "cast": lambda x: x.astype("int64"),
    "split": lambda x: ft.split(x, 2),
}


@pytest.mark.parametrize("checks_shapes", [False, True])
@pytest.mark.parametrize("op", CALLS)
def test_a_forgotten_return(op, checks_shapes):
    _, x = kelp(None, checks_shapes=checks_shapes, x=[1.0, 2.0])
    with pytest.raises(BackendError) as caught:
        CALLS[op](x)
    assert str(caught.value) == (
        f"[{op}] backend 'kelp' gave a NoneType, expected a TensorAdapter: is a return missing?"
    )


@pytest.mark.parametrize("op", CALLS)
def test_an_array_of_the_library_below(op):
    _, x = kelp(np.ones(2, np.float32), x=[1.0, 2.0])
    words = rf"\[{op}\] backend 'kelp' gave a (ndarray|float32), expected a TensorAdapter$"
    with pytest.raises(BackendError, match=words):
        CALLS[op](x)


def test_at_the_end_of_a_composition():
    _, x = kelp("text", "multiply", x=[1.0, 2.0])
    with pytest.raises(BackendError, match=r"\[multiply\] backend 'kelp' gave a str"):
        ft.square(x)


@pytest.mark.parametrize("answer", [None, np.ones(2, np.float32)])
def test_inside_a_composition(answer):
    _, x = kelp(answer, "exp", x=[1.0, 2.0])
    with pytest.raises(BackendError, match=r"\[exp\] backend 'kelp' gave a (NoneType|ndarray)"):
        ft.softmax(x)


@pytest.mark.defect("V18", "item 10")
@pytest.mark.parametrize("answer", [np.ones((2, 2), np.float32), "text", 3.0, [1.0]], ids=type)
@pytest.mark.parametrize("op", ["add", "multiply", "subtract", "matmul"])
def test_operators_of_a_backend_that_checks_shapes(op, answer):
    """The short way to the backend: what comes back is looked at there, too."""
    _, x = kelp(answer, op, checks_shapes=True, x=[[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(BackendError, match=rf"^\[{op}\] backend 'kelp' gave a .*, expected"):
        OPERATORS[op](x)


def test_an_error_of_the_backends_own_goes_through():
    class Sinks(Kelp):
        CONTRACT = (1, 0)

        def exp(self, x):
            raise ValueError("the water is too warm")

    with pytest.raises(ValueError, match="^the water is too warm$"):
        ft.softmax(ft.asarray([1.0], backend=Sinks))


OPERATORS = {
    "add": lambda x: x + x,
    "multiply": lambda x: x * 2.0,
    "subtract": lambda x: 1.0 - x,
    "matmul": lambda x: x @ x,
    "negative": operator.neg,
}


def fails_once(op, error):
    """A square matrix of a backend whose ``op`` raises ``error`` when it is first called; and the
    calls."""
    calls = []

    def once(self, *arguments):
        calls.append(op)
        if len(calls) == 1:
            raise error
        return getattr(DelegatingBackend, op)(self, *arguments)

    methods = {"CONTRACT": (1, 0), "checks_shapes": True, op: once}
    backend = type("Once", (Kelp,), methods)()
    return ft.asarray([[1.0, 2.0], [3.0, 4.0]], backend=backend), calls


@pytest.mark.parametrize("error", [MemoryError("full"), OutOfMemoryError(64, "cpu")], ids=type)
@pytest.mark.parametrize("op", OPERATORS)
def test_memory_that_is_missing_for_a_moment_is_an_error(op, error):
    x, calls = fails_once(op, error)
    with pytest.raises(MemoryError) as caught:
        OPERATORS[op](x)
    assert caught.value is error and calls == [op]


@pytest.mark.parametrize("op", ["add", "matmul"])
def test_an_error_of_any_class_is_worded_by_the_rule_of_shapes(op):
    class SinkingError(Exception):
        pass

    def fails(self, x, y):
        raise SinkingError

    methods = {"CONTRACT": (1, 0), "checks_shapes": True, op: fails}
    backend = type("Sinks", (Kelp,), methods)()
    x, y = (ft.asarray(np.ones(s, np.float32), backend=backend) for s in ((2, 3), (4, 5)))
    with pytest.raises(ft.ShapeError, match=rf"\[{op}\]"):
        x + y if op == "add" else x @ y


def test_creation_without_a_value():
    backend, _ = kelp(None, CREATING, x=[1.0])
    for op, call in {
        "full": lambda: ft.zeros(3),
        "arange": lambda: ft.arange(3),
        "from_host": lambda: ft.asarray([1.0, 2.0]),
    }.items():
        with ft.use(backend), pytest.raises(BackendError, match=rf"\[{op}\] .*return missing"):
            call()


def test_an_assignment_that_fails_so_leaves_the_tensor_as_it_was():
    _, x, i, mask = kelp(None, x=[1.0, 2.0, 3.0], i=[0, 2], mask=[True, False, True])
    for op, index in {"slice_update": 1, "scatter": i, "where": mask}.items():
        with pytest.raises(BackendError, match=rf"\[{op}\] .*return missing"):
            x[index] = x[0]
        assert x.tolist() == [1.0, 2.0, 3.0]
