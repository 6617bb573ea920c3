"""The list of operations: each with its signature, read from the classes that define it.

An operation that a later minor version brings says so: a derived one in its module's
``SINCE = {"name": "1.1"}``, an optional one in its decorator. Those of 1.0 say nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fl_tensor import derived
from fl_tensor.cached import cached_property
from fl_tensor.capabilities import OptionalOps
from fl_tensor.device import CPU
from fl_tensor.dtypes import DType
from fl_tensor.roles import role as role

FIRST = "1.0"


@dataclass(frozen=True)
class OpSpec:
    """One operation: its name, ``kind`` ("required", "derived" or "optional"), the function that
    defines it, the capability that a backend needs for it, if any, and the contract version that
    brought it."""

    name: str
    kind: str
    function: Callable[..., Any]
    capability: str | None = None
    since: str = FIRST

    @cached_property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters after ``self`` or ``ops``; annotations are strings."""
        return list(inspect.signature(self.function).parameters.values())[1:]

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the array parameters (a sequence of arrays counts as one)."""
        return tuple(p.name for p in self.parameters if role(p))

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def signature(self) -> str:
        """``(x: A, axis: Axis = 0) -> tuple[A, A]``; a result of type Any goes without saying."""
        result = str(inspect.signature(self.function).return_annotation)
        arrow = "" if result in ("Any", "A") else f" -> {result}"
        return f"({', '.join(map(source, self.parameters))}){arrow}"


def is_sequence(parameter: inspect.Parameter) -> bool:
    return str(parameter.annotation).startswith("Sequence[")


def source(p: inspect.Parameter) -> str:
    """The parameter as the signature of a function spells it."""
    return f"{p.name}: {p.annotation}{default_of(p)}"


def default_of(p: inspect.Parameter) -> str:
    """`` = 0``: the parameter's default as source text, "" where it has none."""
    value = p.default
    if value is p.empty:
        return ""
    if isinstance(value, DType):
        return f" = dtypes.{value.name}"
    if value is CPU:
        return " = CPU"
    return f' = "{value}"' if isinstance(value, str) else f" = {value!r}"


def _derived() -> tuple[OpSpec, ...]:
    return tuple(
        OpSpec(
            name,
            "derived",
            getattr(module, name),
            getattr(module, "CAPABILITY", None),
            getattr(module, "SINCE", {}).get(name, FIRST),
        )
        for module in derived.modules()
        for name in module.__all__
    )


def _primitives() -> tuple[OpSpec, ...]:
    from fl_tensor.backend import TensorBackend

    return tuple(
        OpSpec(name, "required", value)
        for name, value in vars(TensorBackend).items()
        if getattr(value, "__isabstractmethod__", False) and name not in ("devices", "synchronize")
    )


DERIVED: tuple[OpSpec, ...] = _derived()
OPTIONAL: tuple[OpSpec, ...] = tuple(
    OpSpec(name, "optional", function, function.capability, function.since)
    for name, function in vars(OptionalOps).items()
    if hasattr(function, "capability")
)


def every() -> tuple[OpSpec, ...]:
    """All of them: required, derived, optional."""
    return (*_primitives(), *DERIVED, *OPTIONAL)


def __getattr__(name: str) -> tuple[OpSpec, ...]:
    # Read late: the generator has to run when derived_ops.py, which the backend inherits, is stale.
    if name == "PRIMITIVES":
        return _primitives()
    if name == "OPERATIONS":
        return every()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
