"""Passes: what each leaves of a graph, and that this computes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from planned import fusible

import fl_tensor as ft
from fl_jit.passes import fusion_cost
from fl_jit.passes.fusion import Fusion
from fl_jit.passes.reduction_forms import REDUCTIONS, reduction_form, split, without_keepdims
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.cse import cse
from fl_tensor.graph.pipeline import Pipeline
from fl_tensor.graph.strides import layouts
from fl_tensor.testing.graphs import recorded


def fused(graph: Graph) -> Fusion:
    return Fusion(graph, layouts(graph), fusible)


def groups(graph: Graph) -> list[list[str]]:
    """The operations of each group."""
    return [[node.op for node in group.nodes] for group in fused(graph).groups]


def same(graph, other, inputs):
    for a, b in zip(graph(*inputs), other(*inputs), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


# --- dead code ------------------------------------------------------------------------------------


def test_a_node_stays_for_any_of_its_results():
    x, first, second = (Value(i, (2,), ft.float32, ft.CPU) for i in range(3))
    node = Node("several", (x,), {}, (first, second))
    for wanted in (first, second):
        assert Graph([x], (), [node], [wanted]).prune().nodes == [node]
    small = Graph([x], (), [node], [x], [x, first]).prune()
    assert small.nodes == [] and small.reads == [x]


def test_what_a_pass_from_outside_leaves_unused_is_left_out():
    graph, _ = recorded(ft.exp, (3,))

    def longer(graph):
        unused = graph.value((3,), ft.float32)
        node = Node("tanh", (graph.inputs[0],), {}, (unused,))
        return Graph(graph.inputs, (), [*graph.nodes, node], graph.outputs)

    assert [n.op for n in Pipeline().adding("longer", longer).run(graph).nodes] == ["exp"]


# --- common subexpressions ------------------------------------------------------------------------


def test_equal_calls_are_made_once():
    graph, inputs = recorded(lambda x: (ft.exp(x) + ft.exp(x), ft.exp(x)), (3,))
    smaller = cse(graph)
    assert [n.op for n in smaller.nodes] == ["exp", "add"]
    same(graph, smaller, inputs)


def test_sequences_are_equal_if_their_members_are():
    def function(x, y):
        return (
            ft.concatenate([ft.exp(x), y]),
            ft.concatenate([ft.exp(x), y]),
            ft.concatenate([y, ft.exp(x)]),
        )

    graph, inputs = recorded(function, (3,), (3,))
    smaller = cse(graph)
    assert [n.op for n in smaller.nodes] == ["exp", "concatenate", "concatenate"]
    same(graph, smaller, inputs)


def test_calls_with_other_arguments_are_other_calls():
    graph, _ = recorded(lambda x: (ft.full(3, 0.0) + x, ft.full(3, -0.0) + x), (3,))
    assert [n.op for n in cse(graph).nodes].count("full") == 2


# --- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 3), (0, 2, 3), (1, 2)])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_every_reduction_is_over_first_or_last_axes(op, axis, keepdims):
    function = getattr(ft, op)
    graph, inputs = recorded(lambda x: function(x, axis, keepdims=keepdims), (2, 3, 4, 5))
    steps = split(graph)
    assert all(reduction_form(n, 0) for n in steps.nodes if n.op in REDUCTIONS)
    same(graph, steps, inputs)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "shape,axis,operations",
    [
        ((1, 3, 4, 5), (0, 2, 3), ["reshape", "sum", "reshape"]),
        ((3, 1, 4), (0, 1), ["sum"]),
        ((3, 4, 1), (1,), ["reshape", "sum", "reshape"]),
        ((2, 1, 3, 4, 1), (0, 3), ["reshape", "sum", "sum", "reshape"]),
        ((2, 3, 1, 4), (1,), ["reshape", "permute", "sum", "reshape"]),
        ((2, 1, 3), (1,), ["sum"]),
        ((2, 3, 4), (0, 2), ["sum", "sum", "reshape"]),
    ],
)
def test_axes_of_one_element_are_in_nobodys_way(shape, axis, operations, keepdims):
    graph, inputs = recorded(lambda x: ft.sum(x, axis, keepdims=keepdims), shape)
    steps = split(graph)
    assert [n.op for n in steps.nodes] == operations
    same(graph, steps, inputs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_not_rounded_between(dtype):
    graph, _ = recorded(lambda x: ft.sum(x.astype(dtype), (0, 2)), (2, 3, 4))
    assert [n.op for n in split(graph).nodes] == ["cast", "sum"]


# --- fusion ---------------------------------------------------------------------------------------


def test_a_chain_is_one_group():
    graph, _ = recorded(lambda x, b: ft.tanh(x * x + b), (4, 3), (3,))
    assert len(groups(graph)) == 1


def test_softmax_is_one_group_of_rows():
    graph, _ = recorded(lambda x: ft.softmax(x, -1), (4, 3))
    (group,) = fused(graph).groups
    assert (group.space, group.row_axes) == ((4, 3), 1)
    assert {m.form for m in group.members} == {"full", "row"}


def test_the_gradient_of_a_bias_leaves_the_group_of_its_operand():
    def function(x):
        y = ft.exp(x)
        return y, ft.sum(y, 0)

    (group,) = fused(recorded(function, (4, 3))[0]).groups
    assert [m.form for m in group.members] == ["full", "column"]


def test_a_result_over_columns_is_known_only_when_the_group_has_run():
    graph, _ = recorded(lambda x: x - ft.sum(x, 0, keepdims=True), (4, 3))
    assert groups(graph) == [["sum"], ["subtract"]]


def test_changes_of_shape_in_between_do_no_harm():
    graph, _ = recorded(lambda x: ft.softmax(ft.reshape(ft.exp(x), (2, 3, 4)), -1), (6, 4))
    (group,) = fused(graph).groups
    assert group.space in ((6, 4), (2, 3, 4))


def test_elements_in_another_order_are_read_from_memory():
    graph, _ = recorded(lambda x: ft.exp(x) + ft.permute(ft.exp(x), (1, 0)), (3, 3))
    assert groups(cse(graph)) == [["exp"], ["add"]]


def test_no_path_leads_out_of_a_group_and_back():
    def function(x):
        y = ft.exp(x)
        return (y @ x) + y

    assert groups(recorded(function, (3, 3))[0]) == [["exp"], ["matmul"], ["add"]]


def test_groups_of_several_operands_become_one():
    graph, _ = recorded(lambda x, y: ft.exp(x) + ft.tanh(y), (3, 3), (3, 3))
    assert groups(graph) == [["exp", "tanh", "add"]]


def test_a_group_has_a_largest_size():
    def function(x):
        for _ in range(50):
            x = x + x
        return x

    graph, _ = recorded(function, (3,))
    found = Fusion(graph, layouts(graph), fusible, most=20).groups
    assert [len(g.members) for g in found] == [20, 20, 10]


def test_groups_that_are_merged_have_a_largest_size():
    def function(x, y):
        for _ in range(12):
            x, y = x + x, y * y
        return x - y

    graph, _ = recorded(function, (3,), (3,))
    assert len(Fusion(graph, layouts(graph), fusible, most=25).groups) == 1
    found = Fusion(graph, layouts(graph), fusible, most=20).groups
    assert sorted(len(g.members) for g in found) == [12, 13]


def test_a_group_does_not_need_itself_by_way_of_others():
    def function(x, y):
        first, second = ft.exp(x), ft.exp(y)
        product = second @ y
        later = second + ft.sum(first, 0, keepdims=True)  # second comes after first from here on
        return later, first * product

    graph, _ = recorded(function, (4, 4), (4, 4))
    assert ["exp", "sum"] in groups(graph)
    can_run(graph)


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.parametrize("cached", [fusion_cost.CACHED, 0], ids=["cached", "large"])
def test_groups_can_run_one_after_the_other(seed, cached, monkeypatch):
    monkeypatch.setattr(fusion_cost, "CACHED", cached)  # 0: all is as if it were large
    rng = random.Random(seed)

    def function(x, y):
        values = [x, y]
        for _ in range(rng.randint(5, 40)):
            a, b = rng.choice(values), rng.choice(values)
            kind = rng.random()
            if kind < 0.5:
                values.append(rng.choice((ft.add, ft.multiply, ft.maximum))(a, b))
            elif kind < 0.65:
                values.append(ft.exp(a))
            elif kind < 0.8:
                axis = rng.choice((0, 1))
                values.append(a - ft.sum(b, axis, keepdims=True))
            elif kind < 0.85:
                values.append(a @ b)
            elif kind < 0.9:
                values.append(a * ft.sqrt(ft.sum(b)))
            else:
                values.append(ft.permute(a, (1, 0)))
        return tuple(values[-3:])

    can_run(recorded(function, (4, 4), (4, 4))[0])


def can_run(graph):
    """Every node reads what earlier groups or earlier members of its own have made, and what is
    asked for is made; groups know what they read from memory."""
    found = layouts(graph)
    made = set(graph.inputs) | {c.value for c in graph.constants}
    nodes = []
    for group in Fusion(graph, found, fusible).groups:
        own = {v for node in group.nodes for v in node.outputs}
        roots = {found[v].root for node in group.nodes for v in node.operands}
        assert group.reads.keys() == roots - own
        for node in group.nodes:
            assert {found[v].root for v in node.operands} <= made
            assert made.isdisjoint(node.outputs)
            made.update(node.outputs)
            nodes.append(node)
    assert {found[v].root for v in graph.outputs} <= made
    assert len(set(map(id, nodes))) == len(nodes), "each runs once"


def test_a_reduction_with_keepdims_is_the_one_without_in_another_shape():
    def function(x):
        return x - ft.sum(x, (0, 2), keepdims=True), ft.sum(x, (0, 2)), ft.max(x, 1, keepdims=True)

    graph, inputs = recorded(function, (2, 3, 4))
    smaller = cse(without_keepdims(graph))
    assert [n.op for n in smaller.nodes].count("sum") == 1
    assert not any(n.parameters.get("keepdims") for n in smaller.nodes)
    same(graph, smaller, inputs)
