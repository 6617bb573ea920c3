"""The step of a plan that is one operation of the NumPy backend."""

from __future__ import annotations

from typing import Any

from fl_jit.steps import preferred_layout
from fl_jit.steps.donation import Values
from fl_jit.steps.interpret import run_node
from fl_jit.steps.views import show
from fl_tensor.extend.numpy import adapt, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout


class Operation:
    """See the module. The result is written in C order, or in the axis order that the node
    requests."""

    kind = "numpy"
    nodes: list[Node]
    dying: list[Value]

    def __init__(self, node: Node, found: dict[Value, StridedLayout], eager: Any) -> None:
        self.node, self.eager = node, eager
        self.operands = [(v, found[v]) for v in node.operands]
        self.roots = [layout.root for _, layout in self.operands] + list(node.outputs)
        (self.result,) = node.outputs

    def __call__(self, values: Values) -> None:
        values[self.result] = self.computed(self.shown(values))

    def shown(self, values: Values) -> list[Any]:
        """The arrays of the operands."""
        return [show(values, v, layout) for v, layout in self.operands]

    def computed(self, shown: list[Any]) -> Any:
        """The array of the result. ``shown`` is emptied, so that operands can be freed."""
        operands = [adapt(a, v.dtype) for a, (v, _) in zip(shown, self.operands, strict=True)]
        shown.clear()
        if "order" in self.node.parameters:
            return preferred_layout.run(self.eager, self.node, operands)
        made = run_node(self.eager, self.node, operands).array
        return made if made.flags.c_contiguous else memory.cast(made, made.dtype)
