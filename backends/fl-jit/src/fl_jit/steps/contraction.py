"""The step of a plan that is a GEMM, a convolution or one of its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from fl_jit.kernels.layout import Packed
from fl_jit.kernels.native_calls import native_call
from fl_jit.steps.bound_kernel import bind
from fl_jit.steps.donation import Values
from fl_jit.steps.native import NativePart, NativeStep
from fl_jit.steps.operation import Operation
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout


class Contraction(Operation):
    """A contraction by its bound kernel. The eager backend computes it where there is none.
    ``packed``: the layout of the weights in runs in which they are prepacked. ``small``: the kernel
    also computes products that take no longer than a call."""

    kind = "contraction"

    def __init__(
        self,
        node: Node,
        layouts: Mapping[Value, StridedLayout],
        eager: Any,
        packed: Packed | None = None,
        small: bool = False,
    ) -> None:
        super().__init__(node, layouts, eager)
        self.kernel = bind(node, layouts, packed, small=small)
        self._shape, self._dtype = self.result.shape, TO_NUMPY[self.result.dtype]

    def native(self, packed: Set[Value]) -> NativeStep | None:
        """The step as a call on fixed memory; None where NumPy computes it. ``packed``: the weights
        that are prepacked."""
        found = None
        if self.kernel is not None:
            found = self.kernel.native(not packed.isdisjoint(self.roots))
        if found is None:
            return None
        operands = [*found.operands, (self.result, 0)]
        return NativeStep([NativePart(native_call(found.kernel), operands)], [(self.result, [])])

    def __call__(self, values: Values) -> None:
        if self.kernel is not None:
            made = memory.empty(self._shape, self._dtype)
            if self.kernel.run(values, made):
                values[self.result] = made
                return
            del made
        super().__call__(values)
