"""Folding: what is left out, and what must not be."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.graph.constant_folding import fold_constants
from fl_tensor.testing.graphs import recorded_on


def left(function, *inputs):
    """The operations that are left; that they give the same, bit for bit, is checked."""
    graph = recorded_on(function, *inputs)
    smaller = fold_constants(graph).prune()
    for a, b in zip(graph(*inputs), smaller(*inputs), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return [node.op for node in smaller.nodes]


X = ft.asarray([[0.0, -0.0, math.inf, -math.inf], [math.nan, 1.5, -2.5, 1e-45]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 1,
        lambda x: 1 * x,
        lambda x: x / 1,
        lambda x: x - 0.0,
        lambda x: x * ft.ones((2, 4)),
        lambda x: ft.negative(ft.negative(x)),
        lambda x: ft.cast(ft.cast(x, "float32"), "float32"),
        lambda x: ft.permute(ft.permute(x, (1, 0)), (1, 0)),
        lambda x: ft.reshape(ft.reshape(x, (8,)), (2, 4)),
        lambda x: ft.broadcast_to(x, (2, 4)),
        lambda x: x[:, :],
        lambda x: ft.concatenate([x]),
        lambda x: ft.pad(x, ((0, 0), (0, 0))),
        lambda x: ft.where(ft.full((2, 4), True), x, 3.0),
        lambda x: ft.where(ft.full((), False), 3.0, x),
        lambda x: ft.max(x, ()),
    ],
)
def test_what_changes_nothing_is_left_out(function):
    assert left(lambda x: ft.exp(function(x)), X) == ["exp"]


@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (lambda x: x + 0.0, ["add", "exp"]),  # -0.0 becomes 0.0
        (lambda x: x - (-0.0), ["subtract", "exp"]),  # likewise
        (lambda x: x * 0.0, ["multiply", "exp"]),  # NaN stays NaN
        (lambda x: x / 2.0, ["divide", "exp"]),
        (lambda x: x * ft.ones((3, 2, 4)), ["multiply", "exp"]),  # another shape
        (lambda x: ft.where(x > 0, x, 3.0), ["less", "where", "exp"]),
        (lambda x: ft.cast(ft.cast(x, "float64"), "float32"), ["cast", "cast", "exp"]),
    ],
)
def test_what_does_change_something_stays(function, operations):
    found = left(lambda x: ft.exp(function(x)), X)
    assert [op for op in found if op not in ("full", "broadcast_to")] == operations


@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (lambda x: ft.reshape(ft.reshape(x, (4, 2)), (8,)), ["reshape"]),
        (lambda x: x[:, 1:][:, ::2], ["slice"]),
        (lambda x: x[:, ::2][:, 1:], ["slice"]),
        (lambda x: x[::-1, 1:][:, ::-1], ["slice"]),
        (lambda x: ft.permute(ft.permute(x[None], (1, 2, 0)), (1, 0, 2)), ["reshape", "permute"]),
        (lambda x: ft.absolute(ft.absolute(x)), ["absolute"]),
    ],
)
def test_two_in_a_row_become_one(function, operations):
    assert left(lambda x: ft.exp(function(x)), X) == [*operations, "exp"]


def test_numbers_of_the_structure_are_constants():
    graph = fold_constants(recorded_on(lambda x: x * ft.full((), 2.5), X)).prune()
    assert [n.op for n in graph.nodes] == ["multiply"]
    ((value, data),) = graph.constants
    assert (value.shape, value.dtype) == ((), ft.float32)
    assert np.frombuffer(data, np.float32).item() == 2.5


def test_arithmetic_on_integers_is_done_beforehand():
    def function(x):
        return x + ft.cast(ft.full((), 3, "int64") * ft.full((), 4, "int64") - 5, "int32")

    assert left(function, ft.asarray([1, 2], "int32")) == ["add"]


def test_integers_that_wrap_around_are_left_to_the_backend():
    def function(x):
        return x + ft.full((), 1 << 62, "int64") * 4

    assert "multiply" in left(function, ft.asarray([1], "int64"))


def test_inputs_are_never_known():
    one = ft.asarray(1.0)
    assert left(lambda x, y: ft.exp(x * y), X, one) == ["multiply", "exp"]


def test_an_output_keeps_its_maker():
    graph = recorded_on(lambda x: ft.permute(ft.permute(x, (1, 0)), (1, 0)), X)
    assert [n.op for n in fold_constants(graph).prune().nodes] == ["permute"]
    assert graph.outputs == fold_constants(graph).outputs
