"""Validation of a loaded optimizer state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import fl_tensor as ft
from fl_nn.files.lazy import Loadable
from fl_nn.optim.precision import ROUNDING, accumulation_dtype
from fl_nn.settings import COUNT, is_number


class Shaped(Protocol):
    """What a tensor of the state is compared with: a parameter."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> ft.DType: ...


class OptimizerStructure(Protocol):
    """What the state of an optimizer is compared with."""

    slots: tuple[str, ...]
    numbers: tuple[str, ...]
    param_groups: list[dict[str, Any]]
    state: list[dict[str, Any]]

    @property
    def parameters(self) -> Sequence[Shaped]: ...

    def slot_shape(self, slot: str, shape: tuple[int, ...]) -> tuple[int, ...]: ...

    def problems(self, settings: Mapping[str, Any]) -> list[str]: ...


def mismatches(optimizer: OptimizerStructure, name: str, state: Mapping[str, Any]) -> list[str]:
    """Every difference to an optimizer of the class `name`, in words; none when the state fits."""
    if state.get("type") != name:
        return [f"it is of {state.get('type')!r}"]
    groups, numbers, tensors = (state.get(k) for k in ("param_groups", "numbers", "tensors"))
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        return ["param_groups are missing"]
    if not isinstance(numbers, Mapping) or not isinstance(tensors, Mapping):
        return ["numbers or tensors are missing"]
    found = _group_problems(optimizer, groups)
    for key, value in numbers.items():
        place = _entry(optimizer, key, optimizer.numbers)
        if place is None:
            found.append(f"number {key} is unexpected")
        elif not is_number(value) or (place[1] == "step" and not COUNT.fits(value)):
            found.append(f"number {key} is {value!r}")
    for key, tensor in tensors.items():
        found += _tensor_problems(optimizer, key, tensor)
    return found


def _group_problems(optimizer: OptimizerStructure, groups: list[Mapping[str, Any]]) -> list[str]:
    if len(groups) != len(optimizer.param_groups):
        return [f"it has {len(groups)} groups, here {len(optimizer.param_groups)}"]
    found, first = [], 0
    for index, (group, own) in enumerate(zip(groups, optimizer.param_groups)):
        settings, params = dict(group), group.get("params")
        settings.pop("params", None)
        count = len(own["params"])
        if not isinstance(params, list):
            found.append(f"group {index} does not say which parameters it has")
        elif len(params) != count:
            found.append(f"group {index} has {len(params)} parameters, here {count}")
        elif params != list(range(first, first + count)):
            found.append(f"group {index} numbers its parameters {params}")
        found += [f"group {index}: {words}" for words in optimizer.problems(settings)]
        first += count
    return found


def _tensor_problems(optimizer: OptimizerStructure, key: str, tensor: Any) -> list[str]:
    place = _entry(optimizer, key, (*optimizer.slots, ROUNDING))
    if place is None or not isinstance(tensor, Loadable):
        return [f"tensor {key} is unexpected"]
    value = optimizer.parameters[place[0]]
    shape, dtype = optimizer.slot_shape(place[1], value.shape), accumulation_dtype(value.dtype)
    if place[1] == ROUNDING and dtype is value.dtype:
        return [f"tensor {key} is of a parameter of 16 bits, here it is {dtype}"]
    if tensor.shape != shape or tensor.dtype is not dtype:
        return [
            f"tensor {key} is {tensor.dtype} {tensor.shape}, expected {dtype} {shape} "
            f"for a parameter {value.shape}"
        ]
    return []


def _entry(
    optimizer: OptimizerStructure, key: str, names: tuple[str, ...]
) -> tuple[int, str] | None:
    index, _, name = key.partition(".")
    if not (index.isascii() and index.isdigit()) or int(index) >= len(optimizer.state):
        return None
    return (int(index), name) if name in names else None
