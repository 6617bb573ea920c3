"""Passes from outside, sub-graphs that they replace, and packages that bring both."""

from __future__ import annotations

import numpy as np
import pytest
from swiglu import GATE, X, fma, repeated_runs, steps, truth

import fl_tensor as ft
from fl_tensor.graph import Graph, Node


def test_a_pass_sees_every_graph_that_is_planned(backend):
    seen = []

    def watch(graph):
        seen.append([n.op for n in graph.nodes])
        return graph

    with ft.jit.register_pass("tests-watch", watch):
        assert ft.jit.passes()[-1] == "tests-watch"
        repeated_runs(backend, lambda x, y: ft.exp(x) + ft.exp(x), X, GATE)
    assert seen == [["exp", "add"]], "after common subexpressions"
    assert "tests-watch" not in ft.jit.passes()


def test_a_pass_has_a_place():
    registered = ft.jit.register_pass("tests-first", lambda g: g, before="fold")
    other = ft.jit.register_pass("tests-second", lambda g: g, after="fold")
    names = ft.jit.passes()
    assert names.index("tests-first") + 1 == names.index("fold") == names.index("tests-second") - 1
    other.remove()
    registered.remove()
    registered.remove()


def test_a_pass_rewrites_what_is_planned(backend):
    def no_exp(graph):
        nodes = [Node("tanh", n.inputs, {}, n.outputs) if n.op == "exp" else n for n in graph.nodes]
        return Graph(graph.inputs, graph.constants, nodes, graph.outputs, graph.reads)

    with ft.jit.register_pass("tests-no-exp", no_exp):
        first, *later = repeated_runs(backend, lambda x: ft.exp(x), X)
    np.testing.assert_allclose(first, np.exp(X), rtol=1e-6)
    for found in later:
        np.testing.assert_allclose(found, np.tanh(X), rtol=1e-5, atol=1e-6)


def twice(graph):
    return Graph(graph.inputs, (), [*graph.nodes, graph.nodes[0]], graph.outputs)


def lost(graph):
    return Graph(graph.inputs, graph.constants, graph.nodes[1:], graph.outputs)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda graph: 1 // 0, "ZeroDivisionError"),
        (lambda graph: None, "it gave a NoneType"),
        (lost, "is made by nobody"),
        (twice, "is made twice"),
        (lambda graph: Graph(graph.inputs, (), graph.nodes, graph.nodes[0].outputs), "outputs of"),
        (lambda graph: Graph((), (), graph.nodes, graph.outputs), "other inputs"),
    ],
)
def test_a_pass_that_fails_is_left_out(backend, function, complaint):
    with ft.jit.register_pass("tests-bad", function):
        with pytest.warns(RuntimeWarning, match=f"'tests-bad' was left out.*{complaint}"):
            found = repeated_runs(backend, lambda x: ft.sum(ft.exp(x), 0), X)
    np.testing.assert_allclose(found[-1], np.exp(X).sum(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"before": "comon"}, "did you mean 'common'"),
        ({"before": "fold", "after": "fold"}, "say one"),
    ],
)
def test_places_that_make_no_sense(options, complaint):
    with pytest.raises(ft.ArgumentError, match=complaint):
        ft.jit.register_pass("tests-nowhere", lambda g: g, **options)
    with pytest.raises(ft.ArgumentError, match="already"):
        ft.jit.register_pass("common", lambda g: g)


# --- sub-graphs -----------------------------------------------------------------------------------


def found_by(backend, function, *arrays, operation=fma, shapes=((4, 4),) * 3):
    """The operations of the plan, with a pass that looks for an operation."""
    name = operation.name
    with ft.jit.register_pass("tests-find", ft.jit.replacing(operation, *shapes)):
        with ft.jit.register_kernel(name, lambda request: lambda *addresses: None):
            repeated_runs(backend, function, *arrays)
            return [op for _, ops in steps(backend) for op in ops]


def test_a_composition_is_found_and_replaced(backend):
    assert found_by(backend, lambda x, y: ft.exp(x * y + x), X, GATE) == ["tests.fma", "exp"]


def test_it_is_found_with_operands_in_the_other_order(backend):
    assert found_by(backend, lambda x, y: ft.exp(x + y * x), X, GATE) == ["tests.fma", "exp"]


def test_it_is_not_found_where_somebody_needs_what_is_in_its_middle(backend):
    def function(x, y):
        z = x * y
        return ft.exp(z + x) - ft.tanh(z)

    assert "tests.fma" not in found_by(backend, function, X, GATE)


def test_matches_do_not_overlap(backend):
    twofold = ft.jit.operation("tests.twofold", lambda ops, x: ops.tanh(ops.tanh(x)))

    def function(x):
        return ft.tanh(ft.tanh(ft.tanh(ft.tanh(ft.tanh(x)))))

    found = found_by(backend, function, X, operation=twofold, shapes=((4, 4),))
    assert found == ["tests.twofold", "tests.twofold", "tanh"]


def test_an_operand_that_is_read_twice_is_one_operand(backend):
    squared = ft.jit.operation("tests.squared", lambda ops, x, y: ops.add(ops.multiply(x, x), y))
    options = {"operation": squared, "shapes": ((4, 4), (4, 4))}
    assert found_by(backend, lambda x, y: x * x + y, X, GATE, **options) == ["tests.squared"]
    assert "tests.squared" not in found_by(backend, lambda x, y: x * y + y, X, GATE, **options)


def test_parameters_are_part_of_a_pattern(backend):
    def compose(ops, x):
        return ops.exp(ops.sum(x, (len(x.shape) - 1,), False))

    total = ft.jit.operation("tests.total", compose)
    options = {"operation": total, "shapes": ((4, 4),)}
    assert found_by(backend, lambda x: ft.exp(ft.sum(x, 1)), X, **options) == ["tests.total"]
    assert "tests.total" not in found_by(backend, lambda x: ft.exp(ft.sum(x, 0)), X, **options)


def test_what_is_found_computes_the_same(backend):
    def function(x, y):
        return ft.exp((x * y + x) * 0.1)

    with ft.jit.register_pass("tests-fma", ft.jit.replacing(fma, (4, 4), (4, 4), (4, 4))):
        for found in repeated_runs(backend, function, X, GATE):
            np.testing.assert_allclose(found, truth(function, X, GATE), rtol=1e-5)


def test_numbers_are_no_part_of_a_pattern():
    half = ft.jit.operation("tests.half", lambda ops, x: ops.multiply(x, ops.constant(0.5, x)))
    with pytest.raises(ft.ArgumentError, match="numbers of its own"):
        ft.jit.replacing(half, (4,))


def test_only_operations_from_outside_are_looked_for():
    with pytest.raises(ft.ArgumentError, match="'exp' is a str: expected what ft.jit.operation"):
        ft.jit.replacing("exp", (4,))


def test_installed_packages_register_what_they_bring(monkeypatch):
    from importlib import metadata

    from fl_jit.extensions import registry

    called = []
    points = [
        metadata.EntryPoint("good", "tests_good:register", registry.GROUP),
        metadata.EntryPoint("bad", "tests_no_such_module:register", registry.GROUP),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(
        metadata.EntryPoint,
        "load",
        lambda point: (lambda: called.append(point.name)) if point.name == "good" else 1 // 0,
    )
    monkeypatch.setattr(registry, "_loaded", False)
    with pytest.warns(RuntimeWarning, match="tests_no_such_module:register of fl.jit.v1"):
        registry.current()
    registry.current()
    assert called == ["good"]
