"""Graphs of functions, grouped as a plan would have them, for the tests of passes."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_jit.passes.fusion import Fusion
from fl_jit.passes.group import crossing
from fl_jit.passes.reduction_forms import REDUCTIONS, reduction_form, split, without_keepdims
from fl_tensor.graph import Graph, Node
from fl_tensor.graph.cse import cse
from fl_tensor.graph.strides import layouts
from fl_tensor.testing.graphs import recorded

ELEMENTWISE = frozenset(
    "add subtract multiply divide negative exp tanh maximum where less cast sqrt".split()
)


def fusible(node: Node) -> bool:
    if node.op in REDUCTIONS:
        return reduction_form(node, 0) is not None
    return node.op in ELEMENTWISE


def planned(function, *shapes, **settings) -> tuple[Fusion, Graph]:
    """The groups of a function of arrays of these shapes, and the graph that they come from."""
    graph, _ = recorded(function, *shapes)
    graph = split(cse(without_keepdims(graph))).prune()
    return Fusion(graph, layouts(graph), fusible, **settings), graph


def operations(fusion: Fusion) -> list[list[str]]:
    """The operations of each group."""
    return [[node.op for node in group.nodes] for group in fusion.groups]


def crossing_shapes(fusion: Fusion, shape):
    """The values of a shape that one group with a kernel writes and another reads."""
    made = {n.outputs[0]: g for g in fusion.groups for n in g.nodes}
    return [
        v
        for v, readers in crossing(fusion.groups, fusion.layouts, ()).items()
        if v.shape == shape and made[v].space is not None and any(g.space for g in readers)
    ]


def same_on_jit(function, *shapes):
    """The function gives in a plan of kernels what it gives on NumPy."""
    inputs = [ft.Generator(i).normal(shape).numpy() for i, shape in enumerate(shapes)]

    def run():
        found = function(*(ft.asarray(x) for x in inputs))
        found = found if isinstance(found, tuple) else (found,)
        ft.eval(*found)
        return [np.asarray(x.numpy()) for x in found]

    with ft.use("numpy"):
        expected = run()
    with ft.use("jit"):
        for _ in range(3):
            ft.jit.wait()
            found = run()
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            got, want, rtol=3e-4, atol=1e-5 * np.abs(want[np.isfinite(want)]).max()
        )
