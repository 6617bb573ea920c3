"""Loading state dicts: comparison with the model, and assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import fl_tensor as ft
from fl_nn.files.lazy import Loadable, equal, load_tensor
from fl_nn.parameter import Parameter
from fl_nn.tree import ModuleTree, state_entries
from fl_nn.values import like, snapshot


def mismatches(model: ModuleTree, state: Mapping[str, Loadable], strict: bool) -> list[str]:
    """All that keeps `state` from being loaded, in words; with `strict` also names that are
    missing or unexpected. Of names that share a tensor one is enough."""
    own = {entry.name: entry for entry in state_entries(model, persistent=True)}
    differences: list[str] = []
    given: dict[tuple[int, str], str] = {}
    for name, entry in own.items():
        if name in state:
            differences += _differences(name, state[name], entry.value)
            other = given.setdefault(entry.key, name)
            if not equal(state[other], state[name]):
                differences.append(f"{other} and {name} differ, but are one tensor here")
    for entry in state_entries(model, persistent=False):
        known = entry.key in given or entry.value.backend.has_values
        if not known and not (strict and entry.name in own):
            differences.append(f"{entry.name} has no value, neither here nor there")
    if not strict:
        return differences
    missing = [f"missing {name}" for name, entry in own.items() if entry.key not in given]
    return missing + [f"unexpected {name}" for name in state if name not in own] + differences


def mismatch_message(model: ModuleTree, found: Iterable[str]) -> str:
    """The message about problems."""
    return (
        f"the state dict does not fit this {type(model).__name__}: {'; '.join(found)}. "
        "Build the model with the settings it was saved with, convert with "
        "model.to(dtype), or pass strict=False to take only the names that both have"
    )


def load_values(model: ModuleTree, state: Mapping[str, Loadable]) -> None:
    """Take over values that fit, one after another; what is shared once. They go where those of
    the model are; in a model without values, built on `null`, they stay where they are."""
    own = {entry.name: entry for entry in state_entries(model, persistent=True)}
    for name in {entry.key: name for name, entry in own.items() if name in state}.values():
        entry, value = own[name], load_tensor(state[name])
        if entry.value.backend.has_values or not value.backend.has_values:
            entry.value = like(value, entry.value)
        elif isinstance(entry.owner, Parameter):
            entry.owner.replace(value)
        else:
            entry.value = value


def deduplicated(model: ModuleTree) -> tuple[dict[str, ft.Tensor], dict[str, str]]:
    """The state of a model with what is shared under its first name, and the other names, each
    with that first one."""
    first: dict[tuple[int, str], str] = {}
    tensors: dict[str, ft.Tensor] = {}
    shared: dict[str, str] = {}
    for entry in state_entries(model, persistent=True):
        name = first.setdefault(entry.key, entry.name)
        if name == entry.name:
            tensors[name] = snapshot(entry.value)
        else:
            shared[entry.name] = name
    return tensors, shared


def _differences(name: str, value: Loadable, own: ft.Tensor) -> list[str]:
    found = []
    if value.shape != own.shape:
        found.append(f"{name} has shape {value.shape}, here {own.shape}")
    if value.dtype is not own.dtype:
        found.append(f"{name} is {value.dtype}, here {own.dtype}")
    return found
