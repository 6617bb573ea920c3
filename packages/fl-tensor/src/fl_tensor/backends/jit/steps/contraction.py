"""The step of a plan that is a product, a convolution or the gradient of one."""

from __future__ import annotations

from typing import Any

from fl_tensor.backends.jit.asked import asking
from fl_tensor.backends.jit.kept import Kept
from fl_tensor.backends.jit.steps import keeping
from fl_tensor.backends.jit.steps.again import Again
from fl_tensor.backends.jit.steps.donation import Values
from fl_tensor.backends.jit.steps.operation import Operation
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import TO_NUMPY
from fl_tensor.graph.ir import Node, Value
from fl_tensor.graph.layout import Layout


class Contraction(Operation):
    """Where there is no provider, or none that takes it, NumPy computes."""

    kind = "contraction"

    def __init__(self, node: Node, found: dict[Value, Layout], eager: Any) -> None:
        super().__init__(node, found, eager)
        # A library is given the images first (``ConvolutionWeights``).
        turned = node.op == "conv_weight_gradient"
        self._again = Again(self.operands[::-1] if turned else self.operands)

    def __call__(self, values: Values) -> None:
        if self._again.is_known:
            made = memory.empty(self.result.shape, TO_NUMPY[self.result.dtype])
            if self._again.run(values, made):
                values[self.result] = made
                return
            del made
        with asking() as asked:
            made = self.computed(self.shown(values))
        self._again.learn(asked, values, made)
        values[self.result] = made

    def computed(self, shown: list[Any]) -> Any:
        if shown[-1].__class__ is Kept:
            made = keeping.computed(self.node, *shown)
            if made is not None:
                return made
            shown[-1] = shown[-1].factor()
        return super().computed(shown)
