"""Groups of parameters: those that an optimizer updates with the same settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.parameter import Parameter
from fl_nn.tree import ModuleTree

#: Parameters, or groups of them: dicts of "params" and the settings in which the group differs.
Params: TypeAlias = Iterable[Parameter] | Iterable[Mapping[str, Any]]
Group: TypeAlias = dict[str, Any]


def parameter_groups(name: str, params: Params) -> list[Mapping[str, Any]]:
    """The groups, of which loose parameters make one. ``name`` is the optimizer's. ModuleError
    where both are mixed, and for a module or one array in place of a list."""
    if isinstance(params, (ModuleTree, ft.Array)):
        raise ModuleError(f"[{name}] {remedy(name, params)}")
    given: list[Any] = list(params)
    if any(isinstance(one, Mapping) for one in given):
        loose = [one for one in given if not isinstance(one, Mapping)]
        if loose:
            raise ModuleError("groups and loose parameters are mixed; put these in a group, too")
        return given
    return [{"params": given}]


def remedy(name: str, given: object) -> str:
    """What to give in place of an argument that is no list of parameters, or of its element."""
    kind = type(given).__name__
    if isinstance(given, ModuleTree):
        return f"params hold a module, {kind}: give model.parameters()"
    if isinstance(given, Parameter):
        return f"params are one {kind}: give a list, {name}([p], ...)"
    if isinstance(given, ft.Array):
        return (
            f"params hold a {kind} {given.shape}, which is not a Parameter: make it one, "
            f"p = nn.Parameter(x), compute with p, and give {name}([p], ...)"
        )
    return f"params hold a {kind}: give parameters, as model.parameters() has them"
