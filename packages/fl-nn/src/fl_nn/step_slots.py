"""Places of the state of modules and optimizers, for graphs that read and replace it."""

from __future__ import annotations

import functools
from typing import Any

import fl_tensor as ft
from fl_autograd.extend import substitute
from fl_nn.module import Module
from fl_nn.optim.ema import EMA
from fl_nn.optim.loss_scaling import DynamicLossScaler
from fl_nn.optim.optimizer import Optimizer
from fl_nn.parameter import Parameter
from fl_nn.tree import state_entries
from fl_tensor.graph.capture import NumberSlot, TensorSlot


def module_slots(models: list[Module]) -> list[TensorSlot]:
    """Parameters and buffers, each once."""
    found: dict[Any, TensorSlot] = {}
    for n, model in enumerate(models):
        prefix = f"model{n}." if len(models) > 1 else ""
        for entry in state_entries(model, persistent=False):
            if isinstance(entry.owner, Parameter):
                slot = parameter_slot(prefix + entry.name, entry.owner)
            else:
                get = functools.partial(getattr, entry.owner, entry.attribute)
                put = functools.partial(setattr, entry.owner, entry.attribute)
                slot = TensorSlot(prefix + entry.name, get, put)
            found.setdefault(entry.key, slot)
    return list(found.values())


def optimizer_slots(prefix: str, optimizer: Optimizer) -> tuple[list[TensorSlot], list[NumberSlot]]:
    """What an optimizer has of slots and numbers, and its settings that may change."""
    tensors: list[TensorSlot] = []
    numbers: list[NumberSlot] = []
    for i, state in enumerate(optimizer.state):
        for name, value in state.items():
            get, put = _item(state, name)
            if isinstance(value, ft.Tensor):
                tensors.append(TensorSlot(f"{prefix}.{i}.{name}", get, put))
            else:
                numbers.append(NumberSlot(f"{prefix}.{i}.{name}", get, put))
    for i, group in enumerate(optimizer.param_groups):
        for name in varying_settings(optimizer, group):
            numbers.append(NumberSlot(f"{prefix}.group{i}.{name}", *_item(group, name)))
    return tensors, numbers


def _item(holder: dict[str, Any], name: str) -> tuple[Any, Any]:
    return (
        functools.partial(holder.__getitem__, name),
        functools.partial(holder.__setitem__, name),
    )


def parameter_slot(name: str, parameter: Parameter) -> TensorSlot:
    """The value of a parameter."""
    return TensorSlot(name, functools.partial(getattr, parameter, "tensor"), AssignValue(parameter))


def gradient_slot(name: str, parameter: Parameter) -> TensorSlot:
    """The gradient of a parameter that has one."""
    return TensorSlot(name, functools.partial(_gradient, parameter), _AssignGradient(parameter))


def _gradient(parameter: Parameter) -> ft.Tensor:
    grad = parameter.grad
    assert grad is not None
    return grad.tensor


def scaler_slots(prefix: str, scaler: DynamicLossScaler) -> list[NumberSlot]:
    """The factor of a loss scaler, and what it counts."""
    return [
        NumberSlot(
            f"{prefix}.{name}",
            functools.partial(getattr, scaler, name),
            functools.partial(setattr, scaler, name),
        )
        for name in scaler.counters
    ]


def average_slots(prefix: str, ema: EMA) -> tuple[list[TensorSlot], NumberSlot]:
    """Averages of weights, and how many updates they have had."""
    tensors = [
        TensorSlot(
            f"{prefix}.{name}",
            functools.partial(_average, ema, name),
            functools.partial(_assign_average, ema, name),
        )
        for name in ema.averages
    ]
    get, put = functools.partial(getattr, ema), functools.partial(setattr, ema)
    updates = NumberSlot(
        f"{prefix}.updates", functools.partial(get, "updates"), functools.partial(put, "updates")
    )
    return tensors, updates


def _average(ema: EMA, name: str) -> ft.Tensor:
    return ema.averages[name]


def _assign_average(ema: EMA, name: str, value: ft.Tensor) -> None:
    ema.averages[name] = value


class AssignValue:
    """Gives a parameter another value."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def __call__(self, value: ft.Tensor) -> None:
        substitute(self.parameter, value)


class _AssignGradient:
    """Assigns the gradient of a parameter."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def __call__(self, value: ft.Tensor) -> None:
        self.parameter.grad = value


def varying_settings(optimizer: Optimizer, group: dict[str, Any]) -> list[str]:
    """Names of the settings of a group that a schedule may change at each step."""
    return [n for n in ("lr", *sorted(optimizer.scheduled - {"lr"})) if type(group.get(n)) is float]
