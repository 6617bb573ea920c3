"""Weight files: of our models, and of PyTorch and Hugging Face through rename tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import fl_tensor as ft
from fl_nn import state as states
from fl_nn.errors import CheckpointError
from fl_nn.files.shards import open_tensors, save_tensors
from fl_nn.files.stored import Loadable, Stored
from fl_nn.files.tensorfile import WRITER
from fl_nn.migrations import migrated, versions_of
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.rename import Renamed, Table
from fl_nn.state import stored_once
from fl_nn.tree import Place, cells, places
from fl_tensor.annotations import checked

#: How the names of a model begin in a training checkpoint, and how its format is called.
MODEL, CHECKPOINT = "model.", "fl_nn.checkpoint"
_VERSIONS, _SHARED = "versions", "shared"
Rename = Mapping[str, str] | Table
T = TypeVar("T")


@checked
def save_weights(
    path: str | os.PathLike[str],
    model: Module,
    *,
    rename: Rename | None = None,
    shard_size: int | None = None,
) -> None:
    """Write the state of a model as safetensors, atomically and with a checksum.

    rename      writes it for another program: a table as `load_weights` takes, used backwards
    shard_size  bytes per file, beyond which there are several and an index beside them,
                `path` + ".index.json", in Hugging Face's layout

    What several names of the model share is written once, and the file says who shares it; with
    `rename`, it has what the table says. Raises CheckpointError for names that no rule writes.
    """
    tensors, shared = stored_once(model)
    if rename is None:
        metadata = {"format": "pt", WRITER: "weights", **Notes.of(model, shared).metadata()}
        save_tensors(path, tensors, metadata, shard_size)
        return
    found = _table(rename).to_theirs(
        {**tensors, **{alias: tensors[name] for alias, name in shared.items()}}
    )
    problems = found.problems + [f"no rule for {name}" for name in found.unexpected]
    problems += [f"{', '.join(f)} lack for {name}" for name, f in found.incomplete.items()]
    if problems:
        raise CheckpointError(
            f"{path}: this {type(model).__name__} cannot be written with the table: "
            f"{'; '.join(problems)}. Give the table a rule, or a Keep, for every name of the model"
        )
    save_tensors(path, found.tensors, {"format": "pt", WRITER: "export"}, shard_size)


@checked
def load_weights(
    path: str | os.PathLike[str],
    model: Module,
    *,
    rename: Rename | None = None,
    strict: bool = True,
    cast: bool = False,
    tie: bool = True,
) -> None:
    """Load weights into `model` from a safetensors file, an index of shards, a folder with
    `model.safetensors` or its index, or a checkpoint.

    rename  for files of other programs: a `rename.Table`, or a dict of their names to ours, where
            all other names stay
    strict  every name of the file and of the model must be used; False takes what both have
    cast    convert floating values to the dtype that the model has
    tie     what was one parameter when the file was written becomes one again, where the model has
            two; False fills both with the same values

    Weights of older versions of a class are migrated (`nn.migration`). Tensors are read one after
    another, when all is known to fit. Raises CheckpointError, which names all that is missing,
    unexpected, or of another shape or dtype at once; the model is then as it was.
    """
    with open_tensors(path) as file:
        state: dict[str, Loadable] = dict(file.tensors)
        if file.metadata.get("format") == CHECKPOINT:
            state = {k[len(MODEL) :]: v for k, v in state.items() if k.startswith(MODEL)}
        file.verify()
        notes = Notes.read(path, file.metadata)
        state = notes.expand(path, state)
        table = None if rename is None else _table(rename)
        found = Renamed(state, [], {}, []) if table is None else table.to_ours(state)
        state, _ = migrated(path, model, found.tensors, notes.versions)
        if cast:
            state = _cast(path, state, model)
        ties = notes.ties(path, model) if tie else []
        _fit(path, model, state, found, table, strict)
        for place, parameter in ties:
            place.put(parameter)


def _fit(
    path: Any,
    model: Module,
    state: Mapping[str, Loadable],
    found: Renamed,
    table: Table | None,
    strict: bool,
) -> None:
    """Load `state`, or say in one error all that is in the way."""
    problems = list(found.problems)
    if strict:
        problems += [f"unexpected {name}" for name in found.unexpected]
        for name, lacking in found.incomplete.items():
            problems += [f"missing {lack}, a part of {name}" for lack in lacking]
    for problem in states.problems(model, state, strict):
        name = problem.removeprefix("missing ")
        if name != problem and table is not None:
            if table.keeps(name) or name in found.incomplete:
                continue
            origins = table.origins(name)
            problem += f" ({', '.join(origins)} in the file)" if origins else " (no rule gives it)"
        problems.append(problem)
    if problems:
        raise CheckpointError(f"{path}: {states.misfit(model, problems)}")
    states.take(model, state)


class Notes:
    """What a file of ours says of its model.

    versions  of classes, by name; None: all of version 1, as before they were written down
    shared    names of the model for what is stored under another one
    """

    def __init__(self, versions: Mapping[str, int] | None, shared: Mapping[str, str]) -> None:
        self.versions, self.shared = versions, shared

    @classmethod
    def of(cls, model: Module, shared: Mapping[str, str]) -> Notes:
        """Those to write."""
        return cls(versions_of(model), shared)

    def metadata(self) -> dict[str, str]:
        """As entries of a file's metadata."""
        return {_VERSIONS: json.dumps(self.versions), _SHARED: json.dumps(self.shared)}

    @classmethod
    def read(cls, path: Any, metadata: Mapping[str, str]) -> Notes:
        """From the metadata of a file; nothing is known of files of others."""
        if _VERSIONS not in metadata:
            first = str(metadata.get("format", "")).startswith("fl_nn.")  # by the first release
            return cls(None if first else {}, {})
        try:
            versions, shared = (json.loads(metadata[key]) for key in (_VERSIONS, _SHARED))
            return cls(
                {str(name): int(number) for name, number in versions.items()},
                {str(alias): str(name) for alias, name in shared.items()},
            )
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path}: its notes are malformed ({error!r})") from error

    def expand(self, path: Any, state: Mapping[str, T]) -> dict[str, T]:
        """The state with what is shared under all its names."""
        lost = sorted(set(self.shared.values()) - state.keys())
        if lost:
            raise CheckpointError(f"{path}: lacks {', '.join(lost)}, which others share")
        return {**state, **{alias: state[name] for alias, name in self.shared.items()}}

    def ties(self, path: Any, model: Module) -> list[tuple[Place, Parameter]]:
        """Where parameters are to be put so that those that were one are one again. Raises
        CheckpointError where nothing can be put."""
        found = dict(places(model)) if self.shared else {}
        wanted = []
        for alias, name in self.shared.items():
            place, first = found.get(alias), found.get(name)
            if place is None or first is None or place.parameter is first.parameter:
                continue
            if place.fixed:
                raise CheckpointError(
                    f"{path}: {alias} and {name} were one parameter, and {alias} is in a tuple, "
                    "where it cannot be replaced; use a list, or tie them when you build the model"
                )
            wanted.append((place, first.parameter))
        return wanted


def _table(rename: Rename) -> Table:
    return rename if isinstance(rename, Table) else Table.of_names(rename)


def _cast(path: Any, state: Mapping[str, Loadable], model: Module) -> dict[str, Loadable]:
    own = {cell.name: cell.value.dtype for cell in cells(model, persistent=True)}
    backend = ft.current_backend()

    def converted(name: str, value: Loadable) -> Loadable:
        dtype = own.get(name, value.dtype)
        if dtype is value.dtype or not (dtype.is_floating and value.dtype.is_floating):
            return value
        if value.dtype not in backend.dtypes:
            raise CheckpointError(
                f"{path}: {name} is {value.dtype}, which backend {backend.name!r} does not have "
                "here; convert the file where it was written"
            )
        if isinstance(value, Stored):
            return Stored(value.shape, dtype, lambda: value.load().astype(dtype))
        return value.astype(dtype)

    return {name: converted(name, value) for name, value in state.items()}
