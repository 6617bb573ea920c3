"""Errors of the tensor package. Each is also the ordinary Python error, so plain handlers work."""

from __future__ import annotations

from fl_memory.errors import FlError as FlError
from fl_memory.errors import MissingError as MissingError

__all__ = [
    "ArgumentError", "AxisError", "BackendError", "CapabilityError", "ChainedAssignmentWarning",
    "DTypeError", "FileError", "FlError", "IndexingError", "KernelArithmeticError",
    "KernelCompilerWarning", "KernelError",
    "LinAlgError", "MissingError", "NoDataError", "NonFiniteError", "ShapeError",
]  # fmt: skip


class ShapeError(FlError, ValueError):
    """Shapes, axes or sizes that do not fit the operation."""


class AxisError(ShapeError, IndexError):
    """An axis that the array does not have."""


class ArgumentError(FlError, ValueError):
    """A value outside what the operation accepts."""


class DTypeError(FlError, TypeError):
    """A dtype, or a combination of dtypes, that the operation does not accept."""


class IndexingError(FlError, IndexError):
    """An index that is out of range or of the wrong kind."""


class FileError(FlError, OSError):
    """A file that cannot be read or written as what it should be. Made as an OSError is: a number
    of ``errno``, the reason, the path."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename else super().__str__()


class BackendError(FlError, RuntimeError):
    """Operands of different backends, or a backend that cannot be used here."""


class CapabilityError(BackendError):
    """An optional operation that the backend does not offer."""


class LinAlgError(FlError, ValueError):
    """A matrix that the factorisation does not exist for."""


class NoDataError(BackendError):
    """An answer that needs data was asked of a backend that has shapes alone."""


class CaptureError(FlError):
    """A function has no graph: what it does depends on data, or on what no graph can hold."""


class NonFiniteError(FlError, FloatingPointError):
    """A NaN or an infinity that ``ft.check`` was asked to find."""


class ChainedAssignmentWarning(UserWarning):
    """``x[i][j] = v``: it assigns to the value ``x[i]``, which nothing holds, and not to ``x``."""


class KernelError(FlError, TypeError):
    """The source of a kernel is outside the subset of Python that kernels are written in."""


class KernelArithmeticError(FlError, ArithmeticError):
    """An integer operation of a kernel has no result: a division by zero, a shift by a negative
    count, a float that no int64 holds, an integer too large for the array that it is stored in."""


class KernelCompilerWarning(RuntimeWarning):
    """A kernel runs in the interpreter, because no compiler could take it."""
