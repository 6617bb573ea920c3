"""Errors of the speech package."""

from __future__ import annotations

import os
from typing import Any

from fl_memory.errors import FlError as FlError


class AudioError(FlError, ValueError):
    """An audio file that cannot be read, or is not what was asked for. `path` names the file."""

    def __init__(self, path: str | os.PathLike[str], problem: str, remedy: str) -> None:
        self.path = os.fspath(path)
        super().__init__(f"[audio] {self.path}: {problem}: {remedy}")


class EffectError(FlError, ValueError):
    """Settings of sound effects, or a file of them, that cannot be. `key` names the setting."""

    def __init__(self, where: str, key: str, problem: str, remedy: str) -> None:
        self.key, self.problem, self.remedy = key, problem, remedy
        super().__init__(f"[{where}] {key} {problem}: {remedy}")

    def __reduce__(self) -> Any:  # from a worker process
        return _restored, (type(self), self.args, self.__dict__)


class TargetError(FlError, ValueError):
    """A target that a criterion cannot use. `sample` is its number in the batch."""

    def __init__(self, where: str, sample: int, problem: str, remedy: str) -> None:
        self.sample = sample
        super().__init__(f"[{where}] sample {sample}: {problem}: {remedy}")


def _restored(kind: type[EffectError], args: tuple[Any, ...], state: dict[str, Any]) -> EffectError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error
