"""Attaching: what is computed element by element of a product, and by nobody else in between."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_jit.passes import profitability
from fl_jit.passes.epilogue_fusion import fuse_epilogues
from fl_jit.passes.fusion import Fusion
from fl_jit.passes.reduction_forms import REDUCTIONS, reduction_form
from fl_tensor.graph import Node
from fl_tensor.graph.strides import layouts
from fl_tensor.testing.graphs import recorded

ELEMENTWISE = frozenset("add subtract multiply exp maximum cast reshape".split())


@pytest.fixture(autouse=True)
def anything_pays(monkeypatch):
    monkeypatch.setattr(profitability, "epilogue_pays", lambda *given: True)


def fusible(node: Node) -> bool:
    if node.op in REDUCTIONS:
        return reduction_form(node, 0) is not None
    return node.op in ELEMENTWISE


def attached(function, *shapes):
    """What is attached to the products of ``function``."""
    graph, _ = recorded(function, *shapes)
    places = layouts(graph)
    groups = Fusion(graph, places, fusible).groups
    results = {places[v].root for v in graph.outputs}
    return list(fuse_epilogues(groups, places, results, lambda node: node.op == "matmul").values())


X, W = (24, 8), (8, 16)


def test_what_reads_a_product_element_by_element_is_attached():
    (found,) = attached(lambda x, w, b: ft.exp(x @ w + b), X, W, (16,))
    assert [node.op for node in found.group.nodes] == ["add", "exp"]
    assert found.product.op == "matmul" and not found.stores_product and found.strides is None
    assert found.group.space == (24, 16) and found.group.row_axes == 1


def test_it_is_rewritten_over_rows_and_columns_of_the_product():
    def heads(x, w, u):
        return ft.reshape(x @ w, (4, 6, 2, 8)) + u

    (found,) = attached(heads, X, W, (4, 6, 2, 8))
    assert found.group.space == (24, 16)
    assert [m.strides for m in found.group.members] == [[(16, 1), (16, 1)]]
    assert attached(heads, X, W, (2, 1)) == [], "broadcast along half a row: no stride says so"


def test_each_element_is_read_once_and_where_it_is_made():
    assert attached(lambda x, w: ft.exp((x @ w)[2:]), X, W) == []
    assert attached(lambda x, w, u: (x @ w) + u, X, W, (3, 24, 16)) == []
    assert attached(lambda x, w: (y := x @ w) + y[::-1], X, W) == []
    assert attached(lambda x, w: (y := x @ w) + ft.permute(y, (1, 0)), (16, 8), W) == []
    assert attached(lambda x, w: ft.exp(ft.permute(x @ w, (1, 0))), X, W) == []


def test_of_two_products_one_is_there_before():
    (found,) = attached(lambda x, w, u: ft.exp(x @ w + x @ u), X, W, W)
    assert [node.op for node in found.group.nodes] == ["add", "exp"]
    (x, w) = found.product.operands
    assert (x.id, w.id) == (0, 1), "the first one: its group has no room for another"


def test_a_copy_may_move_axes_and_not_cut_them():
    def heads(x, w, axes):
        return ft.reshape(ft.permute(ft.reshape(x @ w, (4, 6, 16)), axes), (-1,))

    assert attached(lambda x, w: heads(x, w, (1, 0, 2)), X, W) == []
    (found,) = attached(lambda x, w: ft.reshape(ft.permute(x @ w, (1, 0)), (-1,)), X, W)
    assert found.strides == (1, 24)


def test_a_product_that_others_read_is_stored():
    (found,) = attached(lambda x, w: (y := x @ w, ft.exp(y)), X, W)
    assert found.stores_product
    (found,) = attached(lambda x, w, u: (ft.exp(y := x @ w), y @ u), X, W, (16, 5))
    assert found.stores_product and found.product.outputs[0].shape == (24, 16)


def test_reductions_are_not_attached():
    assert attached(lambda x, w: (y := x @ w) - ft.max(y, 1, keepdims=True), X, W) == []
    assert attached(lambda x, w: ft.sum(ft.exp(x @ w), 0), X, W) == []


def test_whoever_reads_first_gets_it():
    """The sum runs before the division that needs it, and both read the product."""

    def scaled(x, w, u):
        y = x @ w
        return ft.exp(y * ft.sum(ft.exp(y) @ u))

    products = [f.product.outputs[0].shape for f in attached(scaled, X, W, (16, 5))]
    assert (24, 16) in products
    (found,) = [f for f in attached(scaled, X, W, (16, 5)) if f.product.outputs[0].shape[1] == 16]
    assert [node.op for node in found.group.nodes] == ["exp"] and found.stores_product


def test_one_group_takes_one_product():
    (found,) = attached(lambda x, w, y: (x @ w) + (y @ w), X, W, X)
    assert [node.op for node in found.group.nodes] == ["add"]


def test_a_copy_says_where_the_product_is_to_lie():
    def turned(y):
        return ft.reshape(ft.permute(y, (1, 0, 2)), (24, 5 * 16))

    shapes = (5, 24, 8), (5, 8, 16)
    (found,) = attached(lambda x, w: turned(x @ w), *shapes)
    assert found.strides == (16, 80, 1)
    assert attached(lambda x, w: (y := x @ w, turned(y)), *shapes) == [], "it lies in both"


@pytest.mark.parametrize(
    "function,more,pays",
    [
        (lambda x, w, b: ft.maximum(x @ w + b, b), [(16,)], True),
        (lambda x, w, r: x @ w + r, [(24, 16)], False),
        (lambda x, w, b: (y := x @ w + b, ft.exp(y)), [(16,)], False),
        (lambda x, w: (y := x @ w, ft.exp(y)), [], False),
        (lambda x, w, m: (y := x @ w, m + y), [(24, 16)], False),
    ],
    ids=["bias", "residual", "two results", "both", "update"],
)
def test_it_has_to_be_worth_the_while(monkeypatch, function, more, pays):
    monkeypatch.undo()
    assert bool(attached(function, X, W, *more)) is pays
