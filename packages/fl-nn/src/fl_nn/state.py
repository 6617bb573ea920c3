"""Loading state dicts: comparison with the model, and assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_nn.files.stored import Loadable, equal, loaded
from fl_nn.parameter import Parameter
from fl_nn.tree import cells
from fl_nn.values import like, snapshot

if TYPE_CHECKING:
    from fl_nn.module import Module


def problems(model: Module, state: Mapping[str, Loadable], strict: bool) -> list[str]:
    """All that keeps `state` from being loaded, in words; with `strict` also names that are
    missing or unexpected. Of names that share a tensor one is enough."""
    own = {cell.name: cell for cell in cells(model, persistent=True)}
    differences: list[str] = []
    given: dict[tuple[int, str], str] = {}
    for name, cell in own.items():
        if name in state:
            differences += _differences(name, state[name], cell.value)
            other = given.setdefault(cell.key, name)
            if not equal(state[other], state[name]):
                differences.append(f"{other} and {name} differ, but are one tensor here")
    for cell in cells(model, persistent=False):
        known = cell.key in given or cell.value.backend.has_values
        if not known and not (strict and cell.name in own):
            differences.append(f"{cell.name} has no value, neither here nor there")
    if not strict:
        return differences
    missing = [f"missing {name}" for name, cell in own.items() if cell.key not in given]
    return missing + [f"unexpected {name}" for name in state if name not in own] + differences


def misfit(model: Module, found: Iterable[str]) -> str:
    """The message about problems."""
    return (
        f"the state dict does not fit this {type(model).__name__}: {'; '.join(found)}. "
        "Build the model with the settings it was saved with, convert with "
        "model.to(dtype), or pass strict=False to take only the names that both have"
    )


def take(model: Module, state: Mapping[str, Loadable]) -> None:
    """Take over values that fit, one after another; what is shared once. They go where those of
    the model are; in a model without values, built on `null`, they stay where they are."""
    own = {cell.name: cell for cell in cells(model, persistent=True)}
    for name in {cell.key: name for name, cell in own.items() if name in state}.values():
        cell, value = own[name], loaded(state[name])
        if cell.value.backend.has_values or not value.backend.has_values:
            cell.value = like(value, cell.value)
        elif isinstance(cell.owner, Parameter):
            cell.owner.replace(value)
        else:
            cell.value = value


def stored_once(model: Module) -> tuple[dict[str, ft.Tensor], dict[str, str]]:
    """The state of a model with what is shared under its first name, and the other names, each
    with that first one."""
    first: dict[tuple[int, str], str] = {}
    tensors: dict[str, ft.Tensor] = {}
    shared: dict[str, str] = {}
    for cell in cells(model, persistent=True):
        name = first.setdefault(cell.key, cell.name)
        if name == cell.name:
            tensors[name] = snapshot(cell.value)
        else:
            shared[cell.name] = name
    return tensors, shared


def _differences(name: str, value: Loadable, own: ft.Tensor) -> list[str]:
    found = []
    if value.shape != own.shape:
        found.append(f"{name} has shape {value.shape}, here {own.shape}")
    if value.dtype is not own.dtype:
        found.append(f"{name} is {value.dtype}, here {own.dtype}")
    return found
