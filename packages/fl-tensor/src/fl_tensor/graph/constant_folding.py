"""Constant folding, and removal of identities.

Only the structure of a graph is constant: constants, ``full`` of a number, parameters. Inputs are
not, even single numbers such as a learning rate. Identities hold bit for bit for every operand,
infinities, NaN and signed zeros included: ``x * 1`` is one, ``x + 0`` (of -0.0) and ``x * 0`` (of
NaN) are not. Nodes that produce outputs of the graph stay.

Preconditions: none. Leaves unused nodes to ``prune``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from fl_tensor.arrays import elements
from fl_tensor.graph.ir import Constant, Graph, Node, Ref, Value
from fl_tensor.graph.strides import VIEWS

__all__ = ["fold_constants"]

#: f(f(x)) is x.
_INVOLUTIONS = frozenset(("negative", "bitwise_invert"))
#: Python computes these on integers and booleans as every backend does, but for overflow.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
    "maximum": max,
    "minimum": min,
    "equal": operator.eq,
    "less": operator.lt,
    "cast": lambda x: x,
}


def fold_constants(graph: Graph) -> Graph:
    """``graph`` with less to do."""
    return _Folding(graph).result()


class _Folding:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.same: dict[Value, Value] = {}
        self.maker: dict[Value, Node] = {}
        #: Values of which every element is that number.
        self.uniform: dict[Value, Any] = {}
        self.constants = list(graph.constants)
        for value, data in graph.constants:
            if value.shape == ():
                (self.uniform[value],) = elements.unpack(memoryview(data), value.dtype)

    def result(self) -> Graph:
        graph, outputs = self.graph, set(self.graph.outputs)
        nodes = []
        for node in graph.nodes:
            node = self._renamed(node)
            self._learn(node)
            node = self._shorter(node)
            (value, *others) = node.outputs
            if not others and value not in outputs:
                if value.shape == () and value in self.uniform:
                    data = elements.pack([self.uniform[value]], value.dtype)
                    self.constants.append(Constant(value, data))
                    continue
                equal = self._equal(node)
                if equal is not None:
                    self.same[value] = equal
                    continue
            self.maker.update(dict.fromkeys(node.outputs, node))
            nodes.append(node)
        return graph.replace(constants=self.constants, nodes=nodes)

    def _renamed(self, node: Node) -> Node:
        if not any(v in self.same for v in node.operands):
            return node

        def renamed(ref: Ref) -> Ref:
            if isinstance(ref, Value):
                return self.same.get(ref, ref)
            return None if ref is None else tuple(self.same.get(v, v) for v in ref)

        return Node(node.op, tuple(map(renamed, node.inputs)), node.parameters, node.outputs)

    # ---- numbers -------------------------------------------------------------------------------

    def _learn(self, node: Node) -> None:
        # Whether every element of the result is the same known number.
        if len(node.outputs) != 1:
            return
        (value,) = node.outputs
        operands = node.operands
        if node.op == "full":
            self._know(value, node.parameters["value"])
        elif node.op in VIEWS and operands[0] in self.uniform:
            self.uniform[value] = self.uniform[operands[0]]
        elif node.op in _EXACT and operands and all(v in self.uniform for v in operands):
            if all(v.dtype.kind in "iub" for v in (*operands, value)):
                self._know(value, _EXACT[node.op](*(self.uniform[v] for v in operands)))

    def _know(self, value: Value, number: Any) -> None:
        # As the dtype holds it; what does not fit (integers wrap around) is left to the backend.
        kind = value.dtype.kind
        if kind in "iu":
            bits = 8 * value.dtype.itemsize
            low, high = (-(1 << bits - 1), 1 << bits - 1) if kind == "i" else (0, 1 << bits)
            if not isinstance(number, int) or not low <= number < high:
                return
        data = elements.pack([number], value.dtype)
        (self.uniform[value],) = elements.unpack(memoryview(data), value.dtype)

    def _is(self, value: Value, number: float) -> bool:
        found = self.uniform.get(value)
        if found is None or found != number:
            return False
        return number != 0 or math.copysign(1.0, found) == math.copysign(1.0, number)

    # ---- identities ----------------------------------------------------------------------------

    def _equal(self, node: Node) -> Value | None:
        """The value that the result is, bit for bit."""
        (out,) = node.outputs
        found = self._candidate(node)
        if found is None or (found.shape, found.dtype) != (out.shape, out.dtype):
            return None
        return found

    def _candidate(self, node: Node) -> Value | None:
        op, given = node.op, node.parameters
        if not node.operands:
            return None
        x, *rest = node.operands
        if op in ("reshape", "broadcast_to", "cast"):
            return x
        if op == "permute":
            return x if given["axes"] == tuple(range(len(x.shape))) else None
        if op == "slice":
            return x if all(step == 1 for step in given["steps"]) else None
        if op == "pad":
            return x if not any((*given["low"], *given["high"], *given["interior"])) else None
        if op == "concatenate":
            return x if not rest else None
        if op in ("max", "min"):
            return x if not given["axis"] else None
        if op in _INVOLUTIONS or op == "absolute":
            return self._unary(op, x)
        if op == "where":
            chosen = self.uniform.get(x)
            return None if chosen is None else rest[0] if chosen else rest[1]
        if op == "multiply":
            return x if self._is(rest[0], 1) else rest[0] if self._is(x, 1) else None
        if op == "divide":
            return x if self._is(rest[0], 1) else None
        if op == "subtract":
            return x if self._is(rest[0], 0) else None
        return None

    def _unary(self, op: str, x: Value) -> Value | None:
        before = self.maker.get(x)
        if before is None or before.op != op:
            return None
        return x if op == "absolute" else before.operands[0]

    def _shorter(self, node: Node) -> Node:
        """Of two changes of shape in a row, one."""
        before = self.maker.get(node.operands[0]) if node.op in VIEWS else None
        if before is None or before.op != node.op:
            return node
        (x,), given = before.operands, node.parameters
        if node.op == "permute":
            given = {"axes": tuple(before.parameters["axes"][a] for a in given["axes"])}
        elif node.op == "slice":
            first = before.parameters
            given = {
                "starts": _zipped(first["starts"], given["starts"], first["steps"]),
                "sizes": given["sizes"],
                "steps": tuple(a * b for a, b in zip(first["steps"], given["steps"])),
            }
        return Node(node.op, (x,), given, node.outputs)


def _zipped(first: Any, then: Any, steps: Any) -> tuple[int, ...]:
    return tuple(a + b * step for a, b, step in zip(first, then, steps))
