"""Finding patterns in graphs, and putting graphs in the place of nodes."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.graph import Graph, Node, Value, match
from fl_tensor.graph.inline import inline
from fl_tensor.testing.graphs import recorded

SHAPE = (2, 3)


def pattern(function, count):
    return recorded(function, *[SHAPE] * count)[0]


def fma(x, y, z):
    return x * y + z


def replaced(function, count=3, of=fma, operands=3):
    """The operations of a graph in which ``of`` is looked for."""
    graph = pattern(function, count)
    looked_for = pattern(of, operands)

    def made(found, result):
        return Node("found", tuple(found), {}, (result,))

    return [n.op for n in match.replace(graph, looked_for, lambda _: looked_for, made).nodes]


def test_what_computes_the_same_is_replaced():
    assert replaced(lambda x, y, z: ft.exp(x * y + z))[-2:] == ["found", "exp"]
    assert replaced(lambda x, y, z: ft.exp(z + y * x))[-2:] == ["found", "exp"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: (p := x * y, p + z),
        lambda x, y, z: ft.exp(p := x * y) - (p + z),
        lambda x, y, z: x * y - z,
        lambda x, y, z: x + y + z,
    ],
    ids=["an output in its middle", "read by others", "another end", "another beginning"],
)
def test_nothing_else_is(function):
    assert "found" not in replaced(function)


def test_an_input_twice_is_one_value():
    twice = {"of": lambda x, y: x * x + y, "operands": 2}
    assert "found" in replaced(lambda x, y, z: x * x + y - z, **twice)
    assert "found" not in replaced(lambda x, y, z: x * y + z, **twice)


def test_matches_do_not_overlap():
    found = replaced(lambda x: ft.exp(ft.exp(ft.exp(x))), 1, lambda x: ft.exp(ft.exp(x)), 1)
    assert found.count("found") == 1


def test_other_parameters_are_something_else():
    first, second = (lambda x, a=a: ft.exp(ft.sum(x, a, keepdims=True)) for a in (0, 1))
    assert "found" in replaced(first, 1, first, 1)
    assert "found" not in replaced(first, 1, second, 1)


# --- inlining -------------------------------------------------------------------------------------


def inlined(body, count=2, results=1):
    """The graph of a node of its own, whose results are all asked for, with ``body`` in its
    place."""
    inside, inputs = recorded(body, *[SHAPE] * count)
    given = [Value(i, SHAPE, ft.float32, ft.CPU) for i in range(count)]
    outputs = [Value(count + i, v.shape, v.dtype, v.device) for i, v in enumerate(inside.outputs)]
    graph = Graph(given, (), [Node("own", tuple(given), {}, tuple(outputs))], outputs)
    made = inline(graph, lambda node: inside if node.op == "own" else None)
    for found, wanted in zip(made(*inputs), inside(*inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert made.outputs == outputs and made.inputs == given
    return [node.op for node in made.nodes]


def test_the_nodes_of_the_body_take_its_place():
    assert inlined(lambda x, y: ft.exp(x) * y) == ["exp", "multiply"]
    assert inlined(lambda x, y: (e := ft.exp(x), e * y)) == ["exp", "multiply"]


def test_what_is_handed_back_is_a_value_of_its_own():
    assert inlined(lambda x, y: (x, y)) == ["reshape", "reshape"]
    assert inlined(lambda x, y: (e := ft.exp(x), e)) == ["exp", "reshape"]


def test_constants_come_along():
    assert "add" in inlined(lambda x, y: x + ft.asarray(np.ones(SHAPE, np.float32)) * y)


def test_without_a_body_nothing_changes():
    graph = pattern(fma, 3)
    assert inline(graph, lambda node: None) is graph
