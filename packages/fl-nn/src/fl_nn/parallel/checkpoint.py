"""Files that all ranks write together, and that any number of ranks reads.

Every rank writes whole tensors, about as many bytes as the others, as shards in Hugging Face's
layout. The files are those that `fl_nn.save_weights` and `fl_nn.save_checkpoint` write of the model
without sharding. Their counterparts and other programs read them, and these read theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fl_dist as dist
import fl_tensor as ft
from fl_nn.checkpoint import (
    OPTIMIZER,
    Checkpoint,
    checkpoint_metadata,
    generator_states,
    generators_of,
    parse_checkpoint,
)
from fl_nn.errors import CheckpointError, StateDictError
from fl_nn.files.lazy import Loadable
from fl_nn.files.shards import INDEX, open_tensors, shard_name, tidy, write_index, write_shard
from fl_nn.files.tensorfile import WRITER
from fl_nn.migrations import migrate_state, versions_of
from fl_nn.module import Module
from fl_nn.optim import Optimizer
from fl_nn.parallel.pipeline import Pipeline
from fl_nn.parallel.sharded import Sharded
from fl_nn.parallel.sharded_parameter import assembled, own_part
from fl_nn.parallel.whole_state import load_whole_state, whole_tensors
from fl_nn.state_dict import deduplicated
from fl_nn.weights import CHECKPOINT, MODEL, FileMetadata
from fl_tensor.annotations import checked
from fl_tensor.files import target_of

Tensors = Iterator[tuple[str, ft.Tensor]]


@checked
def save_weights(
    path: str | os.PathLike[str], comm: dist.Communicator, model: Sharded | Pipeline | Module
) -> None:
    """Write the weights of a model whose parts are on the ranks of `comm`, which all call it.

    path   on a file system that all ranks see; `fl_nn.load_weights` reads it
    model  a Sharded, a Pipeline (whose ranks are `comm`), or a module with tensor parallel layers,
           whose groups `comm` has as a whole

    Raises CheckpointError on all ranks where one of them cannot write; the files of an earlier save
    are then still there.
    """
    metadata = {"format": "pt", WRITER: "weights", **_notes(comm, model)}
    same_names = not isinstance(model, Pipeline)
    _write(Path(path), comm, _model_tensors(model), metadata, same_names)


@checked
def load_weights(path: str | os.PathLike[str], model: Sharded | Pipeline | Module) -> None:
    """Load weights into a model, of which each rank takes its part: from `save_weights` or from
    `fl_nn.save_weights`, or those of a checkpoint, whatever number of ranks wrote them. Raises
    CheckpointError, and changes nothing, where they do not fit."""
    with open_tensors(path) as file:
        state: dict[str, Loadable] = dict(file.tensors)
        if file.metadata.get("format") == CHECKPOINT:
            state = {k[len(MODEL) :]: v for k, v in state.items() if k.startswith(MODEL)}
        file.verify()
        notes = FileMetadata.read(path, file.metadata)
        _load_model(path, model, notes.expand(path, state), notes)


@checked
def save_checkpoint(
    path: str | os.PathLike[str],
    comm: dist.Communicator,
    model: Sharded | Module,
    optimizer: Optimizer | None = None,
    *,
    position: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a checkpoint of a model whose parts are on the ranks of `comm`, which all call it:
    weights, the state of the optimizer (that of a Sharded is its own), every rank's generators;
    `position` and `metadata`, what JSON can carry, as rank 0 gives them. Raises as `save_weights`;
    `fl_nn.load_checkpoint` reads it."""
    inner = model.model if isinstance(model, Sharded) else model
    plain, optimizer_tensors = _optimizer_state(model, optimizer)
    state = {
        "optimizer": plain,
        "parts": {},
        "generators": dist.all_gather_object(comm, generator_states(inner)),
        "position": dict(position or {}),
        "metadata": dict(metadata or {}),
    }
    notes = _notes(comm, model) | checkpoint_metadata(path, state)

    def tensors() -> Tensors:
        for name, tensor in _model_tensors(model):
            yield MODEL + name, tensor
        for name, tensor in optimizer_tensors:
            yield OPTIMIZER + name, tensor

    _write(Path(path), comm, tensors(), notes)


@checked
def load_checkpoint(
    path: str | os.PathLike[str],
    comm: dist.Communicator,
    model: Sharded | Module,
    optimizer: Optimizer | None = None,
) -> Checkpoint:
    """Go on from a checkpoint of `save_checkpoint` or `fl_nn.save_checkpoint`, whatever number of
    ranks wrote it: each rank takes its part. Gives what else it holds, `position` and `metadata`;
    its tensors stay in the file. Random generators continue where as many ranks wrote as read, and
    stay as they are otherwise. Raises CheckpointError where something does not fit."""
    inner = model.model if isinstance(model, Sharded) else model
    with open_tensors(path) as file:
        found = parse_checkpoint(path, file.metadata, file.tensors)
        file.verify()
        _load_model(path, model, found.model, found.notes)
        try:
            _load_optimizer(model, optimizer, found.optimizer)
        except StateDictError as error:
            raise CheckpointError(f"{path}: {error}") from error
    own = generators_of(inner)
    if len(found.generators) == comm.world_size:
        states = found.generators[comm.rank]
        for name in own.keys() & states.keys():
            own[name].set_state(states[name])
    return found


# ---- the parts of a state ------------------------------------------------------------------------


def _model_tensors(model: Sharded | Pipeline | Module) -> Tensors:
    return whole_tensors(model) if isinstance(model, Module) else model.named_tensors()


def _notes(comm: dist.Communicator, model: Sharded | Pipeline | Module) -> dict[str, str]:
    inner = model if isinstance(model, Module) else model.model
    prefix = f"{model.comm.rank}." if isinstance(model, Pipeline) else ""
    _, shared = deduplicated(inner)
    own = versions_of(inner), {prefix + a: prefix + name for a, name in shared.items()}
    versions: dict[str, int] = {}
    names: dict[str, str] = {}
    for theirs in dist.all_gather_object(comm, own):
        versions.update(theirs[0])
        names.update(theirs[1])
    return FileMetadata(versions, names).metadata()


def _load_model(
    path: Any,
    model: Sharded | Pipeline | Module,
    state: Mapping[str, Loadable],
    notes: FileMetadata,
) -> None:
    try:
        if isinstance(model, Pipeline):
            model.load_state_dict(state)
            return
        inner = model.model if isinstance(model, Sharded) else model
        migrated, _ = migrate_state(path, inner, state, notes.versions)
        if isinstance(model, Sharded):
            model.load_state_dict(migrated)
        else:
            load_whole_state(inner, migrated)
    except StateDictError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _optimizer_state(
    model: Sharded | Module, optimizer: Optimizer | None
) -> tuple[dict[str, Any] | None, Tensors]:
    """What of the optimizer is plain, and its tensors, whole."""
    if isinstance(model, Sharded):
        return model.optimizer_numbers(), model.named_optimizer_tensors()
    if optimizer is None:
        return None, iter(())
    state = optimizer.state_dict()
    own, parameters = state.pop("tensors"), optimizer.parameters
    return state, (
        (key, assembled(parameters[int(key.partition(".")[0])], tensor))
        for key, tensor in sorted(own.items())
    )


def _load_optimizer(
    model: Sharded | Module, optimizer: Optimizer | None, state: Mapping[str, Any] | None
) -> None:
    if state is None:
        if optimizer is not None or isinstance(model, Sharded):
            raise StateDictError("it was written without an optimizer: take the weights alone")
    elif isinstance(model, Sharded):
        model.load_optimizer_state_dict(state)
    elif optimizer is not None:
        parameters = optimizer.parameters
        tensors = {}
        for key, value in state["tensors"].items():
            number = key.partition(".")[0]
            whole = value.load()
            known = number.isdigit() and int(number) < len(parameters)
            tensors[key] = own_part(parameters[int(number)], whole) if known else whole
        optimizer.load_state_dict({**state, "tensors": tensors})


# ---- writing together ----------------------------------------------------------------------------


def _write(
    path: Path,
    comm: dist.Communicator,
    tensors: Tensors,
    metadata: Mapping[str, str],
    same_names: bool = True,
) -> None:
    """Write the tensors of all ranks, each once: where all have the same, in one order, the rank
    that has the least so far takes the next."""
    token = dist.broadcast_object(comm, os.urandom(4).hex())
    own: dict[str, ft.Tensor] = {}
    loads = [0] * comm.world_size
    for name, tensor in tensors:
        writer = loads.index(min(loads)) if same_names else comm.rank
        loads[writer] += tensor.nbytes
        if writer == comm.rank:
            own[name] = _copy(tensor)
    shard = shard_name(path, comm.rank + 1, comm.world_size, token)
    mine = {"names": list(own), "bytes": sum(x.nbytes for x in own.values()), "checksum": ""}
    try:
        target_of(path)  # raises for what is no regular file
        if own:
            mine["checksum"] = write_shard(path.with_name(shard), own)
    except (OSError, CheckpointError) as error:
        mine["error"] = str(error)
    everyone = dist.all_gather_object(comm, mine)
    failures = [f"rank {rank}: {of['error']}" for rank, of in enumerate(everyone) if "error" in of]
    if comm.rank == 0 and not failures:
        try:
            _write_index(path, token, everyone, metadata)
        except (OSError, CheckpointError) as error:
            failures = [f"rank 0: {error}"]
    failures = dist.broadcast_object(comm, failures)
    if failures:
        path.with_name(shard).unlink(missing_ok=True)
        raise CheckpointError(
            f"{path}: could not be written ({'; '.join(failures)}); an earlier save is still whole"
        )


def _write_index(
    path: Path, token: str, everyone: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]
) -> None:
    shards, weight_map = {}, {}
    for rank, of in enumerate(everyone):
        if of["names"]:
            name = shard_name(path, rank + 1, len(everyone), token)
            shards[name] = of["checksum"]
            weight_map.update(dict.fromkeys(of["names"], name))
    write_index(path, shards, weight_map, sum(of["bytes"] for of in everyone), metadata)
    tidy(path, keep={path.name + INDEX, *shards})


def _copy(tensor: ft.Tensor) -> ft.Tensor:
    # A view would keep the whole vector that it lies in.
    return ft.reshape(ft.concatenate([ft.reshape(tensor, (-1,))]), tensor.shape)
