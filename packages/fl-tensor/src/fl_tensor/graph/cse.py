"""Common-subexpression elimination.

The operations are functions: the same operands and arguments give the same result.
"""

from __future__ import annotations

from typing import Any

from fl_tensor.graph import text
from fl_tensor.graph.ir import Graph, Node, Ref, Value

__all__ = ["cse"]


def cse(graph: Graph) -> Graph:
    """``graph`` with every call made once."""
    kept: dict[Value, Value] = {}
    seen: dict[Any, Node] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(_replaced(ref, kept) for ref in node.inputs)
        # As text, so that 0.0 and -0.0, or 1 and True, are told apart.
        # The text of a body leaves out its constants.
        bodies = tuple(id(v) for v in node.parameters.values() if isinstance(v, Graph))
        key = node.op, tuple(map(_key, inputs)), tuple(text.parameters(node)), bodies
        if key in seen:
            kept.update(zip(node.outputs, seen[key].outputs, strict=True))
            continue
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        made = node if same else Node(node.op, inputs, node.parameters, node.outputs)
        seen[key] = made
        nodes.append(made)
    return graph.replace(
        nodes=nodes,
        outputs=[kept.get(v, v) for v in graph.outputs],
        reads=[kept.get(v, v) for v in graph.reads],
    )


def _replaced(ref: Ref, kept: dict[Value, Value]) -> Ref:
    if isinstance(ref, Value):
        return kept.get(ref, ref)
    if ref is None or not any(v in kept for v in ref):
        return ref
    return tuple(kept.get(v, v) for v in ref)


def _key(ref: Ref) -> Any:
    if isinstance(ref, Value):
        return ref.id
    return None if ref is None else tuple(v.id for v in ref)
