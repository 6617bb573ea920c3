"""A pass: fewer exponentials."""

from __future__ import annotations

from collections import Counter

from fl_tensor.graph import Graph, Node


def exponentials(graph: Graph) -> Graph:
    """``exp(x) * exp(y)`` as ``exp(x + y)``, where nobody else needs the two: a sum is cheaper than
    an exponential. Rounding differs, and so does what overflows on the way."""
    makers = {value: node for node in graph.nodes for value in node.outputs}
    uses = Counter(value for node in graph.nodes for value in node.operands)
    uses.update(graph.outputs)
    nodes = []
    for node in graph.nodes:
        found = [makers[v] for v in node.operands if v in makers and uses[v] == 1]
        if node.op != "multiply" or [n.op for n in found] != ["exp", "exp"]:
            nodes.append(node)
            continue
        (x,), (y,), (out,) = found[0].operands, found[1].operands, node.outputs
        total = graph.value(out.shape, out.dtype)
        nodes.append(Node("add", (x, y), {}, (total,)))
        nodes.append(Node("exp", (total,), {}, (out,)))
    return graph.replace(nodes=nodes)
