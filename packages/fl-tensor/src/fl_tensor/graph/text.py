"""Graphs as text: one line per node."""

from __future__ import annotations

from typing import Any

from fl_tensor.device import Device
from fl_tensor.graph.ir import Graph, Node, Ref, Value

__all__ = ["graph", "node", "parameters", "reference"]


def graph(g: Graph) -> str:
    inputs = ", ".join(f"{v}: {v.type}" for v in g.inputs)
    lines = [f"graph({inputs}):"]
    lines += [f"    fixed: {number}" for number in dict.fromkeys(map(str, g.fixed))]
    lines += [f"    {c.value}: {c.value.type} = constant" for c in g.constants]
    lines += [f"    {node(n)}" for n in g.nodes]
    lines.append(f"    return {', '.join(map(str, g.outputs)) or 'nothing'}")
    return "\n".join(lines)


def node(n: Node) -> str:
    made = ", ".join(f"{v}: {v.type}" for v in n.outputs)
    return f"{made} = {n.op}({', '.join([*map(reference, n.inputs), *parameters(n)])})"


def parameters(n: Node) -> list[str]:
    """``["axis=(1,)", "keepdims=False"]``."""
    return [f"{name}={_plain(value)}" for name, value in n.parameters.items()]


def reference(ref: Ref) -> str:
    if isinstance(ref, Value) or ref is None:
        return str(ref)
    return f"[{', '.join(map(str, ref))}]"


def _plain(value: Any) -> str:
    # DType and Device by their names, the graph of a body over several lines.
    if isinstance(value, Graph):
        return graph(value).replace("\n", "\n        ")
    return str(value) if isinstance(value, Device) or hasattr(value, "itemsize") else repr(value)
