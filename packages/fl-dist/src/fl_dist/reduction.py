"""The reductions: names, supported dtypes, definitions.

float16 and bfloat16 are summed and multiplied in float32, and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fl_tensor as ft
from fl_dist.errors import ArgumentError, DTypeError
from fl_tensor import DType, Tensor

__all__ = ["OPS", "check", "combine", "finish", "fold", "widen"]

_STEP: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: ft.add(x, y),  # looked up per call, so that an override is seen
    "mean": lambda x, y: ft.add(x, y),
    "max": lambda x, y: ft.maximum(x, y),
    "min": lambda x, y: ft.minimum(x, y),
    "prod": lambda x, y: ft.multiply(x, y),
}
_KINDS = {"sum": "iufc", "mean": "fc", "max": "biuf", "min": "biuf", "prod": "iufc"}
_WORDS = {"b": "bool", "i": "signed", "u": "unsigned", "f": "floating", "c": "complex"}

OPS = tuple(_STEP)


def check(operation: str, op: str, dtype: DType | None = None) -> str:
    """``op`` itself. ArgumentError for an unknown name, DTypeError where it has no meaning."""
    if not isinstance(op, str) or op not in _STEP:
        raise ArgumentError(f"[{operation}] op {op!r}: reductions are {', '.join(OPS)}")
    if dtype is not None and dtype.kind not in _KINDS[op]:
        kinds = ", ".join(_WORDS[kind] for kind in _KINDS[op])
        raise DTypeError(f"[{operation}] {op} of {dtype}: takes {kinds} dtypes; use astype first")
    return op


def widen(op: str, x: Tensor) -> Tensor:
    """``x`` in the dtype in which ``op`` adds up: float32 for float16 and bfloat16."""
    if x.dtype.kind == "f" and x.dtype.itemsize < 4 and op not in ("max", "min"):
        return x.astype(ft.float32)
    return x


def combine(op: str, x: Tensor, y: Tensor) -> Tensor:
    """One step: ``x`` is the partial result so far (``widen`` of the first value), ``y`` the next
    rank's value."""
    return _STEP[op](x, widen(op, y))


def finish(op: str, total: Tensor, count: int, dtype: DType) -> Tensor:
    """The last step: a mean divides its sum by the number of ranks; the result has ``dtype``."""
    if op == "mean":
        total = ft.divide(total, count)
    return total if total.dtype is dtype else total.astype(dtype)


def fold(op: str, values: Sequence[Tensor]) -> Tensor:
    """Combine in rank order, ((x0 + x1) + x2) + ..., and finish. Keeps shape and dtype."""
    total = widen(op, values[0])
    for value in values[1:]:
        total = combine(op, total, value)
    return finish(op, total, len(values), values[0].dtype)
