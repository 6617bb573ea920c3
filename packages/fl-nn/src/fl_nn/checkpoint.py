"""Checkpoints: everything that a training run needs to go on exactly where it was.

One safetensors file: model and optimizer tensors, and a JSON state with the optimizer's settings,
the random generators, the position, and whatever the user adds. The file is written atomically and
carries a schema version and a checksum.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_nn.errors import CheckpointError, StateDictError
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.tensorfile import read_tensors, write_tensors

FORMAT = "fl_nn.checkpoint"
SCHEMA = 2
_MODEL, _OPTIMIZER = "model.", "optimizer."


@dataclass
class Checkpoint:
    """What a checkpoint file holds.

    model       the state dict of the model
    optimizer   the state dict of the optimizer, or None
    generators  per rank, the state of the default generator (under "") and of those of modules
    position    where the run was: plain numbers, such as epoch, batch, step
    metadata    the user's own plain values
    """

    model: dict[str, ft.Tensor]
    optimizer: dict[str, Any] | None = None
    generators: list[dict[str, dict[str, int]]] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def restore(self, model: Module, optimizer: Optimizer | None = None, rank: int = 0) -> None:
        """Put everything back: weights and buffers, the optimizer, and this rank's generators.

        Raises CheckpointError, and changes nothing, when something does not fit.
        """
        generators = self._generators(model, rank)
        before = model.state_dict()
        self.restore_model(model)
        if optimizer is not None:
            try:
                if self.optimizer is None:
                    raise StateDictError("it has no optimizer state; pass optimizer=None")
                optimizer.load_state_dict(self.optimizer)
            except StateDictError as error:
                model.load_state_dict(before)
                raise CheckpointError(f"{self._where}: {error}") from error
        for generator, state in generators:
            generator.set_state(state)

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
) -> None:
    """Write a checkpoint; the previous file at `path` stays whole until the new one is complete.

    `position` and `metadata` are what JSON can carry. `generators` has one entry per rank
    (`generator_states(model)` of each), and defaults to those of this process.
    """
    tensors = {_MODEL + name: tensor for name, tensor in model.state_dict().items()}
    settings = None
    if optimizer is not None:
        settings = optimizer.state_dict()
        for name, tensor in settings.pop("tensors").items():
            tensors[_OPTIMIZER + name] = tensor
    state = {
        "optimizer": settings,
        "generators": [generator_states(model)] if generators is None else list(generators),
        "position": dict(position or {}),
        "metadata": dict(metadata or {}),
    }
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: position and metadata must be plain values (dicts, lists, numbers): {error}"
        ) from error
    write_tensors(path, tensors, {"format": FORMAT, "schema": str(SCHEMA), "state": text})


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and verify a checkpoint, with its tensors on the default backend; changes nothing else.

    Raises CheckpointError for a file that is missing, cut off, damaged, of another kind, or of a
    newer schema.
    """
    tensors, metadata = read_tensors(path, lambda found: _check_format(path, found))
    model, moments = {}, {}
    for name, tensor in tensors.items():
        if name.startswith(_MODEL):
            model[name[len(_MODEL) :]] = tensor
        elif name.startswith(_OPTIMIZER):
            moments[name[len(_OPTIMIZER) :]] = tensor
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
            model,
            None if optimizer is None else {**optimizer, "tensors": moments},
            list(generators),
            dict(state["position"]),
            dict(state["metadata"]),
            Path(path),
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
