"""WeightNorm: weight normalisation, a weight as directions and lengths."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class WeightNorm(Module):
    """Calls `module` with `weight = weight_g * weight_v / |weight_v|`, the norm over all axes but
    `axis` (over all for None): one length per output of Linear and Conv, `axis=1` for transposed
    convolutions. Salimans & Kingma, 2016.

    The parameter of that `name` in `module` becomes weight_g and weight_v here, which start so
    that the weight is what it was.
    """

    def __init__(self, module: Module, axis: int | None = 0, name: str = "weight") -> None:
        weight = getattr(module, name, None)
        if not isinstance(weight, Parameter):
            raise ModuleError(f"[WeightNorm] {type(module).__name__} has no parameter {name!r}")
        if axis is not None and not -weight.ndim <= axis < weight.ndim:
            raise ModuleError(f"[WeightNorm] axis {axis}: the {name} has shape {weight.shape}")
        self.axis, self.name = axis, name
        self.over = tuple(i for i in range(weight.ndim) if axis is None or i != axis % weight.ndim)
        self.module = module
        self.weight_g = Parameter(self._length(weight.tensor))
        self.weight_v = Parameter(weight.tensor)
        setattr(module, name, None)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        weight = self.weight_v * (self.weight_g / self._length(self.weight_v))
        # A copy of the module is called: other threads may be calling the module meanwhile.
        before = dict(vars(self.module))
        called = object.__new__(type(self.module))
        vars(called).update(before)
        vars(called)[self.name] = weight
        output = called(*inputs, **options)
        for name, value in vars(called).items():
            if name != self.name and value is not before.get(name):  # running statistics
                setattr(self.module, name, value)
        return output

    def _length(self, v: ft.Array) -> Any:
        return ft.norm(v, axis=self.over, keepdims=self.axis is not None)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"
