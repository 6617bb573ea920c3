"""Schema migrations: states of older module classes, updated version by version.

    class Block(nn.Module):
        version = 3
        ...

    @nn.migration(Block, 1)             # what version 1 wrote becomes what version 2 had
    def _(state):
        state["weight"] = state.pop("w")

    @nn.migration(Block, 2)
    def _(state):
        state["bias"] = ft.zeros(state["weight"].shape[:1])

Files of ours say which version of each class has written them; a class without `version` has
version 1. Subclasses inherit version and migrations, and go on counting from there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import fl_tensor as ft
from fl_nn.errors import CheckpointError, ModuleError
from fl_nn.files.lazy import Loadable, load_tensor
from fl_nn.module import Module
from fl_nn.tree import ModuleTree, walk

#: `function(state)` or `function(state, module)`.
Migration = Callable[..., None]
M = TypeVar("M", bound=Migration)
_REGISTERED = "_migrations"


def migration(cls: type[Module], since: int) -> Callable[[M], M]:
    """Decorate `function(state)`: it changes, in place, the state that version `since` of `cls` had
    into that of version `since + 1`.

    `state` is what is below one module of this class, tensors by name. A function of two
    parameters is also given that module, for its settings. Raises ModuleError for a version that
    `cls` has not left behind, or a second migration from it.
    """

    if not 1 <= since < cls.version:
        raise ModuleError(
            f"[migration] from version {since} of {cls.__name__}, which is at version "
            f"{cls.version}: raise the version of the class first"
        )
    if _has(cls, since):
        raise ModuleError(f"[migration] {cls.__name__} has one from version {since} already")

    def register(function: M) -> M:
        setattr(cls, _REGISTERED, {**vars(cls).get(_REGISTERED, {}), since: function})
        return function

    return register


def versions_of(model: Module) -> dict[str, int]:
    """Class names of the modules of a model, and their versions. Raises ModuleError where two
    classes of one name have different ones."""
    found: dict[str, int] = {}
    for module in model.modules():
        name = type(module).__name__
        if found.setdefault(name, module.version) != module.version:
            raise ModuleError(
                f"[versions] the model has two classes {name} with versions {found[name]} and "
                f"{module.version}: rename one, files tell classes apart by name"
            )
    return found


def migrate_state(
    where: Any,
    model: Module,
    state: Mapping[str, Loadable],
    versions: Mapping[str, int] | None,
) -> tuple[dict[str, Loadable], list[str]]:
    """The state as the present classes of `model` write it, and what was migrated, in words.

    Classes are brought up to date from the outermost module inwards. One that `versions` does not
    name was not there, and is taken to be as it is now; None is version 1 of all. Raises
    CheckpointError for a newer version, a missing migration or one that fails.
    """
    state, done = dict(state), []
    for prefix, module in walk(model):
        name, version = type(module).__name__, type(module).version
        found = 1 if versions is None else versions.get(name, version)
        if found > version:
            raise CheckpointError(
                f"{where}: was written by version {found} of {name}, here it is version {version}; "
                "upgrade the program that defines it"
            )
        if found == version:
            continue
        start = f"{prefix}." if prefix else ""
        own = {
            k[len(start) :]: load_tensor(state.pop(k)) for k in list(state) if k.startswith(start)
        }
        for since in range(found, version):
            _migrate(where, prefix, module, since, own)
        state.update({start + key: value for key, value in own.items()})
        done.append(f"{prefix or 'the model'} from version {found} to {version} of {name}")
    return state, done


def _migrate(
    where: Any, prefix: str, module: ModuleTree, since: int, state: dict[str, ft.Tensor]
) -> None:
    cls = type(module)
    function = next(
        (vars(base)[_REGISTERED][since] for base in cls.__mro__ if _has(base, since)), None
    )
    if function is None:
        raise CheckpointError(
            f"{where}: {prefix or 'the model'} was written by version {since} of {cls.__name__}, "
            f"and nothing leads from there to version {since + 1}; register it with "
            f"@nn.migration({cls.__name__}, {since})"
        )
    try:
        function(*(state, module)[: len(inspect.signature(function).parameters)])
        for key, value in state.items():
            if not isinstance(value, ft.Tensor):
                raise TypeError(f"{key} became a {type(value).__name__}, not a tensor")
    except Exception as error:
        raise CheckpointError(
            f"{where}: {prefix or 'the model'}: the migration of {cls.__name__} from version "
            f"{since} failed: {error!r}"
        ) from error


def _has(base: type, since: int) -> bool:
    return since in vars(base).get(_REGISTERED, {})
