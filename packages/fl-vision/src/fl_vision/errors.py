"""Errors of files and arguments. Every message ends with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fl_memory.errors import FlError


class DataFileError(FlError, ValueError):
    """A file is there but is not what its reader accepts: malformed, cut off or too large."""

    def __init__(self, reader: str, path: str | Path, problem: str, remedy: str) -> None:
        super().__init__(f"[{reader}] {path}: {problem}; {remedy}")
        self.path = Path(path)


class DataMissingError(FlError, FileNotFoundError):
    """A file, folder or download that the data set needs is not to be had."""


class ExtraMissingError(FlError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class UsageError(FlError, ValueError):
    """Arguments that do not fit together, or do not fit the data."""


class ImageError(FlError, ValueError):
    """An image, boxes or settings that a transform cannot use. `problem` and `remedy` say why."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"[{where}] {problem}: {remedy}")

    def __reduce__(self) -> Any:  # from a worker process
        return ImageError, (self.where, self.problem, self.remedy)


class RecipeError(FlError, ValueError):
    """Settings that make no sense, or that do not fit together. `problem` says which."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"[recipe] {problem}")

    def __reduce__(self) -> Any:  # from a worker process
        return RecipeError, (self.problem,)
