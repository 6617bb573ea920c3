"""State dicts of models whose parameters are cut, in the form that they have without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import fl_tensor as ft
from fl_nn import state_dict as states
from fl_nn.errors import StateDictError
from fl_nn.files.lazy import Loadable, as_loadable, load_tensor
from fl_nn.module import Module
from fl_nn.parallel.sharded_parameter import assembled, own_part, whole_shape
from fl_nn.parameter import Parameter
from fl_nn.state_dict import deduplicated
from fl_nn.tree import StateEntry, state_entries
from fl_nn.values import like


def whole_state_dict(model: Module) -> dict[str, ft.Tensor]:
    """The state of a model with tensor parallel layers as it is without them, on every rank: each
    `ShardedParameter` assembled. All ranks of their groups call it."""
    whole = dict(whole_tensors(model))
    _, shared = deduplicated(model)
    return whole | {alias: whole[name] for alias, name in shared.items()}


def whole_tensors(model: Module) -> Iterator[tuple[str, ft.Tensor]]:
    """The same, one after another, what names share once."""
    parameters = dict(model.named_parameters())
    tensors, _ = deduplicated(model)
    for name, tensor in tensors.items():
        yield name, assembled(parameters[name], tensor) if name in parameters else tensor


def load_whole_state(model: Module, state: Mapping[str, Any]) -> dict[str, Loadable]:
    """Load a state as `whole_state_dict` gives it, and plain models have it: of what is cut, this
    rank's share. Gives the values by the first name of each. Raises StateDictError, and changes
    nothing, where a name, shape or dtype differs."""
    given = as_loadable(state)
    first: dict[tuple[int, str], StateEntry] = {}
    values: dict[str, Loadable] = {}
    problems = [f"unexpected {name}" for name in given]
    for entry in state_entries(model, persistent=True):
        known = first.setdefault(entry.key, entry)
        if entry.name in given:
            problems.remove(f"unexpected {entry.name}")
            values.setdefault(known.name, given[entry.name])
    for entry in first.values():
        if entry.name not in values:
            problems.append(f"missing {entry.name}")
            continue
        value, shape = values[entry.name], entry.value.shape
        if isinstance(entry.owner, Parameter):
            shape = whole_shape(entry.owner)
        if value.shape != shape:
            problems.append(f"{entry.name} has shape {value.shape}, here {shape}")
        if value.dtype is not entry.value.dtype:
            problems.append(f"{entry.name} is {value.dtype}, here {entry.value.dtype}")
    if problems:
        raise StateDictError(states.mismatch_message(model, problems))
    for entry in first.values():
        if entry.value.backend.has_values:
            value = load_tensor(values[entry.name])
            if isinstance(entry.owner, Parameter):
                value = own_part(entry.owner, value)
            entry.value = like(value, entry.value)
    return values
