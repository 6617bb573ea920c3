"""Calling the kernel of a group on arrays."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.jit.codegen.kernel import Kernel
from fl_tensor.backends.jit.lower import Lowered, Operand
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.graph.ir import Node, Value


class Launch:
    """One kernel: the step of a plan."""

    kind = "kernel"
    nodes: list[Node]
    dying: list[Value]

    def __init__(self, lowered: Lowered) -> None:
        operands = [*lowered.inputs, *lowered.outputs]
        strides = [o.strides for o in operands]
        self.launch = Kernel.of(lowered.program).bind(lowered.sizes, strides)
        self.inputs = [(o.root, o.offset * o.root.dtype.itemsize) for o in lowered.inputs]
        self.scalars = lowered.scalars
        self.outputs = [_output(o) for o in lowered.outputs]
        self.roots = [*(o.root for o in operands), *lowered.scalars]

    def __call__(self, values: dict[Value, Any]) -> None:
        addresses = [values[root].ctypes.data + offset for root, offset in self.inputs]
        for root, shape, dtype in self.outputs:
            made = values[root] = memory.empty(shape, dtype)
            addresses.append(made.ctypes.data)
        self.launch(addresses, [values[root] for root in self.scalars])


def _output(operand: Operand) -> tuple[Value, tuple[int, ...], Any]:
    return operand.root, operand.root.shape, TO_NUMPY[operand.root.dtype]
