"""Optimizer: what updates parameters from their gradients.

An update rule is written like a derived operation, over the namespace of operations `ops` of the
parameters' backend: any backend runs it, an override sees it, and nothing is checked or promoted
twice. Parameters are rebound, never written to: whoever kept a value keeps it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError, StateDictError
from fl_nn.module import like
from fl_nn.parameter import Parameter


class Optimizer(ABC):
    """Holds the parameters and, for each, the values gathered over the steps.

    A subclass lists its settings and the names of those values (`slots`), and writes `update` for
    one parameter.
    """

    #: Attributes that make up the settings; all are plain numbers or booleans.
    settings: tuple[str, ...] = ("lr",)
    #: Names of the values that a parameter may have in `state`.
    slots: tuple[str, ...] = ()

    def __init__(self, parameters: Iterable[Parameter], lr: float) -> None:
        self.parameters = list(parameters)
        name = type(self).__name__
        if not self.parameters:
            raise ModuleError(f"[{name}] no parameters to update; pass model.parameters()")
        for parameter in self.parameters:
            if not isinstance(parameter, Parameter):
                raise ModuleError(f"[{name}] {type(parameter).__name__} is not a Parameter")
        if len({id(p) for p in self.parameters}) != len(self.parameters):
            raise ModuleError(f"[{name}] a parameter is listed twice; list each once")
        self.lr = at_least_zero(name, "lr", lr)
        #: Per parameter: updates done, and the adapters gathered.
        self.steps = [0] * len(self.parameters)
        self.state: list[dict[str, Any]] = [{} for _ in self.parameters]

    @abstractmethod
    def update(self, ops: Any, value: Any, grad: Any, state: dict[str, Any], step: int) -> Any:
        """The new value of one parameter, as an adapter; `value` and `grad` are adapters too.

        `state` is the parameter's own, to be read and replaced; `step` counts its updates from 1.
        `ops.constant(x, value)` is a number beside `value`.
        """

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        backend = ops = None
        for index, parameter in enumerate(self.parameters):
            grad = parameter.grad
            if grad is None:
                continue
            if parameter.backend is not backend:
                backend = parameter.backend
                ops = ft.ops_for(backend)
            self.steps[index] += 1
            new = self.update(
                ops,
                parameter.tensor.adapter,
                grad.tensor.adapter,
                self.state[index],
                self.steps[index],
            )
            parameter.tensor = ft.Tensor(new, backend)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """A snapshot: `type`, `settings` and `steps` are plain values, `tensors` is keyed
        "0.momentum": parameter number and slot."""
        return {
            "type": type(self).__name__,
            "settings": {name: getattr(self, name) for name in self.settings},
            "steps": list(self.steps),
            "tensors": {
                f"{index}.{slot}": ft.Tensor(adapter, self.parameters[index].backend)
                for index, slots in enumerate(self.state)
                for slot, adapter in slots.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, settings included. Raises StateDictError, and changes nothing, when it
        is of another optimizer or does not fit the parameters."""
        problems = self._problems(state)
        if problems:
            raise StateDictError(
                f"the state does not fit this {type(self).__name__}: {'; '.join(problems)}. "
                "Build the optimizer over the same parameters in the same order"
            )
        for name, value in state["settings"].items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self.steps = list(state["steps"])
        self.state = [{} for _ in self.parameters]
        for key, tensor in state["tensors"].items():
            index, slot = key.split(".")
            own = self.parameters[int(index)].tensor
            self.state[int(index)][slot] = like(tensor, own).adapter

    def _problems(self, state: Mapping[str, Any]) -> list[str]:
        own = type(self).__name__
        if state.get("type") != own:
            return [f"it is of {state.get('type')!r}"]
        settings, steps, tensors = (state.get(k) for k in ("settings", "steps", "tensors"))
        if not isinstance(settings, Mapping) or not isinstance(tensors, Mapping):
            return ["settings or tensors are missing"]
        problems = [f"setting {name} is missing" for name in self.settings if name not in settings]
        problems += [f"setting {name} is unknown" for name in settings if name not in self.settings]
        problems += [
            f"setting {name} is {value!r}"
            for name, value in settings.items()
            if name in self.settings and not _alike(value, getattr(self, name))
        ]
        if not isinstance(steps, list) or not all(isinstance(n, int) for n in steps):
            return [*problems, "steps are missing"]
        if len(steps) != len(self.parameters):
            return [*problems, f"it has {len(steps)} parameters, here {len(self.parameters)}"]
        for key, tensor in tensors.items():
            index, _, slot = key.partition(".")
            if not index.isdigit() or int(index) >= len(steps) or slot not in self.slots:
                problems.append(f"tensor {key} is unexpected")
                continue
            value = self.parameters[int(index)].tensor
            if tensor.shape != value.shape or tensor.dtype is not value.dtype:
                problems.append(
                    f"tensor {key} is {tensor.dtype} {tensor.shape}, "
                    f"the parameter {value.dtype} {value.shape}"
                )
        return problems

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in self.settings)
        return f"{type(self).__name__}({len(self.parameters)} parameters, {values})"


def _alike(value: Any, own: Any) -> bool:
    # Settings come from files: numbers for numbers, booleans for booleans.
    if isinstance(own, tuple):
        pairs = zip(value, own, strict=False) if isinstance(value, (list, tuple)) else ()
        return [_alike(v, o) for v, o in pairs] == [True] * len(own)
    if isinstance(own, bool) or isinstance(value, bool):
        return isinstance(own, bool) and isinstance(value, bool)
    return isinstance(value, (int, float))


def at_least_zero(where: str, name: str, value: float) -> float:
    """`value` itself. Raises ModuleError below zero or for NaN."""
    if not value >= 0.0:
        raise ModuleError(f"[{where}] {name}={value}: give a number that is at least 0")
    return value
