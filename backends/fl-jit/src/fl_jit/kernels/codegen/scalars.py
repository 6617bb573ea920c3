"""Scalars in place of vectors, for code that LLVM itself is to vectorize."""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors


class Scalars(Vectors):
    """Instructions on single numbers: ``libm`` writes functions of them by the same code."""

    def __init__(self, builder: IR, target: Target) -> None:
        super().__init__(builder, target, 1)

    def of(self, element: IR) -> IR:
        """``element`` itself."""
        return element

    def _constant(self, vector: IR, element: IR, value: complex) -> IR:
        return ir.Constant(element, value)
