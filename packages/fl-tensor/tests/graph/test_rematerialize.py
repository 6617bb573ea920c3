"""Rematerialisation: what is cheap is computed beside its readers, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.graph import Graph, Node
from fl_tensor.graph.fuse import Fusion
from fl_tensor.graph.layout import layouts
from fl_tensor.graph.reductions import REDUCTIONS, reduction_form
from fl_tensor.graph.rematerialize import rematerialize

ELEMENTWISE = frozenset(
    "add subtract multiply divide exp maximum where less cast random_bits".split()
)
SHAPE = (256, 128)
COLUMN, ROW = (128,), (256, 1)


def fusible(node: Node) -> bool:
    if node.op in REDUCTIONS:
        return reduction_form(node, 0) is not None
    return node.op in ELEMENTWISE


def recorded(function, *shapes):
    inputs = [ft.Generator(i).normal(shape) for i, shape in enumerate(shapes)]
    with ft.trace() as graph:
        for x in inputs:
            graph.input(x)
        result = function(*inputs)
        graph.output(*(result if isinstance(result, tuple) else (result,)))
    return graph.prune(), inputs


def counted(graph: Graph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def same(changed: Graph, graph: Graph, inputs) -> None:
    for got, want in zip(changed(*inputs), graph(*inputs), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def centred(x, w, mean):
    """Read by a product that ends one group, and again after it."""
    y = (x @ w) - mean
    first = ft.sum(y * y, 0)
    return first, ft.exp(y) * first


def test_a_cheap_value_is_computed_by_each_reader():
    graph, inputs = recorded(centred, SHAPE, (128, 128), COLUMN)
    changed = rematerialize(graph, fusible)
    assert counted(graph, "subtract") == 1
    assert counted(changed, "subtract") == 2, "one for the square, one for exp"
    same(changed, graph, inputs)


def test_it_is_written_by_nobody():
    graph, _ = recorded(centred, SHAPE, (128, 128), COLUMN)
    changed = rematerialize(graph, fusible)
    for each, groups in ((graph, 1), (changed, 0)):
        places = layouts(each)
        fusion = Fusion(each, places, fusible)
        home = {v: g for g in fusion.groups for n in g.nodes for v in n.outputs}
        crossing = {
            places[v].root
            for g in fusion.groups
            for n in g.nodes
            for v in n.operands
            if places[v].root in home and home[places[v].root] is not g
        }
        large = [v for v in crossing if v.shape == SHAPE and home[v].space is not None]
        assert len(large) == groups


def test_chains_are_computed_from_what_is_in_memory():
    def function(x, w, mean, scale):
        y = ((x @ w) - mean) * scale
        return ft.sum(y, 0), ft.sum(ft.exp(y), 1)

    graph, inputs = recorded(function, SHAPE, (128, 128), COLUMN, ROW)
    changed = rematerialize(graph, fusible)
    assert counted(changed, "subtract") == counted(changed, "multiply") == 2
    same(changed, graph, inputs)


UNCHANGED = {
    "two arrays": ((lambda x, y: ft.exp(x + y) * ft.sum(x + y, 0)), SHAPE, SHAPE),
    "what is expensive": ((lambda x: ft.exp(x) + ft.sum(ft.exp(x), 0)), SHAPE),
    "what is not in memory": ((lambda x: ft.sum(ft.exp(x) + 1.0, 0) * ft.exp(x)), SHAPE),
    "results": ((lambda x, m: (x - m, ft.exp(x - m))), SHAPE, COLUMN),
    "operands of products": (
        (lambda x, w, m: ft.exp(x - m) @ w + (x - m) @ w),
        SHAPE,
        (128, 128),
        COLUMN,
    ),
    "smaller elements": ((lambda x: ft.sum(x.astype("bfloat16"), 0) + x.astype("bfloat16")), SHAPE),
    "little": ((lambda x, m: ft.exp(x - m) * ft.sum(x - m, 0)), (4, 8), (8,)),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_left_as_they_are(name):
    from fl_tensor.graph.common import common

    function, *shapes = UNCHANGED[name]
    graph, inputs = recorded(function, *shapes)
    graph = common(graph)
    changed = rematerialize(graph, fusible)
    ops = sorted(node.op for node in graph.nodes)
    assert sorted(node.op for node in changed.nodes) == ops
    same(changed, graph, inputs)


def test_views_of_what_is_not_in_memory_are_not_either():
    def function(x):
        y = ft.reshape(ft.exp(x), (128, 256))
        return ft.sum(y - 1.0, 0), ft.max(y - 1.0, 1)

    from fl_tensor.graph.common import common

    graph, inputs = recorded(function, SHAPE)
    graph = common(graph)
    changed = rematerialize(graph, fusible)
    assert counted(changed, "subtract") == 1
    same(changed, graph, inputs)
