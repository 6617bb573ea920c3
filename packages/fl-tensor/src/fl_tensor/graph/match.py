"""Pattern matching: sub-graphs that compute the same as a small graph.

A pattern is a graph whose inputs match any values. The structure is matched first: operations and
their operands, those of commutative operations in either order. This binds the inputs. Then
``exactly`` returns the pattern for inputs of these types. The parameters of every node are compared
with it, so that shapes and dtypes agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from fl_tensor.graph import text
from fl_tensor.graph.ir import Graph, Node, Value

__all__ = ["COMMUTATIVE", "replace"]

#: Operations whose two operands may change places: the result is the same, bit for bit.
COMMUTATIVE = frozenset("add multiply equal bitwise_and bitwise_or bitwise_xor".split())
Bindings: TypeAlias = dict[Value, Value]


def replace(
    graph: Graph,
    pattern: Graph,
    exactly: Callable[[list[Value]], Graph | None],
    made: Callable[[list[Value], Value], Node],
) -> Graph:
    """``graph`` with ``made(operands, result)`` in the place of what ``pattern`` matches. Values in
    the middle that somebody else reads forbid a match: they would have to be computed anyway.
    Matches do not overlap. What is no longer needed is left to ``prune``."""
    finder = _Finder(graph, pattern)
    nodes: list[Node] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        bound = finder.match(node, exactly)
        if bound is None or taken.intersection(inner := finder.inner(bound)):
            nodes.append(node)
            continue
        taken |= inner
        operands = [bound[v] for v in pattern.inputs]
        nodes.append(made(operands, node.outputs[0]))
    return graph.replace(nodes=nodes)


class _Finder:
    def __init__(self, graph: Graph, pattern: Graph) -> None:
        self.pattern = pattern
        self.makers = {v: n for n in graph.nodes for v in n.outputs}
        self.recipe = {v: n for n in pattern.nodes for v in n.outputs}
        self.uses = Counter(v for n in graph.nodes for v in n.operands)
        self.uses.update(graph.outputs)
        self.root = pattern.outputs[0]

    def match(self, node: Node, exactly: Callable[[list[Value]], Graph | None]) -> Bindings | None:
        """What each value of the pattern stands for, if ``node`` ends a match."""
        if self.root not in self.recipe or node.op != self.recipe[self.root].op:
            return None
        for bound in self._ways([(self.root, node.outputs[0])], {}):
            if self._is_closed(bound):
                inputs = [bound.get(v) for v in self.pattern.inputs]
                found = [v for v in inputs if v is not None]
                precise = exactly(found) if len(found) == len(inputs) else None
                if precise is not None and self._is_exact(bound, precise):
                    return bound
        return None

    def inner(self, bound: Bindings) -> set[Node]:
        """The nodes of a match."""
        return {self.makers[bound[v]] for v in self.recipe}

    def _ways(self, open_: list[tuple[Value, Value]], bound: Bindings) -> Iterator[Bindings]:
        # Depth first through both graphs at once.
        if not open_:
            yield bound
            return
        (wanted, value), *rest = open_
        if wanted in bound:
            if bound[wanted] is value:
                yield from self._ways(rest, bound)
            return
        recipe = self.recipe.get(wanted)
        if recipe is None:
            yield from self._ways(rest, {**bound, wanted: value})
            return
        node = self.makers.get(value)
        if node is None or node.op != recipe.op or len(node.operands) != len(recipe.operands):
            return
        orders = [node.operands]
        if recipe.op in COMMUTATIVE and node.operands[0] is not node.operands[1]:
            orders.append(node.operands[::-1])
        for operands in orders:
            pairs = list(zip(recipe.operands, operands, strict=True))
            yield from self._ways([*pairs, *rest], {**bound, wanted: value})

    def _is_closed(self, bound: Bindings) -> bool:
        # Whether nobody outside the match reads what lies in its middle.
        inner = self.inner(bound)
        inside = Counter(v for n in inner for v in n.operands)
        middle = [bound[v] for v in self.recipe if v is not self.root]
        return all(self.uses[v] == inside[v] for v in middle)

    def _is_exact(self, bound: Bindings, precise: Graph) -> bool:
        if len(precise.nodes) != len(self.pattern.nodes) or precise.constants:
            return False
        for mine, theirs in zip(self.pattern.nodes, precise.nodes, strict=True):
            node = self.makers[bound[mine.outputs[0]]]
            if (mine.op, text.parameters(node)) != (theirs.op, text.parameters(theirs)):
                return False
        return True
