"""``public_names``: the names that ``dir`` of a module lists."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

__all__ = ["public_names"]

#: Names that a file has for itself.
_OF_FILES = frozenset(("TYPE_CHECKING", "annotations"))


def public_names(module: Mapping[str, Any], *others: str) -> list[str]:
    """The names of a module's ``__all__``, or else all that begin with no underscore and are no
    modules; and ``others``, such as its public modules. ``module`` is its ``globals()``."""
    if "__all__" in module:
        return sorted({*module["__all__"], *others})
    found = {
        name
        for name, value in module.items()
        if name[0] != "_" and name not in _OF_FILES and not isinstance(value, ModuleType)
    }
    return sorted(found | set(others))
