"""Calling the kernel of a group on arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fl_tensor.backends.jit.codegen.kernel import Kernel
from fl_tensor.backends.jit.donation import Values, places
from fl_tensor.backends.jit.lower import Lowered, Operand
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.backends.numpy.provided import address
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
        self._places = places(lowered)

    @cached_property
    def _free(self) -> list[list[Value]]:
        # For each output what it may be written over; who dies is known when steps are in order.
        return [[root for root in roots if root in self.dying] for roots in self._places]

    def __call__(self, values: Values) -> None:
        addresses = [address(values[root]) + offset for root, offset in self.inputs]
        for (root, shape, dtype), free in zip(self.outputs, self._free):
            made = values.take(free, root)
            if made is None:
                made = memory.empty(shape, dtype)
            values[root] = made
            addresses.append(address(made))
        self.launch(addresses, [values[root] for root in self.scalars])


def _output(operand: Operand) -> tuple[Value, tuple[int, ...], Any]:
    return operand.root, operand.root.shape, TO_NUMPY[operand.root.dtype]
