"""A graph as Graphviz text: ``dot -Tsvg``, or any viewer of the format."""

from __future__ import annotations

from fl_tensor.graph import text
from fl_tensor.graph.ir import Graph, Value


def dot(graph: Graph) -> str:
    """Operations are boxes with their parameters, inputs and constants ellipses; edges carry dtype
    and shape."""
    lines = ["digraph {", "    node [shape=box, fontname=monospace]", "    edge [fontsize=10]"]
    source: dict[Value, str] = {}
    for value in graph.inputs:
        source[value] = f"v{value.id}"
        lines.append(f"    v{value.id} [shape=ellipse, label={_quoted(f'input {value}')}]")
    for value, _ in graph.constants:
        source[value] = f"v{value.id}"
        lines.append(f"    v{value.id} [shape=ellipse, label={_quoted(f'constant {value}')}]")
    for i, node in enumerate(graph.nodes):
        label = "\n".join([node.op, *text.parameters(node)])
        lines.append(f"    n{i} [label={_quoted(label)}]")
        lines += [f"    {source[v]} -> n{i} [label={_quoted(v.type)}]" for v in node.operands]
        source.update(dict.fromkeys(node.outputs, f"n{i}"))
    for i, value in enumerate(graph.outputs):
        lines.append(f"    o{i} [shape=ellipse, label={_quoted(f'output {value}')}]")
        lines.append(f"    {source[value]} -> o{i} [label={_quoted(value.type)}]")
    return "\n".join([*lines, "}", ""])


def _quoted(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
