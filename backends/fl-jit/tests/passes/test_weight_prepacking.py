"""Inputs that products read as their second factor, and nobody else."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_jit.passes.weight_prepacking import prepackable_weights
from fl_tensor.graph.strides import layouts
from fl_tensor.testing.graphs import recorded

X = (24, 8)


def found(function, *shapes, lying=None):
    """For each input of ``function`` whether it is such a factor, as its transpose: None, False or
    True. ``lying``: strides of inputs by number."""
    graph, _ = recorded(function, *shapes)
    given = {graph.inputs[i]: strides for i, strides in (lying or {}).items()}
    places = layouts(graph, given)
    results = {places[v].root for v in graph.outputs}
    made = prepackable_weights(graph, places, results, lambda node: node.op == "matmul")
    return [made.get(value) for value in graph.inputs]


def test_a_second_factor_is_found_as_it_is_or_turned():
    assert found(lambda x, w: ft.relu(x @ w), X, (8, 16)) == [None, False]
    assert found(lambda x, w: ft.linear(x, w), X, (16, 8)) == [None, True]


@pytest.mark.parametrize("lies, is_turned", [((8, 1), True), ((1, 8), True)])
def test_a_square_is_turned_wherever_its_elements_lie(lies, is_turned):
    assert found(lambda x, w: ft.linear(x, w), X, (8, 8), lying={1: lies})[1] is is_turned


def test_several_products_may_read_it_in_one_way():
    def twice(x, w):
        return ft.linear(ft.linear(x, w), w)

    assert found(twice, X, (8, 8)) == [None, True]
    assert found(lambda x, w: ft.linear(x, w) @ w, X, (8, 8)) == [None, None]


@pytest.mark.parametrize(
    "other",
    [lambda w: w * 2.0, lambda w: ft.sum(w), lambda w: w, lambda w: w[0], lambda w: w @ w],
    ids=["element by element", "a reduction", "a result", "a row", "the first factor"],
)
def test_nobody_else_may_read_it(other):
    assert found(lambda x, w: (x @ w, other(w)), X, (8, 8)) == [None, None]


def test_a_part_of_a_matrix_is_no_matrix_of_its_own():
    assert found(lambda x, w: x @ w[:8], X, (16, 4)) == [None, None]
    assert found(lambda x, w: x @ w[:, :4], X, (8, 16)) == [None, None]
    assert found(lambda x, w: x @ ft.reshape(w, (8, 16)), X, (2, 4, 16)) == [None, None]


def test_a_column_is_not_worth_a_layout():
    assert found(lambda x, w: x @ w, X, (8, 1)) == [None, None]
