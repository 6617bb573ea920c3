"""Modules as parts of a checkpoint, beside the model: `parts={"critic": critic}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import CheckpointError, StateDictError
from fl_nn.files.lazy import Loadable
from fl_nn.migrations import migrate_state, versions_of
from fl_nn.module import Module
from fl_nn.state_dict import deduplicated
from fl_nn.weights import FileMetadata


class ModulePart:
    """The complete state of a module: weights and buffers, the versions of its classes, which
    parameters are one, and the random generators that it holds."""

    def __init__(self, name: str, module: Module) -> None:
        self.name, self.module = name, module

    def state_dict(self) -> dict[str, Any]:
        """Plain values, and "tensors"."""
        tensors, shared = deduplicated(self.module)
        return {
            "versions": versions_of(self.module),
            "shared": shared,
            "generators": {name: own.state() for name, own in self._generators().items()},
            "tensors": tensors,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state. Raises StateDictError, and changes nothing, when it does not fit."""
        own, states = self._generators(), state.get("generators")
        if not isinstance(states, Mapping) or states.keys() != own.keys():
            raise StateDictError(
                f"part {self.name} has not the random generators of this "
                f"{type(self.module).__name__}: build it with the settings it was saved with"
            )
        try:
            ties = self._notes(state).ties(f"part {self.name}", self.module)
            weights, _ = self.migrated(state)
        except CheckpointError as error:
            raise StateDictError(str(error)) from error
        self.module.load_state_dict(weights)
        for place, parameter in ties:
            place.put(parameter)
        for name, generator in own.items():
            generator.set_state(states[name])

    def migrated(self, state: Mapping[str, Any]) -> tuple[dict[str, Loadable], list[str]]:
        """The tensors as the present classes name them, and what was migrated, in words. Raises
        CheckpointError where that fails."""
        notes, where = self._notes(state), f"part {self.name}"
        tensors = notes.expand(where, state["tensors"])
        return migrate_state(where, self.module, tensors, notes.versions)

    def _generators(self) -> dict[str, ft.Generator]:
        return dict(self.module.named_generators())

    def _notes(self, state: Mapping[str, Any]) -> FileMetadata:
        if not {"versions", "shared", "tensors"} <= state.keys():
            raise CheckpointError(f"part {self.name} is not the state of a module")
        return FileMetadata(state["versions"], state["shared"])
