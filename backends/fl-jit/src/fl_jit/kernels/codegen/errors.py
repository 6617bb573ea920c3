"""Errors of the kernel generator. Each is also the ordinary Python error."""

from __future__ import annotations

from fl_tensor.errors import BackendError, FlError


class ProgramError(FlError, ValueError):
    """A program that says nothing: an unknown instruction, operands or axes that do not fit."""


class CompileError(BackendError):
    """LLVM refused what was generated: a defect of the generator, with the program's text."""
