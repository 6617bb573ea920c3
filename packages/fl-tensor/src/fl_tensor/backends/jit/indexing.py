"""Scatter as the step of a plan: written into its first operand where nobody else sees that."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.jit.donation import Values
from fl_tensor.backends.jit.views import show
from fl_tensor.backends.numpy.adapter import adapt
from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.layout import Layout, contiguous


class Scatter:
    """Rows added to a table, or put into it: a few of them need not cost a copy of the table."""

    kind = "numpy"
    nodes: list[Node]
    dying: list[Value]

    def __init__(self, node: Node, found: dict[Value, Layout], eager: Any) -> None:
        self.node, self.eager = node, eager
        self.operands = [(v, found[v]) for v in node.operands]
        self.roots = [layout.root for _, layout in self.operands] + list(node.outputs)
        table, (root, offset, strides) = self.operands[0]
        whole = root.shape == table.shape and not offset and strides == contiguous(table.shape)
        self._places = [root] if whole else []

    def __call__(self, values: Values) -> None:
        # The others first: one that shows the table's elements holds on to its array.
        indices, updates = (adapt(show(values, v, at), v.dtype) for v, at in self.operands[1:])
        table, layout = self.operands[0]
        (result,) = self.node.outputs
        places = [root for root in self._places if root in self.dying]
        taken = values.take(places, result)
        array = show(values, table, layout) if taken is None else taken
        parameters = self.node.parameters
        made = self.eager._scatter(
            adapt(array, table.dtype),
            indices,
            updates,
            parameters["axis"],
            parameters["mode"],
            taken is not None,
        )
        values[result] = made.array
