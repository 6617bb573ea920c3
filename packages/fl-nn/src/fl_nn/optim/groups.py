"""Groups of parameters: those that an optimizer updates with the same settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from fl_nn.errors import ModuleError
from fl_nn.parameter import Parameter

#: Parameters, or groups of them: dicts of "params" and the settings in which the group differs.
Params: TypeAlias = Iterable[Parameter] | Iterable[Mapping[str, Any]]
Group: TypeAlias = dict[str, Any]


def parameter_groups(params: Params) -> list[Mapping[str, Any]]:
    """The groups, of which loose parameters make one. ModuleError where both are mixed."""
    given: list[Any] = list(params)
    if any(isinstance(one, Mapping) for one in given):
        loose = [one for one in given if not isinstance(one, Mapping)]
        if loose:
            raise ModuleError("groups and loose parameters are mixed; put these in a group, too")
        return given
    return [{"params": given}]
