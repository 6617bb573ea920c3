"""A graph as Graphviz text: ``dot -Tsvg``, or any viewer of the format."""

from __future__ import annotations

from fl_tensor.graph import text
from fl_tensor.graph.ir import Graph, Value

__all__ = ["HEADER", "dot", "quoted"]

#: How every drawing begins; it ends with a closing brace.
HEADER = ("digraph {", "    node [shape=box, fontname=monospace]", "    edge [fontsize=10]")


def dot(graph: Graph) -> str:
    """Operations are boxes with their parameters, inputs and constants ellipses; edges carry dtype
    and shape."""
    lines = list(HEADER)
    source: dict[Value, str] = {}
    for value in graph.inputs:
        source[value] = f"v{value.id}"
        lines.append(f"    v{value.id} [shape=ellipse, label={quoted(f'input {value}')}]")
    for value, _ in graph.constants:
        source[value] = f"v{value.id}"
        lines.append(f"    v{value.id} [shape=ellipse, label={quoted(f'constant {value}')}]")
    for i, node in enumerate(graph.nodes):
        label = "\n".join([node.op, *text.parameters(node)])
        lines.append(f"    n{i} [label={quoted(label)}]")
        lines += [f"    {source[v]} -> n{i} [label={quoted(v.type)}]" for v in node.operands]
        source.update(dict.fromkeys(node.outputs, f"n{i}"))
    for i, value in enumerate(graph.outputs):
        lines.append(f"    o{i} [shape=ellipse, label={quoted(f'output {value}')}]")
        lines.append(f"    {source[value]} -> o{i} [label={quoted(value.type)}]")
    return "\n".join([*lines, "}", ""])


def quoted(label: str) -> str:
    """``label`` as a string of the language."""
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
