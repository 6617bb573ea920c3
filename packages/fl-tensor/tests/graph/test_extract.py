"""ft.named and ft.extract: inner values by name, and the part of a graph between values."""

from __future__ import annotations

import pytest

import fl_tensor as ft


@pytest.fixture(autouse=True)
def backend():
    with ft.use("numpy"):
        yield


def array(*shape, seed=0):
    return ft.Generator(seed).normal(shape)


W, V = array(4, 3, seed=1), array(3, 2, seed=2)


def network(x, w=W, v=V):
    hidden = ft.named(ft.tanh(x @ w), "hidden")
    scaled = hidden * 2
    return ft.named(scaled @ v, "logits")


@pytest.fixture
def graph():
    x = array(2, 4)
    with ft.trace() as graph:
        for name, value in (("x", x), ("w", W), ("v", V)):
            graph.input(value, name)
        graph.output(network(x))
    return graph


def bits(x):
    return x.numpy().tobytes()


# ---- names ---------------------------------------------------------------------------------------


def test_a_name_is_shown_and_changes_nothing(graph):
    assert "%hidden: float32(2, 3) = tanh(" in str(graph)
    assert "%logits: float32(2, 2) = matmul(" in str(graph)
    x = array(2, 4)
    assert ft.named(x, "x") is x
    (y,) = graph(x, W, V)
    assert bits(y) == bits(network(x))


def test_serialization_and_passes_keep_value_names():
    compiled = ft.compile(lambda x: network(x), strict=True)
    graph = compiled.graph(array(2, 4))
    names = [v.name for node in graph.nodes for v in node.outputs if v.name]
    assert names == ["hidden", "logits"]
    from fl_tensor.graph.constant_folding import fold_constants
    from fl_tensor.graph.cse import cse

    passed = cse(fold_constants(graph)).prune()
    read = ft.graph.Graph.from_json(passed.to_json())
    assert [v.name for node in read.nodes for v in node.outputs if v.name] == names
    assert [v.name for v in graph.inputs] == [
        "argument0", "network.defaults.0", "network.defaults.1",
    ]  # fmt: skip


def test_a_name_that_is_taken_gets_a_number():
    x = array(3)
    with ft.trace() as graph:
        for _ in range(3):
            x = ft.named(ft.exp(x), "layer")
        ft.named(x, "last")
        graph.output(x)
    assert [v.name for node in graph.nodes for v in node.outputs if v.name] == [
        "layer", "layer_2", "last",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "5", "a b", "a\n", "é" * 300, 5, None])
def test_other_names_are_refused(name):
    with pytest.raises(ft.ArgumentError, match="letters, digits"):
        ft.named(array(2), name)
    with pytest.raises(ft.DTypeError, match="expected a Tensor"):
        ft.named(2.0, "two")


# ---- parts ---------------------------------------------------------------------------------------


def test_a_part_computes_what_the_whole_does(graph):
    x = array(2, 4)
    hidden = ft.tanh(x @ W)
    first = ft.extract(graph, feeds=["x", "w"], fetches=["hidden"])
    second = ft.extract(graph, feeds=["hidden", "v"], fetches=["logits"])
    assert [node.op for node in first.nodes] == ["matmul", "tanh"]
    (found,) = first(x, W)
    assert bits(found) == bits(hidden)
    (logits,) = second(hidden, V)
    assert bits(logits) == bits(network(x))
    assert len(second.nodes) < len(graph.nodes)
    assert [v.name for v in second.inputs] == ["hidden", "v"]


def test_values_and_several_fetches_in_order(graph):
    hidden = next(v for node in graph.nodes for v in node.outputs if v.name == "hidden")
    part = graph.extract([hidden, "v"], ["logits", hidden, "logits"])
    a, b, c = part(hidden_value := array(2, 3), V)
    assert bits(b) == bits(hidden_value) and bits(a) == bits(c)


def test_a_fed_constant_and_one_of_two_results():
    x = array(4)
    with ft.trace() as graph:
        graph.input(x, "x")
        values, places = ft.topk(x, 2)
        ft.named(values, "values")
        ft.named(places, "places")
        graph.output(ft.named(values * 2 + places, "sum"))
    part = graph.extract(["values", "x"], ["sum"])
    (got,) = part(ft.asarray([5.0, 7.0]), x)
    assert bits(got) == bits(ft.asarray([5.0, 7.0]) * 2 + ft.topk(x, 2)[1])


def test_what_is_missing_is_named(graph):
    with pytest.raises(ft.ArgumentError, match=r"fetch %logits needs %v, %w, %x, which nobody"):
        graph.extract([], ["logits"])
    with pytest.raises(ft.ArgumentError, match=r"fetch %logits needs %v, which nobody feeds"):
        graph.extract(["hidden"], ["hidden", "logits"])
    with pytest.raises(ft.ArgumentError, match=r"needs %x, which nobody feeds"):
        graph.extract([], ["x"])


@pytest.mark.parametrize(
    ("feeds", "fetches", "message"),
    [
        (["hiden"], ["logits"], "did you mean 'hidden'"),
        ([], ["nothing like it"], "named are hidden, logits, v, w, x"),
        ([""], ["logits"], "no value has the name ''"),
        (["hidden", "hidden"], ["logits"], "%hidden is fed twice"),
        (["x"], [], "no fetches"),
        ("hidden", ["logits"], "expected a list of names"),
        ([3], ["logits"], "expected names or Values"),
        (3, ["logits"], "expected a list of names"),
    ],
)
def test_other_feeds_and_fetches_are_refused(graph, feeds, fetches, message):
    with pytest.raises(ft.FlError, match=message):
        graph.extract(feeds, fetches)


def test_names_of_several_values_and_values_of_other_graphs(graph):
    graph.nodes[0].outputs[0].name = "hidden"
    with pytest.raises(ft.ArgumentError, match="several values have the name 'hidden'"):
        graph.extract(["hidden"], ["logits"])
    with ft.trace() as other:
        y = ft.exp(array(2))
        other.output(y)
    with pytest.raises(ft.ArgumentError, match="is no value of this graph"):
        graph.extract([], other.outputs)


def test_parts_of_a_loaded_graph(tmp_path):
    held = {"w": W, "v": V}
    compiled = ft.compile(lambda x, scale: network(x * scale, held["w"], held["v"]), strict=True)
    compiled.save(tmp_path / "f.flgraph", array(2, 4), 2.0)
    loaded = ft.load_graph(tmp_path / "f.flgraph")
    part = ft.extract(loaded.graph, feeds=["hidden", "held.v"], fetches=["logits"])
    hidden = ft.tanh(array(2, 4) * 2.0 @ W)
    (logits,) = part(hidden, loaded.state["held.v"])
    assert bits(logits) == bits(loaded(array(2, 4), 2.0))
    with pytest.raises(ft.ArgumentError, match="takes the number float.n0., which changes"):
        ft.extract(loaded.graph, feeds=["argument0", "held.w"], fetches=["hidden"])
