"""Computing again instead of keeping: what takes less to compute than to write and read.

A value that is one array, element by element, with single numbers, rows or columns (centred by a
mean, shifted by a bias, scaled) is computed anew for each operation that reads it, from an array
that is in memory anyway. Fusion then finds it beside its reader, and nothing is written. Chen et
al., "Training deep nets with sublinear memory cost", 2016, do so with whole layers; here it is what
costs no time at all.

Preconditions: common subexpressions were found before (and are not looked for again, which would
undo this), and what nobody needs is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fl_tensor.graph.ir import Graph, Node, Ref, Value
from fl_tensor.graph.layout import VIEWS

#: An operand with so many times fewer elements than the result is small.
SMALL = 8
#: Results of fewer elements stay in caches.
LARGE = 1 << 14
#: Operations in a row that are computed again.
LONGEST = 6

_CHEAP = frozenset("add subtract multiply divide negative absolute maximum minimum cast".split())


def rematerialize(graph: Graph, fusible: Callable[[Node], bool]) -> Graph:
    """``graph`` with cheap nodes once for each of their readers; ``fusible(node)``: results of the
    node need not be in memory, and its operands neither."""
    return _Rematerialization(graph, fusible).result


def in_memory(graph: Graph, fusible: Mapping[Node, bool]) -> set[Value]:
    """The values that are in memory whatever is fused: what comes from outside and goes there, what
    nodes read and make that are not fusible, and views of these."""
    found = {*graph.inputs, *(c.value for c in graph.constants), *graph.outputs}
    for node in graph.nodes:
        if not fusible[node] and node.op not in VIEWS:
            found.update((*node.operands, *node.outputs))
    views = [node for node in graph.nodes if node.op in VIEWS]
    for node in reversed(views):
        if node.outputs[0] in found:
            found.update(node.operands)
    for node in views:
        if node.operands[0] in found:
            found.update(node.outputs)
    return found


class _Rematerialization:
    def __init__(self, graph: Graph, fusible: Callable[[Node], bool]) -> None:
        self.graph = graph
        self.fusible = {node: node.op not in VIEWS and fusible(node) for node in graph.nodes}
        self.maker = {v: node for node in graph.nodes for v in node.outputs}
        self.in_memory = in_memory(graph, self.fusible)
        #: How many operations in a row make a value from one that is in memory.
        self.steps = dict.fromkeys(self.in_memory, 0)
        #: Those that each reader computes for itself.
        self.anew: set[Value] = set()
        for node in graph.nodes:
            self.judge(node)
        self.nodes: list[Node] = []
        for node in graph.nodes:
            if node.outputs[0] not in self.anew:
                self.nodes.append(self.fed(node, node.outputs))
        self.result = Graph(graph.inputs, graph.constants, self.nodes, graph.outputs, graph.reads)

    def judge(self, node: Node) -> None:
        # Notes whether a node is to be computed by each reader, and from what.
        if node.op not in _CHEAP or not self.fusible[node] or node.outputs[0] in self.in_memory:
            return
        (out,) = node.outputs
        size = math.prod(out.shape)
        large = [v for v in node.operands if math.prod(v.shape) * SMALL > size]
        if size < LARGE or len(large) != 1 or math.prod(large[0].shape) != size:
            return
        (source,) = large
        steps = self.steps.get(source, LONGEST) + 1
        if steps <= LONGEST and source.dtype.itemsize <= out.dtype.itemsize:
            self.anew.add(out)
            self.steps[out] = steps

    def fed(
        self, node: Node, outputs: tuple[Value, ...], copies: dict[Value, Value] | None = None
    ) -> Node:
        # The node, after copies of what makes its operands; each of these once.
        copies = {} if copies is None else copies
        inputs = tuple([self.copied(ref, copies) for ref in node.inputs])
        return Node(node.op, inputs, node.parameters, outputs)

    def copied(self, ref: Ref, copies: dict[Value, Value]) -> Ref:
        if isinstance(ref, tuple):
            return tuple([self.copy(v, copies) for v in ref])
        return None if ref is None else self.copy(ref, copies)

    def copy(self, value: Value, copies: dict[Value, Value]) -> Value:
        if value not in self.anew:
            return value
        if value not in copies:
            made = self.graph.value(value.shape, value.dtype, value.device)
            self.nodes.append(self.fed(self.maker[value], (made,), copies))
            copies[value] = made
        return copies[value]
