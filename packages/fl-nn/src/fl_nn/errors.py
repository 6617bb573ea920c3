"""Errors of models, training and checkpoints. Every message ends with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fl_tensor import FlError as FlError


class ModuleError(FlError, ValueError):
    """A module that was built or called with arguments that do not fit."""


@contextmanager
def recursion_guard(where: str) -> Iterator[None]:
    """A RecursionError of the block becomes a ModuleError: modules nested too deep."""
    try:
        yield
    except RecursionError as error:
        raise recursion_error(where) from error


def recursion_error(where: str) -> ModuleError:
    """The error for modules within modules that exceed Python's stack."""
    return ModuleError(
        f"[{where}] the modules are nested deeper than Python's limit of "
        f"{sys.getrecursionlimit()} calls allows: put them side by side, or raise it with "
        "sys.setrecursionlimit"
    )


class ParameterError(ModuleError, TypeError):
    """A value that is no Parameter was assigned to an attribute that holds one."""


class UnpackingError(ModuleError, TypeError):
    """One result that was taken apart as if it were several."""


class StateDictError(FlError, ValueError):
    """A state dict that does not fit its model or optimizer; lists every difference at once."""


class CheckpointError(FlError, ValueError):
    """A checkpoint file that is missing, damaged, or belongs to something else."""


class TrainingError(FlError, RuntimeError):
    """Training that cannot go on: a loss that is not finite, ranks that disagree."""


class DivergenceError(TrainingError):
    """A loss or gradients that are not finite."""


class RunFolderError(TrainingError):
    """The folder of a run that another process writes to, or that holds another run."""


class TrainingWarning(UserWarning):
    """A call of a Trainer that has nothing to do, or a folder that cannot be locked."""


class ArchError(FlError, ValueError):
    """An architecture file that cannot be read or built; `file`, `line` and `column` (from 1; 0
    where it is the file as a whole) say where."""

    def __init__(self, message: str, file: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.file, self.line, self.column = file, line, column
