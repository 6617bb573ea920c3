"""Inlining: replacement of a node by an equivalent graph."""

from __future__ import annotations

from collections.abc import Callable

from fl_tensor.graph.ir import Constant, Graph, Node, Ref, Value

__all__ = ["inline"]


def inline(graph: Graph, body: Callable[[Node], Graph | None]) -> Graph:
    """``graph`` with every node for which there is a ``body`` replaced by that: a graph whose
    inputs are the node's operands in order, and whose outputs have its outputs' types. The node's
    own values stay, so that nobody else changes; ``graph`` itself where there is no body."""
    nodes: list[Node] = []
    constants: list[Constant] = []
    changed = False
    for node in graph.nodes:
        found = body(node)
        if found is None:
            nodes.append(node)
            continue
        changed = True
        made, given = _copied(found, node, graph)
        nodes += made
        constants += given
    if not changed:
        return graph
    return graph.replace(constants=[*graph.constants, *constants], nodes=nodes)


def _copied(body: Graph, node: Node, into: Graph) -> tuple[list[Node], list[Constant]]:
    known: dict[Value, Value] = dict(zip(body.inputs, node.operands, strict=True))
    own = {v for n in body.nodes for v in n.outputs}
    wanted: dict[Value, Value] = {}
    copies: list[Node] = []
    for value, out in zip(body.outputs, node.outputs, strict=True):
        if value in own and value not in wanted:
            wanted[value] = out
        else:  # an operand handed back, or one result twice
            copies.append(Node("reshape", (value,), {"shape": out.shape}, (out,)))

    def twin(value: Value) -> Value:
        if value not in known:
            given = wanted.get(value)
            known[value] = given or into.value(value.shape, value.dtype, value.device)
        return known[value]

    def renamed(ref: Ref) -> Ref:
        if isinstance(ref, Value):
            return twin(ref)
        return None if ref is None else tuple(map(twin, ref))

    constants = [Constant(twin(value), data) for value, data in body.constants]
    nodes = [
        Node(n.op, tuple(map(renamed, n.inputs)), n.parameters, tuple(map(twin, n.outputs)))
        for n in body.nodes
    ]
    nodes += [Node(n.op, (twin(n.operands[0]),), n.parameters, n.outputs) for n in copies]
    return nodes, constants
