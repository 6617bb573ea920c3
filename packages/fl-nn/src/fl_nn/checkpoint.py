"""Checkpoints: the complete state of a training run.

A checkpoint is one safetensors file, or shards with an index. It holds the tensors of model and
optimizer, and a JSON state: settings of the optimizer, random generators, position, and user data.
It is written atomically, with a checksum, a schema version, and the versions of all module classes.

Other objects with a state, such as schedules, averages, further models and optimizers, go as
`parts`. The `state_dict` of those that are no modules holds plain values, and a dict of tensors
under "tensors" (`Stateful`).
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import fl_tensor as ft
from fl_nn.errors import CheckpointError, StateDictError
from fl_nn.files.lazy import Loadable
from fl_nn.files.shards import open_tensors, save_tensors
from fl_nn.migrations import migrate_state
from fl_nn.module import Module
from fl_nn.module_part import ModulePart
from fl_nn.optim import Optimizer
from fl_nn.state_dict import deduplicated
from fl_nn.weights import CHECKPOINT, MODEL, FileMetadata
from fl_tensor.annotations import checked

SCHEMA = 3
F = TypeVar("F", bound=Callable[..., None])
OPTIMIZER, _PARTS = "optimizer.", "parts."


class Stateful(Protocol):
    """What can be a part of a checkpoint, beside modules."""

    def state_dict(self) -> dict[str, Any]:
        """Plain values, as JSON has them, and under "tensors", if at all, a dict of tensors."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; StateDictError, without any change, when it does not fit."""


#: A part of a checkpoint.
Part = Stateful | Module


@dataclass
class Checkpoint:
    """What a checkpoint file holds.

    model       the state dict of the model
    optimizer   the state dict of the optimizer, or None
    generators  per rank, the state of the default generator (under "") and of those of modules
    position    where the run was: plain numbers, such as epoch, batch, step
    metadata    the user's own plain values
    parts       the state dicts of whatever else was kept, by name
    notes       versions of the classes of the model, and which parameters were one
    """

    model: dict[str, ft.Tensor]
    optimizer: dict[str, Any] | None = None
    generators: list[dict[str, dict[str, int]]] = field(default_factory=list)
    position: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: FileMetadata = field(default_factory=lambda: FileMetadata({}, {}))

    def restore(
        self,
        model: Module,
        optimizer: Optimizer | None = None,
        rank: int = 0,
        parts: Mapping[str, Part] | None = None,
    ) -> None:
        """Put everything back: weights and buffers, the optimizer, this rank's generators, and
        the `parts` named.

        Raises CheckpointError, and changes nothing, when something does not fit. After a migration
        of a model (`nn.migration`) tensors of optimizers and other parts do not.
        """
        generators = self._generators(model, rank)
        ties = self.notes.ties(self._where, model)
        weights, migrations = self._migrated(model)
        stateful = _stateful(parts)
        keepers = {"optimizer": self.optimizer if optimizer is not None else None}
        for name, part in stateful.items():
            state = self.parts.get(name)
            if not isinstance(part, ModulePart):
                keepers[name] = state
            elif state is not None:
                migrations += self._migrations(part, state)
        bound = [name for name, state in keepers.items() if state and state.get("tensors")]
        if migrations and bound:
            raise CheckpointError(
                f"{self._where}: was written before {'; '.join(migrations)}: {', '.join(bound)} "
                "may not fit what the model is now; take the model alone, with restore_model"
            )
        wanted: list[tuple[Any, Any, str]] = [(model, weights, "model")]
        if optimizer is not None:
            wanted.append((optimizer, self.optimizer, "optimizer"))
        wanted += [(part, self.parts.get(name), name) for name, part in stateful.items()]
        done: list[tuple[Any, Any]] = []
        try:
            for target, state, name in wanted:
                if state is None:
                    raise StateDictError(
                        f"it was written without {name}: it has no {name} state; leave it out"
                    )
                before = target.state_dict()
                target.load_state_dict(state)
                done.append((target, before))
        except StateDictError as error:
            for target, before in reversed(done):
                target.load_state_dict(before)
            raise CheckpointError(f"{self._where}: {error}") from error
        for place, parameter in ties:
            place.put(parameter)
        for generator, words in generators:
            generator.set_state(words)

    def restore_model(self, model: Module) -> None:
        """Put back weights and buffers alone, for evaluation."""
        ties = self.notes.ties(self._where, model)
        try:
            model.load_state_dict(self._migrated(model)[0])
        except StateDictError as error:
            raise CheckpointError(f"{self._where}: {error}") from error
        for place, parameter in ties:
            place.put(parameter)

    def _migrated(self, model: Module) -> tuple[dict[str, Loadable], list[str]]:
        return migrate_state(self._where, model, self.model, self.notes.versions)

    def _migrations(self, part: ModulePart, state: Mapping[str, Any]) -> list[str]:
        try:
            return part.migrated(state)[1]
        except CheckpointError as error:
            raise CheckpointError(f"{self._where}: {error}") from error

    def _generators(self, model: Module, rank: int) -> list[tuple[ft.Generator, dict[str, int]]]:
        if not 0 <= rank < len(self.generators):
            raise CheckpointError(
                f"{self._where}: was written by {len(self.generators)} ranks and has no random "
                f"state for rank {rank}; go on with as many ranks, or start anew from its weights"
            )
        states, own = self.generators[rank], generators_of(model)
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
    return {name: generator.state() for name, generator in generators_of(model).items()}


def generators_of(model: Module) -> dict[str, ft.Generator]:
    """The context's default generator (under "") and those that modules hold."""
    return {"": ft.default_generator(), **dict(model.named_generators())}


def _one_of_each(save: F) -> F:
    """Decorates `save_checkpoint`: several models or optimizers are told where to go."""

    @functools.wraps(save)
    def call(path: Any, *given: Any, **options: Any) -> None:
        for value in (*given, options.get("model"), options.get("optimizer")):
            if isinstance(value, (list, tuple, Mapping)):
                raise CheckpointError(
                    f"{path}: a {type(value).__name__} of {len(value)} was given in the place of "
                    "one model or optimizer: save_checkpoint(path, model, optimizer, "
                    'parts={"critic": critic, "critic_optimizer": optimizer_of_critic})'
                )
        save(path, *given, **options)

    return cast(F, call)


@_one_of_each
@checked
def save_checkpoint(
    path: str | os.PathLike[str],
    model: Module,
    optimizer: Optimizer | None = None,
    *,
    position: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    generators: Sequence[Mapping[str, Mapping[str, int]]] | None = None,
    parts: Mapping[str, Part] | None = None,
    shard_size: int | None = None,
) -> None:
    """Write a checkpoint; the previous file at `path` stays whole until the new one is complete.

    `position` and `metadata` are what JSON can carry. `generators` has one entry per rank
    (`generator_states(model)` of each), and defaults to those of this process. `parts` are kept by
    name: schedules, averages, further models and optimizers, objects of your own. `shard_size` as
    in `save_weights`.
    """
    weights, shared = deduplicated(model)
    tensors = {MODEL + name: tensor for name, tensor in weights.items()}

    def plain(target: Stateful, prefix: str) -> dict[str, Any]:
        state = dict(target.state_dict())
        found = state.pop("tensors", {})
        tensors.update({prefix + name: tensor for name, tensor in found.items()})
        return state

    if any("." in name for name in parts or {}):
        raise CheckpointError(f"{path}: names of parts have no dots: {', '.join(parts or {})}")
    state = {
        "optimizer": None if optimizer is None else plain(optimizer, OPTIMIZER),
        "parts": {name: plain(part, f"{_PARTS}{name}.") for name, part in _stateful(parts).items()},
        "generators": [generator_states(model)] if generators is None else list(generators),
        "position": dict(position or {}),
        "metadata": dict(metadata or {}),
    }
    notes = FileMetadata.of(model, shared).metadata() | checkpoint_metadata(path, state)
    save_tensors(path, tensors, notes, shard_size)


def _stateful(parts: Mapping[str, Part] | None) -> dict[str, Stateful]:
    return {
        name: ModulePart(name, part) if isinstance(part, Module) else part
        for name, part in (parts or {}).items()
    }


def checkpoint_metadata(path: Any, state: Mapping[str, Any]) -> dict[str, str]:
    """What makes a file of tensors a checkpoint: `state` is all that is no tensor. CheckpointError
    for what is not plain."""
    try:
        text = json.dumps(state)
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: position, metadata and states of parts must be plain values (dicts, lists, "
            f"numbers): {error}"
        ) from error
    return {"format": CHECKPOINT, "schema": str(SCHEMA), "state": text}


@checked
def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Read and verify a checkpoint, with its tensors on the default backend; changes nothing else.

    Raises CheckpointError for a file that is missing, cut off, damaged, of another kind, or of a
    newer schema.
    """
    with open_tensors(path) as file:
        metadata = file.metadata
        _check_format(path, metadata)
        file.verify()
        tensors = {name: tensor.load() for name, tensor in file.tensors.items()}
    return parse_checkpoint(path, metadata, tensors)


def parse_checkpoint(
    path: str | os.PathLike[str], metadata: Mapping[str, str], tensors: Mapping[str, Any]
) -> Checkpoint:
    """The checkpoint from the metadata and tensors of a file, which may be those that it stores.
    Raises CheckpointError where it is of another kind, or malformed."""
    _check_format(path, metadata)
    notes = FileMetadata.read(path, metadata)

    def below(prefix: str) -> dict[str, Any]:
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
            notes.expand(path, below(MODEL)),
            None if optimizer is None else {**optimizer, "tensors": below(OPTIMIZER)},
            list(generators),
            dict(state["position"]),
            dict(state["metadata"]),
            Path(path),
            {
                name: {**part, "tensors": below(f"{_PARTS}{name}.")}
                for name, part in state.get("parts", {}).items()
            },
            notes,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path}: its state is malformed ({error!r})") from error


def _check_format(path: str | os.PathLike[str], metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != CHECKPOINT or "state" not in metadata:
        raise CheckpointError(
            f"{path}: is not a training checkpoint; load_weights reads plain files of weights"
        )
    schema = metadata.get("schema", "")
    if not schema.isdigit() or int(schema) > SCHEMA:
        raise CheckpointError(
            f"{path}: has schema {schema!r}, this fl-nn reads up to {SCHEMA}; upgrade fl-nn"
        )
