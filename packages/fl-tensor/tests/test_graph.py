"""What trace records, and that a graph computes it again: here, elsewhere, and from a file."""

from __future__ import annotations

import json
import math

import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.graph import Graph, Node, Value


class Other(NumpyBackend):
    """Another backend with a softmax of its own."""

    CONTRACT = (1, 0)
    name = "other"

    def softmax(self, x, axis):
        return self.full(x.shape, 0.5, x.dtype, x.device)


def model(x, w):
    hidden = ft.tanh(x @ w + ft.asarray([0.5, -0.5]))
    return ft.softmax(ft.concatenate([hidden, hidden * 2], 1)), hidden.sum()


@pytest.fixture
def operands():
    generator = ft.Generator(3)
    return generator.normal((4, 3)), generator.normal((3, 2))


@pytest.fixture
def graph(operands):
    x, w = operands
    with ft.trace() as graph:
        graph.input(x, "x")
        graph.output(*model(x, w))
    return graph


def values(arrays):
    return [x.tolist() for x in arrays]


def test_a_trace_computes_the_same_again(graph, operands):
    assert values(graph(*operands)) == values(model(*operands))
    others = [operand * 3 for operand in operands]
    assert values(graph(*others)) == values(model(*others))


def test_a_trace_computes_the_same_on_another_backend(graph, operands):
    other = Other()
    moved = [x.to(other) for x in operands]
    replayed = graph(*moved)
    assert replayed[0].backend is moved[0].backend
    assert values(replayed) == values(model(*operands)), "primitives were recorded, not softmax"
    assert [x.shape for x in graph(*(x.to(ft.get_backend("null")) for x in operands))] == [
        (4, 4),
        (),
    ]


def test_a_graph_runs_in_any_namespace(graph, operands):
    adapters = [x.adapter for x in operands]
    backend = ft.get_backend("numpy")
    raw = graph.run(backend, adapters)
    assert values(ft.Tensor(x, backend) for x in raw) == values(model(*operands))
    with ft.count() as counts:
        graph(*operands)
    assert counts["tanh"] == counts["matmul"] == 1
    assert counts["softmax"] == 0


def test_values_know_shape_dtype_and_device(graph):
    x, w = graph.inputs
    assert (str(x), x.type, str(x.device)) == ("%x", "float32(4, 3)", "cpu")
    assert w.shape == (3, 2)
    matmul = graph.nodes[0]
    assert (matmul.op, matmul.operands, matmul.parameters) == ("matmul", [x, w], {})
    assert matmul.outputs[0].shape == (4, 2)
    concatenate = next(n for n in graph.nodes if n.op == "concatenate")
    assert concatenate.parameters == {"axis": 1}
    assert len(concatenate.operands) == 2
    assert isinstance(concatenate.inputs[0], tuple)
    ids = [v.id for n in graph.nodes for v in n.outputs]
    assert len(set(ids)) == len(ids)
    assert [v.shape for v in graph.outputs] == [(4, 4), ()]
    ((constant, data),) = graph.constants
    assert (constant.shape, data) == ((2,), bytes(ft.asarray([0.5, -0.5]).tobytes()))


def test_results_that_are_still_held_are_the_outputs():
    x = ft.ones(3)
    with ft.trace() as graph:
        y = x * 2
        z = y - 1
        ft.exp(z)  # dropped at once
    assert [graph.nodes[i].op for i in (1, 3)] == ["multiply", "subtract"]
    assert len(graph.outputs) == 2
    assert values(graph(x)) == [y.tolist(), z.tolist()]
    assert "exp" in [n.op for n in graph.nodes]
    assert "exp" not in [n.op for n in graph.prune().nodes]


def test_prune_keeps_what_the_outputs_need(graph, operands):
    first, second = graph.outputs
    small = graph.prune([second])
    assert "exp" not in [n.op for n in small.nodes]
    assert [n.op for n in small.nodes][-1] == "sum"
    assert len(small.nodes) < len(graph.nodes)
    assert small.inputs == graph.inputs
    assert small.constants == graph.constants
    assert values(small(*operands)) == [model(*operands)[1].tolist()]
    assert len(graph.prune().outputs) == 2
    assert graph.prune([graph.inputs[0]]).constants == []
    with pytest.raises(ft.ArgumentError, match="no value of this graph"):
        graph.prune([Value(0, (), ft.float32, ft.CPU)])


def test_whole_compositions_when_asked():
    x = ft.ones((2, 3))
    for whole in (True, ["softmax"]):
        with ft.trace(whole=whole) as graph:
            ft.softmax(x)
            y = ft.sigmoid(x)
        names = [n.op for n in graph.nodes]
        assert ("softmax" in names, "sigmoid" in names) == (True, whole is True)
        assert values(graph(x))[-1] == y.tolist()
    assert graph.nodes[0].parameters == {"axis": 1}


def test_a_backends_own_version_is_one_node_and_replays_anywhere():
    x = ft.asarray([[1.0, 2.0]], backend=Other())
    with ft.trace() as graph:
        y = ft.softmax(x)
    assert [n.op for n in graph.nodes] == ["softmax"]
    assert values(graph(x)) == [y.tolist()] == [[[0.5, 0.5]]]
    plain = ft.asarray([[1.0, 2.0]])
    assert values(graph(plain)) == [ft.softmax(plain).tolist()]


def test_assignment_is_recorded_as_values_and_not_as_writing_in_place():
    x = ft.zeros(4)
    before = x.copy()
    with ft.trace() as graph:
        x[1] = 5.0
        x[ft.asarray([0, 2])] += 1.0
        graph.output(x)
    assert all("donate" not in n.parameters for n in graph.nodes)
    assert {"slice_update", "scatter"} <= {n.op for n in graph.nodes}
    assert values(graph(before)) == [x.tolist()] == [[1, 5, 1, 0]]
    assert before.tolist() == [0] * 4


def test_random_numbers_are_recorded_with_their_seed():
    with ft.trace() as graph:
        x = ft.Generator(7).normal((3,))
    assert graph.inputs == []
    assert values(graph(constants=True)) == [x.tolist()]


def test_several_results_and_results_of_unknown_shape():
    x = ft.asarray([3.0, 0.0, 5.0])
    with ft.trace() as graph:
        top, places = ft.topk(x, 2)
        (found,) = ft.nonzero(x)
        graph.output(top, places, found)
    assert values(graph(x)) == [[5, 3], [2, 0], [0, 2]]
    assert values(graph(ft.ones(3)))[2] == [0, 1, 2]


def test_what_python_reads_is_noted():
    x = ft.ones(2)
    with ft.trace() as graph:
        total = x.sum()
        y = x * 2 if total.item() > 1 else x
        graph.output(y)
    assert [v.shape for v in graph.reads] == [()]
    assert "sum" not in [n.op for n in graph.prune().nodes]


def test_an_output_may_be_an_input():
    x = ft.ones(2)
    with ft.trace() as graph:
        graph.output(x)
    assert graph.outputs == graph.inputs
    assert values(graph(x)) == [[1, 1]]


def test_inputs_and_outputs_are_named_inside_the_block():
    x = ft.ones(2)
    with ft.trace() as graph:
        y = x + x
        with pytest.raises(ft.ArgumentError, match="announce it first"):
            graph.input(x)
    with pytest.raises(ft.ArgumentError, match="the block has ended"):
        graph.output(y)


def test_a_block_that_fails_leaves_a_graph_without_outputs():
    x = ft.ones(2)
    with pytest.raises(ZeroDivisionError), ft.trace() as graph:
        y = x + x
        raise ZeroDivisionError
    assert y.shape == (2,)
    assert len(graph.nodes) == 1
    assert graph.outputs == []


def test_a_trace_records_one_block_at_a_time():
    x, recorder = ft.ones(2), ft.trace()
    with recorder as first:
        with pytest.raises(ft.BackendError, match="recording already"), recorder:
            raise AssertionError("the block must not begin")
        y = x + x
    with recorder as second:
        z = x * x
    assert [n.op for g in (first, second) for n in g.nodes] == ["add", "multiply"]
    assert y.shape == z.shape


def test_inputs_that_do_not_fit_are_refused_all_at_once(graph, operands):
    x, w = operands
    with pytest.raises(ft.ArgumentError, match="1 inputs given, the graph has 2: %x: float32"):
        graph(x)
    with pytest.raises(ft.ArgumentError, match=r"%x is float32\(3, 4\).*%.* is int64\(3, 2\)"):
        graph(x.T, w.astype("int64"))


def test_values_are_let_go_after_their_last_use(operands):
    x = ft.ones((300, 300))
    with ft.trace() as graph:
        y = x
        for _ in range(20):
            y = y + x
        graph.output(y)
    import fl_memory

    with fl_memory.use(fl_memory.get("system")) as manager:
        before = manager.stats()
        highest = []
        stop = manager.on_event(lambda e: highest.append(manager.stats().live_bytes))
        graph(x)
        stop()
    assert max(highest) - before.live_bytes <= 3 * x.nbytes


# ---- text, DOT, JSON ----------------------------------------------------------------------------


def test_a_graph_prints(graph):
    lines = str(graph).splitlines()
    assert lines[0] == "graph(%x: float32(4, 3), %1: float32(3, 2)):"
    assert "    %2: float32(4, 2) = matmul(%x, %1)" in lines
    assert any("concatenate([%" in line and "axis=1)" in line for line in lines)
    assert lines[-1].startswith("    return %")


def test_dot_has_a_box_per_node_and_an_edge_per_operand(graph):
    text = graph.to_dot()
    assert text.startswith("digraph {")
    assert text.rstrip().endswith("}")
    edges = sum(len(n.operands) for n in graph.nodes) + len(graph.outputs)
    assert text.count(" -> ") == edges
    assert text.count("[label=") >= len(graph.nodes)
    assert 'label="input %x"' in text
    quoted = Graph([Value(0, (), ft.float32, ft.CPU, 'a "b"')])
    assert '\\"b\\"' in quoted.to_dot()


def test_json_there_and_back(graph, operands):
    text = graph.to_json()
    again = Graph.from_json(text)
    assert again.to_json() == text
    assert str(again) == str(graph)
    assert values(again(*operands)) == values(model(*operands))


def test_json_of_every_kind_of_parameter():
    x = ft.ones((1, 1, 4, 4))
    with ft.trace(whole=True) as graph:
        y = ft.max_pool(x, 3, padding=1)
        z = ft.full(2, -math.inf)
        n = ft.full(2, math.nan)
        c = ft.conv(x, ft.ones((1, 1, 2, 2)), padding=((1, 0), (0, 1))).astype("int32")
        graph.output(y, z, n, c)
    text = graph.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    again = Graph.from_json(text)
    assert [n.parameters for n in again.nodes][0:2] == [n.parameters for n in graph.nodes][0:2]
    first, second, third, fourth = again(*([x] * len(again.inputs)))
    assert first.tolist() == y.tolist()
    assert second.tolist() == [-math.inf] * 2
    assert all(map(math.isnan, third.tolist()))
    assert fourth.tolist() == c.tolist()
    assert fourth.dtype is ft.int32


def damaged(change):
    with ft.trace() as graph:
        graph.output(ft.ones(2).sum(0) + ft.asarray([1.0]))
    data = json.loads(graph.to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="other"), "expected 'fl-graph'"),
        (lambda d: d.update(version=9), "version 9"),
        (lambda d: d.pop("nodes"), "nodes"),
        (lambda d: d["nodes"][0].update(op="system"), "no operation 'system'"),
        (lambda d: d["nodes"][0].update(op="__class__"), "no operation"),
        (lambda d: d["nodes"][0].update(op="to_host"), "no operation 'to_host'"),
        (lambda d: d["nodes"][0]["parameters"].update(more=1), "'more' is unknown"),
        (lambda d: d["nodes"][0]["parameters"].pop("shape"), "'shape' is unknown or missing"),
        (lambda d: d["nodes"][0].update(inputs=[99]), "99"),
        (lambda d: d["nodes"][-1]["inputs"].pop(), "inputs"),
        (lambda d: d["outputs"].append(77), "77"),
        (lambda d: d["nodes"][0]["outputs"][0].update(id=-1), "ints from 0"),
        (lambda d: d["nodes"][0]["outputs"][0].update(dtype="float7"), "float7"),
        (lambda d: d["nodes"][0]["outputs"][0].update(shape=["a"]), "'a'"),
        (lambda d: d["nodes"][1]["outputs"][0].update(id=d["nodes"][0]["outputs"][0]["id"]), "twi"),
        (lambda d: d["constants"][0].update(data="AAAA"), "do not fill"),
        (lambda d: d["constants"][0].update(data="%"), "constant"),
        (lambda d: d["nodes"][0]["parameters"].update(dtype={"eval": "1"}), "eval"),
    ],
)
def test_json_that_is_no_sound_graph_is_refused(change, words):
    with pytest.raises(ft.ArgumentError, match=r"\[graph\]") as caught:
        Graph.from_json(damaged(change))
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "nothing", "3", '{"format": "fl-graph"}', "[" * 100000])
def test_text_that_is_no_graph_is_refused(text):
    with pytest.raises(ft.ArgumentError, match=r"\[graph\]"):
        Graph.from_json(text)


def test_a_graph_can_be_built_by_hand():
    x = Value(0, (2,), ft.float32, ft.CPU, "x")
    y = Value(1, (2,), ft.float32, ft.CPU)
    graph = Graph([x], nodes=[Node("add", (x, x), {}, (y,))], outputs=[y])
    assert str(graph.nodes[0]) == "%1: float32(2,) = add(%x, %x)"
    assert values(graph(ft.asarray([1.0, 2.0]))) == [[2, 4]]
