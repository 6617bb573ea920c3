"""Errors of the code generator. Each is also the corresponding Python error."""

from __future__ import annotations

from fl_tensor.errors import BackendError, FlError


class ProgramError(FlError, ValueError):
    """An invalid program: an unknown instruction, or operands or axes that do not fit."""


class CompileError(BackendError):
    """LLVM rejected the generated code: a defect of the generator, with the program's text."""
