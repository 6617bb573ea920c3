"""WeightNorm: weight normalisation, a weight as directions and lengths."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.reparametrization import Reparametrization
from fl_nn.migrations import migration
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class WeightNorm(Reparametrization):
    """Calls `module` with `weight = weight_g * weight_v / |weight_v|`, the norm over all axes but
    `axis` (over all for None): one length per output of Linear and Conv, `axis=1` for transposed
    convolutions. Salimans & Kingma, 2016.

    The parameter of that `name` in `module` becomes weight_g and weight_v here, which start so
    that the weight is what it was. Names in `state_dict` are those of PyTorch's
    `parametrizations.weight_norm`: for Linear bias, parametrizations.weight.original0 (weight_g)
    and parametrizations.weight.original1 (weight_v).
    """

    version = 2
    originals = {"weight_g": "original0", "weight_v": "original1"}

    def __init__(self, module: Module, axis: int | None = 0, name: str = "weight") -> None:
        super().__init__(module, name)
        weight = self.taken_parameter()
        if axis is not None and not -weight.ndim <= axis < weight.ndim:
            setattr(module, name, weight)
            raise ModuleError(f"[WeightNorm] axis {axis}: the {name} has shape {weight.shape}")
        self.axis = axis
        self.over = tuple(i for i in range(weight.ndim) if axis is None or i != axis % weight.ndim)
        self.weight_g = Parameter(self._length(weight.tensor))
        self.weight_v = Parameter(weight.tensor)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        weight = self.weight_v * (self.weight_g / self._length(self.weight_v))
        return self.call_with(weight, inputs, options)

    def _length(self, v: ft.Array) -> Any:
        return ft.norm(v, axis=self.over, keepdims=self.axis is not None)

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (f"axis={self.axis}", super().extra_repr())))


@migration(WeightNorm, 1)
def _(state: dict[str, ft.Tensor], norm: WeightNorm) -> None:
    # Version 1 had the names of the attributes: weight_g, weight_v, module.bias.
    for name in list(state):
        inner = name.removeprefix("module.")
        state[norm.state_name(name) if inner == name else inner] = state.pop(name)
