"""The step of a plan that is one operation of the eager backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import Any

from fl_jit.steps.copies import copies
from fl_jit.steps.donation import Values
from fl_jit.steps.interpret import run_node
from fl_jit.steps.native import NativeStep
from fl_jit.steps.views import array_of
from fl_tensor.extend.numpy import adapt, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout


class Operation:
    """See the module. The result is written in C order. A node with a parameter ``order`` computes
    a result with its axes in that order."""

    kind = "numpy"
    nodes: list[Node]
    dying: list[Value]
    in_place: Collection[Value] = ()

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout], eager: Any) -> None:
        self.node, self.eager, self._layouts = node, eager, layouts
        self.operands = [(v, layouts[v]) for v in node.operands]
        self.roots = [layout.root for _, layout in self.operands] + list(node.outputs)
        (self.result,) = node.outputs

    def native(self, packed: Set[Value]) -> NativeStep | None:
        """The step as calls on fixed memory; None where NumPy computes it."""
        return None if "order" in self.node.parameters else copies(self.node, self._layouts)

    def __call__(self, values: Values) -> None:
        operands = [adapt(array_of(values, v, layout), v.dtype) for v, layout in self.operands]
        values[self.result] = self._compute(operands)

    def _compute(self, operands: list[Any]) -> Any:
        parameters = dict(self.node.parameters)
        order = parameters.pop("order", None)
        if order is None:
            made = run_node(self.eager, self.node, operands).array
        else:
            made = getattr(self.eager, self.node.op)(*operands, *parameters.values()).array
            made = made.transpose(order)
        return made if made.flags.c_contiguous else memory.cast(made, made.dtype)
