"""The graph as Graphviz text."""

from __future__ import annotations

from typing import Any

import fl_autograd as ag
import fl_tensor as ft


def test_a_graph_is_drawn_with_names_and_shapes(leaf: Any) -> None:
    x, w = leaf([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    h = ft.tanh(x @ w)
    text = ag.to_dot(h.sum(), names={"x": x, 'w "q"': w, "h": h})
    assert text.splitlines() == [
        "digraph {",
        "    node [shape=box, fontname=monospace]",
        "    edge [fontsize=10]",
        '    n0 [label="sum"]',
        '    n1 -> n0 [label="(1, 1)"]',
        '    n1 [label="tanh\\nh"]',
        '    n2 -> n1 [label="(1, 1)"]',
        '    n2 [label="matmul"]',
        '    n4 -> n2 [label="(1, 2)"]',
        '    n3 -> n2 [label="(2, 1)"]',
        '    n3 [shape=ellipse, label="w \\"q\\"\\nfloat64(2, 1)"]',
        '    n4 [shape=ellipse, label="x\\nfloat64(1, 2)"]',
        '    r0 [shape=ellipse, label="result 0"]',
        '    n0 -> r0 [label="()"]',
        "}",
    ]


def test_constants_freed_and_shared_nodes(leaf: Any) -> None:
    x = leaf([1.0])
    assert ag.to_dot(ag.Variable([1.0])).count("label") == 0
    y = x * 2
    y.backward()
    assert '"multiply\\n(freed)"' in ag.to_dot(y)
    z = x * x
    assert ag.to_dot(z, z).count("shape=ellipse") == 3
