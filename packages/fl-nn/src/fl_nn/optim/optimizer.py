"""Optimizer: what updates parameters from their gradients.

All arithmetic is done by the public functions of fl_tensor on tensors, so that any backend runs it
and an override sees it. Parameters are rebound, never written to: whoever kept a value keeps it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError, StateDictError
from fl_nn.module import Parameter, like


class Optimizer(ABC):
    """Holds the parameters and, for each, the tensors gathered over the steps (`slots`).

    A subclass lists its settings in `settings` and writes `update` for one parameter.
    """

    #: Attributes that make up the settings; all are plain numbers or booleans.
    settings: tuple[str, ...] = ("lr",)
    #: Names of the tensors that a parameter may have in `state`.
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
        #: Per parameter: updates done, and the tensors gathered.
        self.steps = [0] * len(self.parameters)
        self.state: list[dict[str, ft.Tensor]] = [{} for _ in self.parameters]

    @abstractmethod
    def update(
        self, value: ft.Tensor, grad: ft.Tensor, state: dict[str, ft.Tensor], step: int
    ) -> ft.Tensor:
        """The new value of one parameter. `step` counts its updates from 1; `state` is its own."""

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for index, parameter in enumerate(self.parameters):
            grad = parameter.grad
            if grad is not None:
                self.steps[index] += 1
                parameter.tensor = self.update(
                    parameter.tensor, grad.tensor, self.state[index], self.steps[index]
                )

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """A snapshot: `type`, `settings` and `steps` are plain values, `tensors` is keyed
        "0.momentum": parameter number and slot."""
        return {
            "type": type(self).__name__,
            "settings": {name: getattr(self, name) for name in self.settings},
            "steps": list(self.steps),
            "tensors": {
                f"{index}.{slot}": tensor
                for index, slots in enumerate(self.state)
                for slot, tensor in slots.items()
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
            self.state[int(index)][slot] = like(tensor, self.parameters[int(index)].tensor)

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
