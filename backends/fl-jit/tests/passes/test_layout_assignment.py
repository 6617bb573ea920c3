"""Orders of axes: what is made with channels last keeps them last, and its values are the same."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_jit.kernels import ConvDataGrad, Convolution, ConvWeightGrad, Matmul, registry
from fl_jit.kernels.library import KernelLibrary, UnsupportedError
from fl_jit.kernels.llvm.library import GeneratedKernels
from fl_jit.passes.layout_assignment import inverse, order_of, preferred_order, reorder
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.testing.graphs import recorded

ELEMENTWISE = frozenset("add subtract multiply divide exp maximum where less equal cast".split())
SHAPE = (2, 3, 4, 5)


def preferred_by_exp(node: Node):
    """``exp`` stands for what prefers channels last: it can do so here without help."""
    return (0, *range(2, len(node.outputs[0].shape)), 1) if node.op == "exp" else None


def plain(graph: Graph) -> Graph:
    """Without orders as parameters: a twin is a permuted copy."""
    nodes, number = [], 10_000
    for node in graph.nodes:
        given = dict(node.parameters)
        order = given.pop("order", None)
        if order is None:
            nodes.append(node)
            continue
        (twin,) = node.outputs
        shape = tuple(twin.shape[a] for a in inverse(order))
        whole, number = Value(number, shape, twin.dtype, twin.device), number + 1
        nodes.append(Node(node.op, node.inputs, given, (whole,)))
        nodes.append(Node("permute", (whole,), {"axes": order}, (twin,)))
    return Graph(graph.inputs, graph.constants, nodes, graph.outputs)


def same(changed: Graph, graph: Graph, inputs) -> None:
    for got, want in zip(plain(changed)(*inputs), graph(*inputs), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


FOLLOWING = {
    "elementwise": lambda x: ft.maximum(ft.exp(x), 0.5),
    "with another operand": lambda x, y: ft.exp(x) * y,
    "with a bias per channel": lambda x, b: ft.exp(x) + ft.reshape(b, (1, -1, 1, 1)),
    "with a lower rank": lambda x, b: b + ft.exp(x),
    "where": lambda x, y: ft.where(y < 0.0, ft.exp(x), y),
    "statistics per channel": lambda x: ft.sum(ft.exp(x), (0, 2, 3)),
    "statistics with axes": lambda x: ft.exp(x) - ft.max(ft.exp(x), (0, 2, 3), keepdims=True),
    "means of images": lambda x: ft.sum(ft.exp(x), (2, 3)) * 2.0,
    "sums over channels": lambda x: ft.sum(ft.exp(x), 1) * 2.0,
    "padding": lambda x: ft.pad(ft.exp(x), [(0, 0), (1, 0), (2, 1), (0, 3)], value=2.0) * 2.0,
    "a slice": lambda x: ft.exp(x)[:, 1:, ::2, 1:4] * 2.0,
    "concatenation": lambda x, y: ft.concatenate([ft.exp(x), y], 1) * 2.0,
    "windows": lambda x: ft.max_pool(ft.exp(x), 2) * 2.0,
    "axes exchanged": lambda x, y: ft.permute(ft.exp(x), (1, 0, 3, 2)) * y,
    "axes exchanged again": lambda x: (
        ft.permute(ft.permute(ft.exp(x), (3, 2, 1, 0)), (1, 3, 0, 2)) * 2.0
    ),
    "axes as they lie": lambda x: ft.permute(ft.exp(x), (0, 2, 3, 1)) * 2.0,
    "a change of shape": lambda x: ft.reshape(ft.exp(x), (2, -1)) * 2.0,
}
SHAPES = {"with another operand": [SHAPE, SHAPE], "with a bias per channel": [SHAPE, (3,)]}
SHAPES |= {"with a lower rank": [SHAPE, (4, 1)], "where": [SHAPE, SHAPE]}
SHAPES |= {"concatenation": [SHAPE, (2, 2, 4, 5)], "axes exchanged": [SHAPE, (3, 2, 5, 4)]}


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_computes_the_same(name):
    graph, inputs = recorded(FOLLOWING[name], *SHAPES.get(name, [SHAPE]))
    changed = reorder(graph, ELEMENTWISE.__contains__, preferred_by_exp)
    same(changed, graph, inputs)


MOVED = {"a change of shape", "axes as they lie"}


@pytest.mark.parametrize("name", sorted(FOLLOWING.keys() - MOVED))
def test_what_follows_runs_in_the_same_order(name):
    graph, _ = recorded(FOLLOWING[name], *SHAPES.get(name, [SHAPE]))
    changed = reorder(graph, ELEMENTWISE.__contains__, preferred_by_exp)
    views = {"permute", "reshape", "broadcast_to"}
    before = {v for node in graph.nodes if node.op not in views for v in node.outputs}
    large = [
        node.op
        for node in changed.nodes
        if node.op not in views and node.outputs[0] in before and len(node.outputs[0].shape) == 4
    ]
    assert set(large) <= {"less"}, "what has four axes is made as a twin"


def test_inputs_that_lie_in_another_order_pass_it_on():
    graph, inputs = recorded(lambda x: x * 2.0, SHAPE)
    changed = reorder(
        graph, ELEMENTWISE.__contains__, lambda node: None, {graph.inputs[0]: (0, 2, 3, 1)}
    )
    (product,) = [n for n in changed.nodes if n.op == "multiply"]
    assert product.outputs[0].shape == (2, 4, 5, 3)
    same(changed, graph, inputs)


def test_axes_exchanged_until_they_lie_in_c_order_are_followed_by_nothing():
    graph, _ = recorded(FOLLOWING["axes as they lie"], SHAPE)
    changed = reorder(graph, ELEMENTWISE.__contains__, preferred_by_exp)
    assert changed.nodes[-1] == graph.nodes[-1]


def test_without_a_preference_nothing_changes():
    graph, _ = recorded(lambda x: ft.sum(x * 2.0, 1), SHAPE)
    changed = reorder(graph, ELEMENTWISE.__contains__, lambda node: None)
    assert changed.nodes == graph.nodes


def test_the_order_of_an_array_follows_from_its_strides():
    last = np.empty((2, 4, 5, 3)).transpose(0, 3, 1, 2)
    strides = tuple(s // last.itemsize for s in last.strides)
    assert order_of(last.shape, strides) == (0, 2, 3, 1)
    assert inverse((0, 2, 3, 1)) == (0, 3, 1, 2)
    assert order_of((2, 3), (3, 1)) is None, "C order"
    assert order_of((2, 3), (6, 2)) is None, "gaps"
    assert order_of((2, 3), (0, 1)) is None, "repeated elements"


def test_libraries_state_which_order_their_kernels_write_best():
    class Any(KernelLibrary):
        def prepare(self, descriptor):
            raise UnsupportedError

        def report(self):
            return {}

    image, few, weights = (2, 40, 6, 6), (2, 48, 6, 6), (48, 40, 3, 3)
    many = (64, 40, 6, 6), (64, 48, 6, 6)
    order = Any().preferred_order
    assert order(Convolution, image, weights, few) == (0, 2, 3, 1)
    assert order(ConvDataGrad, few, weights, image) == (0, 2, 3, 1)
    assert order(ConvWeightGrad, image, few, weights) == (2, 3, 1, 0)
    assert order(ConvWeightGrad, *many, weights) is None
    assert order(Matmul, (4, 5), (5, 6), (4, 6)) is None


def test_the_order_of_a_library_is_preferred_where_it_computes_the_node(monkeypatch):
    graph, _ = recorded(lambda x, w: ft.conv(x, w, padding=1), (2, 40, 6, 6), (48, 40, 3, 3))
    (node,) = graph.nodes
    monkeypatch.setattr(registry, "active_library", lambda: None)
    assert preferred_order(node) is None
    generated = GeneratedKernels()
    monkeypatch.setattr(registry, "active_library", lambda: generated)
    assert preferred_order(node) == (0, 2, 3, 1)
    monkeypatch.setattr(generated, "preferred_order", lambda kind, *shapes: (1, 0, 2, 3))
    assert preferred_order(node) == (1, 0, 2, 3)
