"""Dead-code elimination: nodes that no output needs are removed."""

from __future__ import annotations

from collections.abc import Sequence

from fl_tensor.errors import ArgumentError
from fl_tensor.graph.ir import Graph, Value


def dce(graph: Graph, outputs: Sequence[Value]) -> Graph:
    """The part of ``graph`` that ``outputs`` need. Raises ArgumentError for a value of another
    graph."""
    made = {v for node in graph.nodes for v in node.outputs}
    made |= {*graph.inputs, *(c.value for c in graph.constants)}
    if foreign := [v for v in outputs if v not in made]:
        raise ArgumentError(f"[prune] {foreign[0]} is no value of this graph")
    needed = set(outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.operands)
            nodes.append(node)
    return graph.replace(
        constants=[c for c in graph.constants if c.value in needed],
        nodes=nodes[::-1],
        outputs=list(outputs),
        reads=[v for v in graph.reads if v in needed],
    )
