"""Errors of the speech package."""

from __future__ import annotations

import os

from fl_memory.errors import FlError as FlError


class AudioError(FlError, ValueError):
    """An audio file that cannot be read, or is not what was asked for. `path` names the file."""

    def __init__(self, path: str | os.PathLike[str], problem: str, remedy: str) -> None:
        self.path = os.fspath(path)
        super().__init__(f"[audio] {self.path}: {problem}: {remedy}")


class TargetError(FlError, ValueError):
    """A target that a criterion cannot use. `sample` is its number in the batch."""

    def __init__(self, where: str, sample: int, problem: str, remedy: str) -> None:
        self.sample = sample
        super().__init__(f"[{where}] sample {sample}: {problem}: {remedy}")
