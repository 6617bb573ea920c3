"""Traversal of a module's attributes: parameters, buffers, sub-modules.

These are parameters, modules, and lists, tuples or dicts of them: `self.layers = [Linear(4, 4),
Linear(4, 4)]` names `layers.0.weight` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.parameter import Parameter

if TYPE_CHECKING:
    from fl_nn.module import Module


class Owner:
    """Whose attributes are walked: `Module` derives from it."""

    #: Names of attributes that are buffers, and whether state dicts have them.
    _buffers: Mapping[str, bool] = {}


class Cell:
    """One place that holds state: a parameter, or a buffer attribute of a module."""

    __slots__ = ("attribute", "name", "owner")

    def __init__(self, name: str, owner: Any, attribute: str) -> None:
        self.name = name
        self.owner = owner
        self.attribute = attribute

    @property
    def key(self) -> tuple[int, str]:
        return id(self.owner), self.attribute

    @property
    def learned(self) -> bool:
        return isinstance(self.owner, Parameter)

    @property
    def value(self) -> ft.Tensor:
        return getattr(self.owner, self.attribute)

    @value.setter
    def value(self, value: ft.Tensor) -> None:
        setattr(self.owner, self.attribute, value)


def cells(root: Module, persistent: bool) -> Iterator[Cell]:
    """Parameters, buffers (only `persistent` ones if so asked), then children: the order of
    PyTorch's state dicts. What two names share comes under both."""
    for prefix, module in walk(root):
        yield from own_cells(module, persistent, prefix)


def own_cells(module: Owner, persistent: bool, prefix: str = "") -> Iterator[Cell]:
    """Those of `module` itself."""
    for name, value in members(module):
        if isinstance(value, Parameter):
            yield Cell(join(prefix, name), value, "tensor")
    for name, kept in module._buffers.items():
        if getattr(module, name) is not None and (kept or not persistent):
            yield Cell(join(prefix, name), module, name)


def walk(
    module: Module, name: str = "", above: tuple[int, ...] = ()
) -> Iterator[tuple[str, Module]]:
    """`module` and all below it by name, parents first; what two names share comes under both."""
    if id(module) in above:
        raise ModuleError(f"module {name!r} contains itself; keep links upward out of attributes")
    yield name, module
    for child_name, child in children(module):
        yield from walk(child, join(name, child_name), (*above, id(module)))


def children(module: Module) -> Iterator[tuple[str, Module]]:
    """Modules directly below `module`."""
    return ((name, cast("Module", m)) for name, m in members(module) if isinstance(m, Owner))


def members(module: Owner) -> Iterator[tuple[str, Parameter | Owner]]:
    """Parameters and modules that the attributes of `module` hold."""
    for name, value in vars(module).items():
        yield from _expand(name, value)


def _expand(name: str, value: object) -> Iterator[tuple[str, Parameter | Owner]]:
    if isinstance(value, (Parameter, Owner)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _expand(f"{name}.{index}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _expand(f"{name}.{key}", item)


class Place:
    """Where a parameter is kept: an attribute, or an item of a list, tuple or dict."""

    __slots__ = ("holder", "key", "parameter")

    def __init__(self, holder: Any, key: Any, parameter: Parameter) -> None:
        self.holder, self.key, self.parameter = holder, key, parameter

    @property
    def fixed(self) -> bool:
        """Whether nothing else can be put there."""
        return isinstance(self.holder, tuple)

    def put(self, parameter: Parameter) -> None:
        """Keep another one there."""
        if isinstance(self.holder, Owner):
            setattr(self.holder, self.key, parameter)
        else:
            self.holder[self.key] = parameter


def places(root: Module) -> Iterator[tuple[str, Place]]:
    """All places of parameters by name; what two names share comes under both."""

    def inside(path: str, holder: Any, key: Any, value: object) -> Iterator[tuple[str, Place]]:
        if isinstance(value, Parameter):
            yield path, Place(holder, key, value)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from inside(f"{path}.{index}", value, index, item)
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from inside(f"{path}.{name}", value, name, item)

    for prefix, module in walk(root):
        for name, value in vars(module).items():
            yield from inside(join(prefix, name), module, name, value)


def join(prefix: str, name: str) -> str:
    """A name below another."""
    return f"{prefix}.{name}" if prefix else name
