"""Linear: an affine map of the last axis."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class Linear(Module):
    """`x @ weight.T + bias`: x (..., inputs) gives (..., outputs).

    weight (outputs, inputs) and bias (outputs,) start uniform within +-1 / sqrt(inputs), drawn in
    this order from `generator` or the default one.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if inputs < 1 or outputs < 1:
            raise ModuleError(f"[Linear] {inputs} inputs and {outputs} outputs: give at least 1")
        self.inputs, self.outputs = inputs, outputs
        shape = (outputs, inputs)
        self.weight = Parameter(
            init.kaiming_uniform(shape, a=math.sqrt(5), generator=generator, dtype=dtype)
        )
        self.bias: Parameter | None = None
        if bias:
            bound = 1 / math.sqrt(inputs)
            values = init.uniform((outputs,), -bound, bound, generator=generator, dtype=dtype)
            self.bias = Parameter(values)

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.outputs}" + ("" if self.bias is not None else ", bias=False")
