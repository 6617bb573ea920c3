"""The step of a plan that calls a registered kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fl_jit.extensions.kernels import Run
from fl_tensor.extend.numpy import TO_NUMPY, adapt, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout


class External:
    """One node, computed by ``run(*addresses)``."""

    kind = "external"
    nodes: list[Node]
    dying: list[Value]
    in_place: Collection[Value] = ()

    def __init__(self, node: Node, layouts: Mapping[Value, StridedLayout], run: Run) -> None:
        self.run = run
        (self.output,) = node.outputs
        self.dtype = TO_NUMPY[self.output.dtype]
        operands = [layouts[v] for v in node.operands]
        self.inputs = [(p.root, p.offset * p.root.dtype.itemsize) for p in operands]
        self.roots = [*(p.root for p in operands), self.output]

    def __call__(self, values: dict[Value, Any]) -> None:
        # The address of a number is valid as long as its array is referenced.
        arrays = [adapt(values[root], root.dtype).array for root, _ in self.inputs]
        made = memory.empty(self.output.shape, self.dtype)
        addresses = [a.ctypes.data + offset for a, (_, offset) in zip(arrays, self.inputs)]
        self.run(*addresses, made.ctypes.data)
        values[self.output] = made
