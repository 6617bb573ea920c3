"""Reductions of vectors: identity elements, and combination of partial results."""

from __future__ import annotations

from fl_jit.kernels.codegen import emit_elementwise
from fl_jit.kernels.codegen.vectors import IR, Vectors, element_type
from fl_tensor.dtypes import DType

_COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}


def identity(of: Vectors, op: str, dtype: DType) -> IR:
    """The identity element, in every lane."""
    element = element_type(dtype)
    if op in ("sum", "prod"):
        return of.constant(element, 0 if op == "sum" else 1)
    if dtype.is_floating:
        return of.constant(element, float("-inf" if op == "max" else "inf"))
    bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
    return of.constant(element, low if op == "max" else low + (1 << bits) - 1)


def combine(of: Vectors, op: str, accumulator: DType, x: IR, y: IR) -> IR:
    """The combination of two partial results."""
    return emit_elementwise.emit(of, _COMBINE[op], accumulator, x, y)
