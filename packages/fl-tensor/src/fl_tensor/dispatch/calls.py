"""Helpers that inspect calls, for wrappers and the test kit.

They find the parameters and attributes of an operation, its arguments by name, and the adapters
among arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.roles import role

Options = Mapping[str, Any]


class Parameter(NamedTuple):
    """A parameter: ``kind`` is its annotation ("Axis", "Shape", ...), ``role`` the letter of an
    array ("" for any other), ``default`` is ``REQUIRED`` where there is none."""

    name: str
    kind: str
    role: str
    default: Any


REQUIRED: Any = object()


@functools.cache
def parameters(name: str) -> tuple[Parameter, ...]:
    """The parameters of an operation, of ``constant`` and ``scalar`` too."""
    import inspect  # when first needed: it makes importing this package slower

    # The methods have the signatures of the functions that they call.
    _, *found = inspect.signature(getattr(TensorBackend, name)).parameters.values()
    return tuple(
        Parameter(
            p.name, str(p.annotation), role(p), REQUIRED if p.default is p.empty else p.default
        )
        for p in found
    )


@functools.cache
def attributes(name: str) -> tuple[str, ...]:
    """The names of the attributes of an operation, in order: its parameters that are no arrays.
    ``donate`` is none, it has no influence on the result. Raises AttributeError for a name that is
    no operation."""
    return tuple([p.name for p in parameters(name) if not p.role and p.name != "donate"])


def given(name: str, arguments: tuple[Any, ...], options: Options) -> dict[str, Any]:
    """The arguments by name; defaults are not filled in."""
    names = [p.name for p in parameters(name)]
    return {**dict(zip(names, arguments, strict=False)), **options}


def adapters(values: Iterable[Any]) -> list[Any]:
    """The adapters among arguments or results, those in lists and tuples included, in order."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if _is_adapter(kind):
            found.append(value)
        elif kind is tuple or kind is list:
            found += [v for v in value if _is_adapter(type(v))]
    return found


_adapter_types: dict[type, bool] = {}


def _is_adapter(cls: type) -> bool:
    # Wrappers ask at every call: remembered, because an abstract class takes long to answer.
    found = _adapter_types.get(cls)
    if found is None:
        found = _adapter_types[cls] = issubclass(cls, TensorAdapter)
    return found


def operands(name: str, arguments: tuple[Any, ...], options: Options) -> list[tuple[str, Any]]:
    """The adapters with the names that messages use: ``x``, ``xs[1]``."""
    found = []
    for label, value in given(name, arguments, options).items():
        if isinstance(value, TensorAdapter):
            found.append((label, value))
        else:
            found += [(f"{label}[{i}]", v) for i, v in enumerate(adapters((value,)))]
    return found


def describe(x: Any) -> str:
    """``float32(2, 3) on cpu``."""
    return f"{x.dtype}{tuple(x.shape)} on {x.device}"
