"""Checkpoints: everything that a training run needs to go on exactly where it was.

One safetensors file: model and optimizer tensors, and a JSON state with the optimizer's settings,
the random generators, the position, and whatever the user adds. The file is written atomically and
carries a schema version and a checksum.

Schedules, averages and whatever else has a state go as `parts`: objects whose `state_dict` is plain
values, but for a dict of tensors under "tensors" (`Stateful`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import fl_tensor as ft
from fl_nn.errors import CheckpointError, StateDictError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.tensorfile import read_tensors, write_tensors

FORMAT = "fl_nn.checkpoint"
SCHEMA = 2
_MODEL, _OPTIMIZER, _PARTS = "model.", "optimizer.", "parts."


class Stateful(Protocol):
    """What can be a part of a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them, and under "tensors", if at all, a dict of tensors."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; StateDictError, without any change, when it does not fit."""


@dataclass
class Checkpoint:
    """What a checkpoint file holds.

    model       the state dict of the model
    optimizer   the state dict of the optimizer, or None
    generators  per rank, the state of the default generator (under "") and of those of modules
    position    where the run was: plain numbers, such as epoch, batch, step
    metadata    the user's own plain values
    parts       the state dicts of whatever else was kept, by name
    """

    model: dict[str, ft.Tensor]
    optimizer: dict[str, Any] | None = None
    generators: list[dict[str, dict[str, int]]] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def restore(
        self,
        model: Module,
        optimizer: Optimizer | None = None,
        rank: int = 0,
        parts: Mapping[str, Stateful] | None = None,
    ) -> None:
        """Put everything back: weights and buffers, the optimizer, this rank's generators, and
        the `parts` named.

        Raises CheckpointError, and changes nothing, when something does not fit.
        """
        generators = self._generators(model, rank)
        wanted: list[tuple[Any, Any, str]] = [(model, self.model, "model")]
        if optimizer is not None:
            wanted.append((optimizer, self.optimizer, "optimizer"))
        wanted += [(part, self.parts.get(name), name) for name, part in (parts or {}).items()]
        done: list[tuple[Any, Any]] = []
        try:
            for target, state, name in wanted:
                if state is None:
                    raise StateDictError(f"it has no {name} state; restore without it")
                before = target.state_dict()
                target.load_state_dict(state)
                done.append((target, before))
        except StateDictError as error:
            for target, before in reversed(done):
                target.load_state_dict(before)
            raise CheckpointError(f"{self._where}: {error}") from error
        for generator, words in generators:
            generator.set_state(words)

    def restore_model(self, model: Module) -> None:
        """Put back weights and buffers alone, for evaluation."""
        try:
            model.load_state_dict(self.model)
        except StateDictError as error:
            raise CheckpointError(f"{self._where}: {error}") from error

    def _generators(self, model: Module, rank: int) -> list[tuple[ft.Generator, dict[str, int]]]:
        if not 0 <= rank < len(self.generators):
            raise CheckpointError(
                f"{self._where}: was written by {len(self.generators)} ranks and has no random "
                f"state for rank {rank}; go on with as many ranks, or start anew from its weights"
            )
        states, own = self.generators[rank], _generators_of(model)
        if states.keys() != own.keys():
            missing, extra = sorted(own.keys() - states.keys()), sorted(states.keys() - own.keys())
            raise CheckpointError(
                f"{self._where}: random generators differ: missing {missing}, unexpected {extra}; "
                "build the model with the settings it was saved with"
            )
        return [(generator, states[name]) for name, generator in own.items()]

    @property
    def _where(self) -> str:
        return str(self.path or "checkpoint")


def generator_states(model: Module) -> dict[str, dict[str, int]]:
    """The states of the context's default generator (under "") and of those that modules hold."""
    return {name: generator.state() for name, generator in _generators_of(model).items()}


def _generators_of(model: Module) -> dict[str, ft.Generator]:
    return {"": ft.default_generator(), **dict(model.named_generators())}


def save_checkpoint(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer | None = None,
    *,
    position: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    generators: Sequence[Mapping[str, Mapping[str, int]]] | None = None,
    parts: Mapping[str, Stateful] | None = None,
) -> None:
    """Write a checkpoint; the previous file at `path` stays whole until the new one is complete.

    `position` and `metadata` are what JSON can carry. `generators` has one entry per rank
    (`generator_states(model)` of each), and defaults to those of this process. `parts` are kept by
    name: schedules, averages, objects of your own.
    """
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}

    def plain(target: Stateful, prefix: str) -> dict[str, Any]:
        state = dict(target.state_dict())
        found = state.pop("tensors", {})
        tensors.update({prefix + name: tensor for name, tensor in found.items()})
        return state

    if any("." in name for name in parts or {}):
        raise CheckpointError(f"{path}: names of parts have no dots: {', '.join(parts or {})}")
    state = {
        "optimizer": None if optimizer is None else plain(optimizer, _OPTIMIZER),
        "parts": {name: plain(part, f"{_PARTS}{name}.") for name, part in (parts or {}).items()},
        "generators": [generator_states(model)] if generators is None else list(generators),
        "position": dict(position or {}),
        "metadata": dict(metadata or {}),
    }
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: position, metadata and states of parts must be plain values (dicts, lists, "
            f"numbers): {error}"
        ) from error
    write_tensors(path, tensors, {"format": FORMAT, "schema": str(SCHEMA), "state": text})


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and verify a checkpoint, with its tensors on the default backend; changes nothing else.

    Raises CheckpointError for a file that is missing, cut off, damaged, of another kind, or of a
    newer schema.
    """
    tensors, metadata = read_tensors(path, lambda found: _check_format(path, found))

    def below(prefix: str) -> dict[str, ft.Tensor]:
        return {k[len(prefix) :]: tensor for k, tensor in tensors.items() if k.startswith(prefix)}

    try:
        state = json.loads(metadata["state"])
        optimizer, generators = state["optimizer"], state["generators"]
        if not all(
            isinstance(word, int)
            for rank in generators
            for numbers in rank.values()
            for word in numbers.values()
        ):
            raise TypeError("generators are not integers")
        return Checkpoint(
            below(_MODEL),
            None if optimizer is None else {**optimizer, "tensors": below(_OPTIMIZER)},
            list(generators),
            dict(state["position"]),
            dict(state["metadata"]),
            Path(path),
            {
                name: {**part, "tensors": below(f"{_PARTS}{name}.")}
                for name, part in state.get("parts", {}).items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its state is malformed ({error!r})") from error


def save_weights(path: str | os.PathLike[str], model: Module) -> None:
    """Write the state dict alone, under its own names: a safetensors file that others can read."""
    write_tensors(path, model.state_dict(), {"format": "fl_nn.weights"})


def load_weights(
    path: str | os.PathLike[str],
    model: Module,
    *,
    rename: Mapping[str, str] | None = None,
    strict: bool = True,
) -> None:
    """Load the weights of any safetensors file into `model`; of a checkpoint, those of its model.

    `rename` maps names in the file to names in the model. Raises CheckpointError.
    """
    table = rename or {}
    kind: list[str | None] = []

    def name_of(name: str) -> str | None:
        if kind[0] == FORMAT:
            if not name.startswith(_MODEL):
                return None
            name = name[len(_MODEL) :]
        return table.get(name, name)

    tensors, _ = read_tensors(path, lambda found: kind.append(found.get("format")), name_of)
    try:
        model.load_state_dict(tensors, strict)
    except StateDictError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _check_format(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT or "state" not in metadata:
        raise CheckpointError(
            f"{path}: is not a training checkpoint; load_weights reads plain files of weights"
        )
    schema = metadata.get("schema", "")
    if not schema.isdigit() or int(schema) > SCHEMA:
        raise CheckpointError(
            f"{path}: has schema {schema!r}, this fl-nn reads up to {SCHEMA}; upgrade fl-nn"
        )
