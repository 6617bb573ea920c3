"""What is cheap is computed by its readers, and nothing else changes."""

from __future__ import annotations

import pytest
from planned import crossing_shapes, operations, planned, same_on_jit

import fl_tensor as ft
from fl_jit.passes.rematerialization import LONGEST

SHAPE = (4096, 128)
COLUMN, ROW = (128,), (4096, 1)


def counted(fusion, op: str) -> int:
    return sum(node.op == op for group in fusion.groups for node in group.nodes)


def centred(x, w, mean):
    """Read by a product that ends one group, and again after it."""
    y = (x @ w) - mean
    first = ft.sum(y * y, 0)
    return first, ft.exp(y) * first


def scaled(x, w, mean, scale):
    y = ((x @ w) - mean) * scale
    return ft.exp(y) * ft.sum(y * y, 0)


def masked(g, x, gamma):
    """The gradient of batch normalisation behind ReLU: a mask is in memory."""
    y = ft.where(x > 0.0, g, 0.0) * gamma
    return y - ft.sum(y, 0)


def dropped(x, noise, w):
    """A mask of numbers is a mask of bytes, scaled."""
    mask = ft.cast(noise < 0.9, "float32") * 1.25
    y = x * mask
    return y, ft.exp(y @ w) * mask


@pytest.mark.parametrize(
    "function,shapes,op,times",
    [
        (centred, [SHAPE, (128, 128), COLUMN], "subtract", 2),
        (scaled, [SHAPE, (128, 128), COLUMN, ROW], "subtract", 2),
        (masked, [SHAPE, SHAPE, COLUMN], "where", 2),
        (dropped, [SHAPE, SHAPE, (128, 128)], "cast", 2),
    ],
)
def test_a_cheap_value_is_computed_by_each_reader_and_written_by_none(function, shapes, op, times):
    fusion, graph = planned(function, *shapes)
    assert sum(node.op == op for node in graph.nodes) == times - 1
    assert counted(fusion, op) == times
    assert ft.float32 not in [v.dtype for v in crossing_shapes(fusion, SHAPE)]
    same_on_jit(function, *shapes)


def test_what_nobody_needs_any_more_is_computed_nowhere():
    def function(x, w, mean, u):
        y = ft.sum(x, 0) - mean  # one group, whose only reader waits for a product
        z = x - mean
        return ft.exp(x @ w) * z, y, u

    fusion, _ = planned(function, SHAPE, (128, 128), COLUMN, COLUMN)
    homes = [g for g in fusion.groups if any(n.op == "exp" for n in g.nodes)]
    assert any(node.op == "subtract" for node in homes[0].nodes)
    same_on_jit(function, SHAPE, (128, 128), COLUMN, COLUMN)


def test_nor_is_it_left_where_it_was_made():
    def function(x, w, mean):
        y = -x
        z = y - mean
        return ft.tanh(ft.exp(y) @ w) * z

    fusion, _ = planned(function, SHAPE, (128, 128), COLUMN)
    first, product, last = operations(fusion)
    assert (first, product) == (["negative", "exp"], ["matmul"])
    assert sorted(last) == ["multiply", "negative", "subtract", "tanh"]
    same_on_jit(function, SHAPE, (128, 128), COLUMN)


@pytest.mark.parametrize("length,times", [(LONGEST, 2), (LONGEST + 1, 1)])
def test_only_a_few_operations_in_a_row_are(length, times):
    def function(x, w, mean):
        y = x @ w
        for _ in range(length):
            y = y - mean
        return y * ft.sum(y, 0)

    fusion, _ = planned(function, SHAPE, (128, 128), COLUMN)
    assert counted(fusion, "subtract") == times * length


def test_no_group_gets_larger_than_it_may():
    def function(x, w, mean):
        first, y = centred(x, w, mean)
        for _ in range(9):
            y = ft.tanh(y)
        return first, y

    given = [SHAPE, (128, 128), COLUMN]
    assert planned(function, *given)[0].rematerialized
    small, _ = planned(function, *given, most=10)
    assert not small.rematerialized and max(len(g.members) for g in small.groups) == 10


def test_a_reader_may_see_it_in_another_shape():
    def function(x, w, mean):
        y = (x @ w) - mean
        return ft.exp(ft.reshape(y, (64, 64, 128))) * ft.sum(y * y, 0)

    fusion, _ = planned(function, SHAPE, (128, 128), COLUMN)
    assert counted(fusion, "subtract") == 2
    same_on_jit(function, SHAPE, (128, 128), COLUMN)


UNCHANGED = {
    "two arrays": (lambda x, y: ft.exp(x + y) * ft.sum(x + y, 0), SHAPE, SHAPE),
    "what is expensive": (lambda x: ft.exp(x) + ft.sum(ft.exp(x), 0), SHAPE),
    "results": (lambda x, m: (y := x - m, y * ft.sum(y, 0)), SHAPE, COLUMN),
    "operands of products": (
        lambda x, w, m: ft.exp((x - m) @ w) * (x - m),
        SHAPE,
        (128, 128),
        COLUMN,
    ),
    "what is read in another order": (
        lambda x, m: (y := x - m) + ft.permute(y, (1, 0)) * ft.sum(y, 0),
        (512, 512),
        (512,),
    ),
    "smaller elements": (lambda x: ft.sum(y := x.astype("bfloat16"), 0) + y, SHAPE),
    "what stays in caches": (lambda x, m: (y := x - m) * ft.sum(y, 0), (64, 128), COLUMN),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_left_as_they_are(name):
    function, *shapes = UNCHANGED[name]
    fusion, graph = planned(function, *shapes)
    kept = [node for group in fusion.groups for node in group.nodes]
    assert len(kept) <= len(graph.nodes) and not fusion.rematerialized
    same_on_jit(function, *shapes)


def test_every_decision_can_be_read():
    fusion, _ = planned(centred, SHAPE, (128, 128), COLUMN)
    (line,) = [line for line in fusion.explain() if "computed again" in line]
    assert "float32(4096, 128)" in line and "saves 4.19 MB" in line and "costs" in line
