"""Derived operations: written once over a namespace of primitives, inherited by every backend.

Each is a function ``name(ops, x, ...)``. With ``ops`` a backend it computes on adapters; with
``ops`` a tape it computes on variables, so that its gradient follows from the primitives' rules.
Values have ``shape``, ``dtype`` and ``device``; ``ops.constant(2.0, x)`` is a 0-d value like ``x``.
The letters in the signatures are those of ``fl_tensor.roles``.

The modules are loaded when their first operation is called: a program uses few of them.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fl_tensor.derived import attention as attention
    from fl_tensor.derived import comparison as comparison
    from fl_tensor.derived import complex_parts as complex_parts
    from fl_tensor.derived import conv_gradient as conv_gradient
    from fl_tensor.derived import diagonals as diagonals
    from fl_tensor.derived import einsum as einsum
    from fl_tensor.derived import elementwise as elementwise
    from fl_tensor.derived import extremes as extremes
    from fl_tensor.derived import fft as fft
    from fl_tensor.derived import floats as floats
    from fl_tensor.derived import gamma as gamma
    from fl_tensor.derived import inverse_normal as inverse_normal
    from fl_tensor.derived import linalg as linalg
    from fl_tensor.derived import loss as loss
    from fl_tensor.derived import manipulation as manipulation
    from fl_tensor.derived import nan as nan
    from fl_tensor.derived import normalization as normalization
    from fl_tensor.derived import pooling as pooling
    from fl_tensor.derived import pooling_gradient as pooling_gradient
    from fl_tensor.derived import product as product
    from fl_tensor.derived import reduction as reduction
    from fl_tensor.derived import repetition as repetition
    from fl_tensor.derived import sampling as sampling
    from fl_tensor.derived import scan as scan
    from fl_tensor.derived import search as search
    from fl_tensor.derived import sequence as sequence
    from fl_tensor.derived import statistics as statistics
    from fl_tensor.derived import truncation as truncation

#: The modules with operations, in the order of the documentation.
MODULES = (
    "elementwise", "floats", "gamma", "inverse_normal", "comparison", "reduction", "scan", "nan",
    "statistics", "manipulation", "repetition", "diagonals", "product", "einsum", "extremes",
    "search", "normalization", "pooling", "pooling_gradient", "conv_gradient", "loss", "attention",
    "sequence", "sampling", "truncation", "complex_parts", "linalg", "fft",
)  # fmt: skip


def modules() -> list[ModuleType]:
    """All modules with operations, loaded."""
    from importlib import import_module

    return [import_module(f"{__name__}.{name}") for name in MODULES]


def __getattr__(name: str) -> ModuleType:
    if name in MODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")  # which makes it an attribute
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
