"""The step of a plan that is a GEMM, a convolution or one of its gradients."""

from __future__ import annotations

from typing import Any

from fl_jit.eager.dispatch_recorder import recording_dispatches
from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.steps import prepacking
from fl_jit.steps.bound_dispatch import BoundDispatch
from fl_jit.steps.donation import Values
from fl_jit.steps.operation import Operation
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import StridedLayout


class Contraction(Operation):
    """A contraction by a kernel library. NumPy computes it where no library supports it."""

    kind = "contraction"

    def __init__(self, node: Node, found: dict[Value, StridedLayout], eager: Any) -> None:
        super().__init__(node, found, eager)
        # A kernel library takes the images first (``ConvWeightGrad``).
        turned = node.op == "conv_weight_gradient"
        self._again = BoundDispatch(self.operands[::-1] if turned else self.operands)

    def __call__(self, values: Values) -> None:
        if self._again.is_known:
            made = memory.empty(self.result.shape, TO_NUMPY[self.result.dtype])
            if self._again.run(values, made):
                values[self.result] = made
                return
            del made
        with recording_dispatches() as asked:
            made = self.computed(self.shown(values))
        self._again.learn(asked, values, made)
        values[self.result] = made

    def computed(self, shown: list[Any]) -> Any:
        if shown[-1].__class__ is PrepackedArray:
            made = prepacking.computed(self.node, *shown)
            if made is not None:
                return made
            shown[-1] = shown[-1].factor()
        return super().computed(shown)
