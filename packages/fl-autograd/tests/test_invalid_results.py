"""A backend that answers with something else than a value: variables and gradients name it, too."""

from __future__ import annotations

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend

defect = pytest.mark.defect("V18", "item 10")

ANSWERS = [np.ones(2, np.float32), "text", 3.0, [1.0], (None,)]


def plugin(op, answer, right=0):
    """A backend whose ``op`` gives ``answer``, but for its first ``right`` calls."""
    calls = iter(range(right))

    def wrong(self, *arguments):
        if next(calls, None) is not None:
            return getattr(NumpyBackend, op)(self, *arguments)
        return answer

    return type("Plugin", (NumpyBackend,), {"CONTRACT": (1, 0), "name": "plugin", op: wrong})()


def leaf(backend):
    return ag.Variable(ft.asarray([1.0, 2.0], backend=backend), requires_grad=True)


def names(op):
    return pytest.raises(ft.BackendError, match=rf"\[{op}\] backend 'plugin' gave a ")


@defect
@pytest.mark.parametrize("answer", ANSWERS, ids=type)
@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("multiply", lambda x: x * x),
        ("add", lambda x: x + 1.0),
        ("less", lambda x: x < 1.0),
    ],
)
def test_of_operators(op, call, answer):
    x = leaf(plugin(op, answer))
    with names(op):
        call(x)


@pytest.mark.parametrize("answer", ANSWERS, ids=type)
@pytest.mark.parametrize(
    ("op", "call"), [("exp", ft.exp), ("multiply", ft.square), ("exp", ft.softmax)]
)
def test_in_the_forward_pass(op, call, answer):
    x = leaf(plugin(op, answer))
    with names(op):
        call(x)


@defect
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("answer", ANSWERS, ids=type)
def test_in_a_gradient_rule(answer, create_graph):
    y = (lambda x: x * x)(leaf(plugin("multiply", answer, right=1))).sum()
    with names("multiply"):
        y.backward(create_graph=create_graph)


@defect
@pytest.mark.parametrize("answer", ANSWERS, ids=type)
def test_where_gradients_add_up(answer):
    x = leaf(plugin("add", answer))
    y = (ft.exp(x) * ft.sin(x)).sum()
    with names("add"):
        y.backward()


def test_what_a_rule_raises_itself_goes_through():
    class Sinks(NumpyBackend):
        CONTRACT = (1, 0)
        calls = 0

        def multiply(self, x, y):
            self.calls += 1
            if self.calls > 1:
                raise AttributeError("the water is too warm")
            return super().multiply(x, y)

    x = leaf(Sinks())
    y = (x * x).sum()
    with pytest.raises(AttributeError, match="^the water is too warm$"):
        y.backward()
