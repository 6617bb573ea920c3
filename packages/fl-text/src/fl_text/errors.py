"""Errors of the text package."""

from __future__ import annotations

import os
from typing import Any

from fl_memory.errors import FlError as FlError


class TextError(FlError, ValueError):
    """Text, tokens or settings that do not fit."""


class TextFileError(TextError):
    """A file that cannot be read as what it should be. `path` names it."""

    def __init__(self, path: str | os.PathLike[str], problem: str, remedy: str) -> None:
        self.path = os.fspath(path)
        self._given = (self.path, problem, remedy)
        super().__init__(f"[text] {self.path}: {problem}: {remedy}")

    def __reduce__(self) -> Any:  # from a worker process
        return type(self), self._given


class RecipeError(TextError):
    """Settings of a training that make no sense, or do not fit what is there."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"[recipe] {problem}")

    def __reduce__(self) -> Any:  # from a worker process
        return type(self), (self.problem,)
