"""The base of layers that compute a parameter of another layer: WeightNorm, SpectralNorm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class Reparametrization(Module):
    """Calls `module` with a value in place of its parameter `name`, which a subclass takes out and
    computes from parameters of its own.

    Names in `state_dict` are those of PyTorch's parametrizations: what `module` keeps has its own
    names, and attributes in `originals` are "parametrizations.<name>.<original>".
    """

    originals: ClassVar[Mapping[str, str]]

    def __init__(self, module: Module, name: str) -> None:
        self.name, self.module = name, module

    def taken_parameter(self) -> Parameter:
        """The parameter, which `module` has no longer. Raises ModuleError where it has none."""
        parameter = getattr(self.module, self.name, None)
        if not isinstance(parameter, Parameter):
            kind = type(self.module).__name__
            raise ModuleError(f"[{type(self).__name__}] {kind} has no parameter {self.name!r}")
        setattr(self.module, self.name, None)
        return parameter

    def call_with(self, value: ft.Array, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What `module` gives with this value of the parameter."""
        # A copy of the module is called: other threads may be calling the module meanwhile.
        before = dict(vars(self.module))
        called = object.__new__(type(self.module))
        vars(called).update(before)
        vars(called)[self.name] = value
        output = called(*inputs, **options)
        for name, after in vars(called).items():
            if name != self.name and after is not before.get(name):  # running statistics
                setattr(self.module, name, after)
        return output

    def state_name(self, attribute: str) -> str:
        if attribute in self.originals:
            return f"parametrizations.{self.name}.{self.originals[attribute]}"
        return "" if attribute == "module" else attribute

    def extra_repr(self) -> str:
        return f"name={self.name!r}" if self.name != "weight" else ""
