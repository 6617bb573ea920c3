"""Translation of a trace to a graph (``fl_tensor.graph``), the input of the graph passes.

Leaves become inputs. The position of a random stream becomes two inputs, seed and offset, which are
operands of ``random_bits``. The start indices of ``slice_update`` are operands as well. A constant
array becomes its number, broadcast. A live constant array is materialized by a cast to its own
dtype.
"""

from __future__ import annotations

from typing import Any

from fl_jit.traces.lazy import Stream
from fl_jit.traces.recording import Call
from fl_tensor import CPU, dtypes
from fl_tensor.extend import operation_attributes
from fl_tensor.graph import Graph, Node, Value


class Translation:
    """The graph of recorded calls. Its inputs are the leaves in order; ``inputs[i]`` has the values
    of leaf i. Its outputs are the live results; ``outputs`` has their numbers. The value of call
    ``i`` has the id ``first_result + i``; passes keep the ids of values that they keep."""

    def __init__(self, recorded: list[Call], leaves: list[Any], seen: list[bool]) -> None:
        self.inputs: list[tuple[Value, ...]] = []
        self._count = 0
        for leaf in leaves:
            if leaf.__class__ is Stream:
                word = self._value((), dtypes.int64), self._value((), dtypes.int64)
                self.inputs.append(word)
            else:
                self.inputs.append((self._value(leaf.shape, leaf.dtype),))
        self.first_result = first = self._count
        self.call_count = len(recorded)
        results = [self._value(call.shape, call.dtype) for call in recorded]
        nodes = []
        for call, result in zip(recorded, results, strict=True):
            operands: list[Value] = []
            for i in call.operands:
                operands += (results[i],) if i >= 0 else self.inputs[~i]
            if call.op == "full" and seen[result.id - first]:
                spread = self._value(call.shape, call.dtype)
                nodes.append(_node(call, operands, spread))
                nodes.append(Node("cast", (spread,), {"dtype": call.dtype}, (result,)))
            else:
                nodes.append(_node(call, operands, result))
        self.outputs = [i for i, is_seen in enumerate(seen) if is_seen]
        self.graph = Graph(
            inputs=[v for values in self.inputs for v in values],
            nodes=nodes,
            outputs=[results[i] for i in self.outputs],
        )

    def _value(self, shape: tuple[int, ...], dtype: dtypes.DType) -> Value:
        self._count += 1
        return Value(self._count - 1, shape, dtype, CPU)


def _node(call: Call, operands: list[Value], result: Value) -> Node:
    if call.op == "full":
        return Node("broadcast_to", tuple(operands), {"shape": call.shape}, (result,))
    if call.op == "random_bits":
        return Node("random_bits", tuple(operands), {}, (result,))
    if call.op == "slice_update":
        return Node("slice_update", tuple(operands), {"steps": call.parameters[0]}, (result,))
    inputs: Any = (tuple(operands),) if call.op == "concatenate" else tuple(operands)
    return Node(call.op, inputs, _named(call), (result,))


def _named(call: Call) -> dict[str, Any]:
    if "." in call.op:  # a registered operation: pairs
        return dict(call.parameters)
    return dict(zip(operation_attributes(call.op), call.parameters, strict=True))
