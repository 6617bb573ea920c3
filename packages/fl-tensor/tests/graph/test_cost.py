"""The cost of nodes: what they must move, and what they compute."""

from __future__ import annotations

import math

import pytest

import fl_tensor as ft
from fl_tensor.graph import cost
from fl_tensor.graph.strides import layouts
from fl_tensor.testing.graphs import recorded


def of(function, *shapes):
    """The cost of all nodes together."""
    graph, _ = recorded(function, *shapes)
    places = layouts(graph)
    nodes = [n for n in graph.nodes if places[n.outputs[0]].root is n.outputs[0]]
    return cost.of_group(nodes, places, {places[v].root for v in graph.outputs})


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (lambda x, y: x @ y, [(5, 3, 7), (7, 2)], 2 * 5 * 3 * 7 * 2),
        (lambda x, w: ft.conv(x, w, groups=2), [(1, 4, 5, 5), (6, 2, 3, 3)], 2 * 6 * 9 * 2 * 9),
        (lambda x: ft.exp(x), [(3, 4)], 12),
        (lambda x: ft.sum(x, 0), [(3, 4)], 12),
        (lambda x: ft.permute(x, (1, 0)), [(3, 4)], 0),
        (lambda x: ft.concatenate([x, x]), [(3, 4)], 0),
    ],
)
def test_operations(function, shapes, flops):
    assert of(function, *shapes).flops == flops


def test_gradients_of_a_strided_convolution_take_as_much_as_it_does():
    x, w, out = (2, 4, 9, 9), (6, 2, 3, 3), (2, 6, 4, 4)  # stride 2, 2 groups
    forward = cost.contraction("conv", [x, w], math.prod(out))
    assert forward == 2 * math.prod(out) * 2 * 9
    assert cost.contraction("conv_data_gradient", [out, w], math.prod(x)) == forward
    assert cost.contraction("conv_weight_gradient", [out, x], math.prod(w)) == forward


def test_what_a_group_keeps_to_itself_is_not_moved():
    both = of(lambda x: ft.exp(x) * x, (100,))
    assert (both.read, both.written, both.bytes) == (400, 400, 800)


def test_what_is_broadcast_is_read_once():
    assert of(lambda x, b: x + b, (100, 8), (8,)).read == 4 * (800 + 8)


def test_what_is_broadcast_in_front_is_read_once():
    assert of(lambda x: ft.exp(ft.broadcast_to(x[:1], (50,))), (100,)).read == 4


def test_a_slice_is_not_the_whole():
    assert of(lambda x: ft.exp(x[:10]), (100,)).read == 40


def test_pieces_that_overlap_are_not_more_than_the_whole():
    assert of(lambda x: x[1:] + x[:-1], (100,)).read == 400


def test_a_gather_reads_what_it_gives():
    rows = ft.asarray([3, 1])
    with ft.trace() as graph:
        table = ft.zeros((1000, 8))
        graph.output(ft.gather(table, rows))
    (node,) = [n for n in graph.nodes if n.op == "gather"]
    assert cost.of_group([node]).read == 2 * 8 * 4 + cost.size(node.operands[1])
