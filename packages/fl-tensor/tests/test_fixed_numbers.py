"""Graphs whose numbers belong to one step: they say so, and do not run again unasked."""

from __future__ import annotations

import json

import pytest

import fl_tensor as ft
from fl_tensor.graph import Graph, constant_folding, cse

pytestmark = pytest.mark.defect("O1", "item 8")


def recorded(function, *operands):
    with ft.trace() as graph:
        for x in operands:
            graph.input(x)
        graph.output(function(*operands))
    return graph


def scheduled(x):
    return x * ft.per_step(0.125, "learning rate")


@pytest.fixture
def x():
    return ft.asarray([1.0, 2.0])


def test_a_number_that_is_handed_over_is_what_it_was():
    assert ft.per_step(0.5, "rate") == 0.5 and type(ft.per_step(3, "step")) is int


def test_a_graph_lists_what_was_handed_over_while_it_was_recorded(x):
    scheduled(x)
    graph = recorded(scheduled, x)
    scheduled(x)
    assert graph.fixed == [("learning rate", 0.125)]
    assert "fixed: learning rate = 0.125" in str(graph)


def test_it_does_not_run_and_names_the_numbers(x):
    graph = recorded(scheduled, x)
    for run in (lambda: graph(x), lambda: graph.run(x.backend, [x.adapter])):
        with pytest.raises(ft.ArgumentError, match=r"learning rate = 0\.125.*constants=True"):
            run()


def test_it_runs_where_the_numbers_are_said_to_be_right(x):
    graph = recorded(scheduled, x)
    assert graph(x, constants=True)[0].tolist() == [0.125, 0.25]
    (result,) = graph.run(x.backend, [x.adapter], constants=True)
    assert ft.Tensor(result, x.backend).tolist() == [0.125, 0.25]


def test_other_numbers_are_no_matter(x):
    graph = recorded(lambda x: x * 0.125, x)
    assert graph.fixed == [] and graph(x)[0].tolist() == [0.125, 0.25]


@pytest.mark.parametrize("draw", ["uniform", "normal", "truncated_normal", "integers"])
@pytest.mark.parametrize("whole", [False, True])
def test_offsets_of_random_streams_are_fixed_numbers(x, draw, whole):
    generator = ft.Generator(3)
    generator.offset = 4096
    with ft.trace(whole=whole) as graph:
        options = (0, 8) if draw == "integers" else ()
        graph.output(x + getattr(generator, draw)(*options, shape=(2,)))
    assert {number.value for number in graph.fixed} == {4096}
    with pytest.raises(ft.ArgumentError, match="offset of .* = 4096"):
        graph(x)


def test_files_keep_the_mark(x):
    text = recorded(scheduled, x).to_json()
    again = Graph.from_json(text)
    assert again.fixed == [("learning rate", 0.125)]
    with pytest.raises(ft.ArgumentError, match="learning rate"):
        again(x)


def test_files_from_before_load_and_run(x):
    old = json.loads(recorded(scheduled, x).to_json())
    del old["fixed"]
    assert Graph.from_json(json.dumps(old))(x)[0].tolist() == [0.125, 0.25]


@pytest.mark.parametrize("fixed", [3, [["rate"]], [[1, 2.0]], [["rate", "high"]], [["rate", None]]])
def test_damaged_marks_are_refused(x, fixed):
    data = json.loads(recorded(scheduled, x).to_json())
    with pytest.raises(ft.ArgumentError, match="graph"):
        Graph.from_json(json.dumps({**data, "fixed": fixed}))


def test_passes_keep_the_mark(x):
    graph = recorded(scheduled, x)
    for made in (
        graph.prune(),
        cse.cse(graph),
        constant_folding.fold_constants(graph),
        graph.replace(reads=[]),
    ):
        assert made.fixed == graph.fixed


def test_long_lists_are_cut(x):
    def function(x):
        for i in range(40):
            x = x * ft.per_step(float(i), f"number {i % 20}")
        return x

    with pytest.raises(ft.ArgumentError, match=r"number 7 = 7 and 32 more"):
        recorded(function, x)(x)


def test_traces_that_nest_all_list_it(x):
    with ft.trace() as outer, ft.trace() as inner:
        scheduled(x)
    assert outer.fixed == inner.fixed == [("learning rate", 0.125)]
