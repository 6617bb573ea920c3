"""The causes of memory requests in models (``fl_memory.observe``): module paths, the update phase.

Paths begin at the module that a program calls, the root: "encoder.0.linear". The root itself, a
module that no attribute below the root holds, and a module in its constructor have the name of
their class.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from fl_memory.causes import CURRENT, Cause, cause, observed
from fl_memory.tags import tagged
from fl_nn.parameter import Parameter
from fl_nn.tree import ModuleTree, join, members

__all__ = ["constructor_observed", "forward_observed", "in_update", "update_observed"]

F = TypeVar("F", bound=Callable[..., Any])

#: The paths of the modules below the root that is called in this context, by id.
_paths: ContextVar[dict[int, str] | None] = ContextVar("fl_nn_module_paths", default=None)
#: The path of the module that holds a parameter, as of the last call: for its update.
_owners: dict[int, tuple[weakref.ref[Parameter], str]] = {}
#: The module whose constructor runs in this context.
_constructed: ContextVar[Any] = ContextVar("fl_nn_constructed", default=None)


def constructor_observed(constructor: Callable[..., None]) -> Callable[..., None]:
    """``constructor`` of a module, with the class of the module as cause while memory is
    observed."""

    @wraps(constructor)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        if not observed or _constructed.get() is self:  # the constructor of a base class
            constructor(self, *args, **options)
            return
        outer = CURRENT.get() or Cause()
        token = _constructed.set(self)
        try:
            with cause(module=join(outer.module, type(self).__name__)):
                constructor(self, *args, **options)
        finally:
            _constructed.reset(token)

    return __init__


def forward_observed(module: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``module.forward(*inputs, **options)``, with the path of the module as cause."""
    outer = CURRENT.get() or Cause()
    paths = _paths.get()
    token = None
    if paths is None or id(module) not in paths:
        paths = _paths_below(module, "" if paths is None else outer.module)
        token = _paths.set(paths)
    try:
        with cause(module=paths[id(module)], phase=outer.phase or "forward"):
            return module.forward(*inputs, **options)
    finally:
        if token is not None:
            _paths.reset(token)


def in_update(tag: str) -> Callable[[F], F]:
    """Decorates what programs call around the step of an optimizer: its results have ``tag``, and
    the phase is "update"."""

    def decorate(function: F) -> F:
        @wraps(function)
        def updating(*args: Any, **options: Any) -> Any:
            with tagged(tag):
                if not observed:
                    return function(*args, **options)
                with cause(phase="update"):
                    return function(*args, **options)

        return cast(F, updating)

    return decorate


def update_observed(update: Callable[..., None]) -> Callable[..., None]:
    """``update(parameter, ...)`` with the phase "update", and the module that holds the
    parameter."""

    def updated(parameter: Parameter, *arguments: Any) -> None:
        ref, path = _owners.get(id(parameter), (None, ""))
        with cause(module=path if ref is not None and ref() is parameter else "", phase="update"):
            update(parameter, *arguments)

    return updated


def _paths_below(root: ModuleTree, above: str) -> dict[int, str]:
    name = join(above, type(root).__name__)
    paths = {}
    for path, module in root.named_modules():
        paths[id(module)] = name if module is root else join(name if above else "", path)
        for _, value in members(module):
            if isinstance(value, Parameter):
                _note_owner(value, paths[id(module)])
    return paths


def _note_owner(parameter: Parameter, path: str) -> None:
    key = id(parameter)
    _owners[key] = weakref.ref(parameter, lambda _: _owners.pop(key, None)), path
