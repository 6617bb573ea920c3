"""Inspection of one installed backend: load errors, capabilities, borrowed operations."""

from __future__ import annotations

import functools
from typing import Any

from fl_tensor import dtypes
from fl_tensor._version import __version__
from fl_tensor.backend import TensorBackend
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dispatch import registry

#: The operations that the paper counts implementations of.
COUNTED = ("add", "conv", "sum")


def survey(name: str) -> dict[str, Any]:
    """The facts about the backend of that name, ready for JSON. ``error`` says why it cannot be
    used, and is then all that is known beside its origin."""
    facts: dict[str, Any] = {
        "name": name,
        "origin": registry.REGISTRY.origin(name) or f"fl-tensor {__version__}",
        "error": None,
    }
    try:
        backend = registry.get_backend(name)
        devices = [str(device) for device in backend.devices()]
    except Exception as error:  # somebody else's module, constructor or driver: report what it says
        return {**facts, "error": str(error) or type(error).__name__}
    cls = type(backend)
    return {
        **facts,
        "contract": ".".join(map(str, cls.CONTRACT)),
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "devices": devices,
        "dtypes": [n for n, dtype in dtypes.ALL.items() if dtype in backend.dtypes],
        "capabilities": sorted(backend.capabilities),
        "own_derived": own_derived(cls),
        "borrowed": list(cls.borrowed()) if hasattr(cls, "borrowed") else [],
        "implementations": {op: implementations(cls, op) for op in COUNTED},
    }


def own_derived(cls: type) -> list[str]:
    """The derived operations for which the class has a version of its own."""
    names = [n for n, member in vars(DerivedOps).items() if n[0] != "_" and callable(member)]
    return [n for n in names if getattr(cls, n) is not getattr(DerivedOps, n)]


def implementations(cls: type, operation: str) -> list[str]:
    """Every class that implements ``operation`` for ``cls``, the one that is used first; what is
    borrowed is implemented elsewhere."""
    found = [
        base
        for base in cls.__mro__
        if operation in vars(base)
        and base is not TensorBackend
        and not hasattr(vars(base)[operation], "borrowed")
    ]
    return [f"{base.__module__}:{base.__qualname__}" for base in found]


@functools.cache
def surveys() -> tuple[dict[str, Any], ...]:
    """All installed backends, by name."""
    return tuple(survey(name) for name in registry.available_backends())
