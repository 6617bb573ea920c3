"""Traversal of a module's attributes: parameters, buffers, sub-modules.

These are parameters, modules, and lists, tuples or dicts of them: `self.layers = [Linear(4, 4),
Linear(4, 4)]` names `layers.0.weight` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.parameter import Parameter


class ModuleTree:
    """Base of `Module`: the parameters, buffers and generators that its attributes hold, and those
    of the modules below."""

    #: The schema of the state of this class. Raise it when names or meanings in `state_dict`
    #: change, and declare what leads there from the version before: see `fl_nn.migrations`.
    version: ClassVar[int] = 1
    #: Names of attributes that are buffers, and whether state dicts have them.
    _buffers: Mapping[str, bool] = {}

    def state_name(self, attribute: str) -> str:
        """What the parameter, buffer or module of an attribute is called in `state_dict`. A module
        under the name "" has its state under the names of this one."""
        return attribute

    def named_children(self) -> Iterator[tuple[str, ModuleTree]]:
        """Modules directly below this one."""
        return children(self)

    def named_modules(self) -> Iterator[tuple[str, ModuleTree]]:
        """This module under the name "", then all below it, each object once."""
        seen: set[int] = set()
        for name, module in walk(self, by_attribute=True):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters below, each object once: shared ones under their first name."""
        seen: set[int] = set()
        for prefix, module in walk(self):
            for name, parameter in members(module):
                if isinstance(parameter, Parameter) and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield join(prefix, module.state_name(name)), parameter

    def parameters(self) -> Iterator[Parameter]:
        """All parameters below, each once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, ft.Tensor]]:
        """All buffers below, persistent or not."""
        seen: set[int] = set()
        for prefix, module in walk(self):
            if id(module) not in seen:
                seen.add(id(module))
                for name in module._buffers:
                    value = getattr(module, name)
                    if value is not None:
                        yield join(prefix, module.state_name(name)), value

    def named_generators(self) -> Iterator[tuple[str, ft.Generator]]:
        """All random generators that modules below hold as attributes, each once."""
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, ft.Generator) and id(value) not in seen:
                    seen.add(id(value))
                    yield join(prefix, name), value


class StateEntry:
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
    def is_parameter(self) -> bool:
        return isinstance(self.owner, Parameter)

    @property
    def value(self) -> ft.Tensor:
        return getattr(self.owner, self.attribute)

    @value.setter
    def value(self, value: ft.Tensor) -> None:
        setattr(self.owner, self.attribute, value)


def state_entries(root: ModuleTree, persistent: bool) -> Iterator[StateEntry]:
    """Parameters, buffers (only `persistent` ones if so asked), then children: the order of
    PyTorch's state dicts. What two names share comes under both."""
    for prefix, module in walk(root):
        yield from own_state_entries(module, persistent, prefix)


def own_state_entries(
    module: ModuleTree, persistent: bool, prefix: str = ""
) -> Iterator[StateEntry]:
    """Those of `module` itself."""
    for name, value in members(module):
        if isinstance(value, Parameter):
            yield StateEntry(join(prefix, module.state_name(name)), value, "tensor")
    for name, kept in module._buffers.items():
        if getattr(module, name) is not None and (kept or not persistent):
            yield StateEntry(join(prefix, module.state_name(name)), module, name)


def walk(
    module: ModuleTree, name: str = "", above: tuple[int, ...] = (), by_attribute: bool = False
) -> Iterator[tuple[str, ModuleTree]]:
    """`module` and all below it, parents first, with the names under which they have their state,
    or `by_attribute`; what two names share comes under both."""
    if id(module) in above:
        raise ModuleError(f"module {name!r} contains itself; keep links upward out of attributes")
    yield name, module
    for child_name, child in children(module):
        own = child_name if by_attribute else module.state_name(child_name)
        yield from walk(child, join(name, own), (*above, id(module)), by_attribute)


def children(module: ModuleTree) -> Iterator[tuple[str, ModuleTree]]:
    """Modules directly below `module`."""
    return ((name, m) for name, m in members(module) if isinstance(m, ModuleTree))


def members(module: ModuleTree) -> Iterator[tuple[str, Parameter | ModuleTree]]:
    """Parameters and modules that the attributes of `module` hold."""
    for name, value in vars(module).items():
        yield from _expand(name, value)


def _expand(name: str, value: object) -> Iterator[tuple[str, Parameter | ModuleTree]]:
    if isinstance(value, (Parameter, ModuleTree)):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _expand(f"{name}.{index}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _expand(f"{name}.{key}", item)


class ParameterSlot:
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
        if isinstance(self.holder, ModuleTree):
            setattr(self.holder, self.key, parameter)
        else:
            self.holder[self.key] = parameter


def parameter_slots(root: ModuleTree) -> Iterator[tuple[str, ParameterSlot]]:
    """All places of parameters by name; what two names share comes under both."""

    def inside(
        path: str, holder: Any, key: Any, value: object
    ) -> Iterator[tuple[str, ParameterSlot]]:
        if isinstance(value, Parameter):
            yield path, ParameterSlot(holder, key, value)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from inside(f"{path}.{index}", value, index, item)
        elif isinstance(value, dict):
            for name, item in value.items():
                yield from inside(f"{path}.{name}", value, name, item)

    for prefix, module in walk(root):
        for name, value in vars(module).items():
            yield from inside(join(prefix, module.state_name(name)), module, name, value)


def join(prefix: str, name: str) -> str:
    """A name below another; either may be empty."""
    return f"{prefix}.{name}" if prefix and name else prefix or name
