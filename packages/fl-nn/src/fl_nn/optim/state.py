"""Validation of a loaded optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.optim.precision import ROUNDING, wide_dtype
from fl_nn.settings import COUNT, is_number

if TYPE_CHECKING:
    from fl_nn.optim.optimizer import Optimizer


def problems(optimizer: Optimizer, state: Mapping[str, Any]) -> list[str]:
    """Every difference, in words; none when the state fits."""
    if state.get("type") != type(optimizer).__name__:
        return [f"it is of {state.get('type')!r}"]
    groups, numbers, tensors = (state.get(k) for k in ("param_groups", "numbers", "tensors"))
    if not isinstance(groups, list) or not all(isinstance(group, Mapping) for group in groups):
        return ["param_groups are missing"]
    if not isinstance(numbers, Mapping) or not isinstance(tensors, Mapping):
        return ["numbers or tensors are missing"]
    found = _group_problems(optimizer, groups)
    for key, value in numbers.items():
        place = _place(optimizer, key, optimizer.numbers)
        if place is None:
            found.append(f"number {key} is unexpected")
        elif not is_number(value) or (place[1] == "step" and not COUNT.fits(value)):
            found.append(f"number {key} is {value!r}")
    for key, tensor in tensors.items():
        found += _tensor_problems(optimizer, key, tensor)
    return found


def _group_problems(optimizer: Optimizer, groups: list[Mapping[str, Any]]) -> list[str]:
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


def _tensor_problems(optimizer: Optimizer, key: str, tensor: Any) -> list[str]:
    place = _place(optimizer, key, (*optimizer.slots, ROUNDING))
    if place is None or not isinstance(tensor, ft.Tensor):
        return [f"tensor {key} is unexpected"]
    value = optimizer.parameters[place[0]]
    shape, dtype = optimizer.slot_shape(place[1], value.shape), wide_dtype(value.dtype)
    if place[1] == ROUNDING and dtype is value.dtype:
        return [f"tensor {key} is of a parameter of 16 bits, here it is {dtype}"]
    if tensor.shape != shape or tensor.dtype is not dtype:
        return [
            f"tensor {key} is {tensor.dtype} {tensor.shape}, expected {dtype} {shape} "
            f"for a parameter {value.shape}"
        ]
    return []


def _place(optimizer: Optimizer, key: str, names: tuple[str, ...]) -> tuple[int, str] | None:
    index, _, name = key.partition(".")
    if not (index.isascii() and index.isdigit()) or int(index) >= len(optimizer.state):
        return None
    return (int(index), name) if name in names else None
