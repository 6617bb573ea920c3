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


class SpeechDataError(FlError, ValueError):
    """A sample of a speech dataset that cannot be used: `problem` and `remedy`. `path` and `line`
    are those of the list file, `id` is that of the sample; empty and 0 where they are not known."""

    def __init__(
        self,
        problem: str,
        remedy: str,
        *,
        path: str | os.PathLike[str] = "",
        line: int = 0,
        id: str = "",
    ) -> None:
        self.path, self.line, self.id = os.fspath(path), line, id
        self.problem, self.remedy = problem, remedy
        where = [self.path] if self.path else []
        where += [f"line {line}"] if line else []
        where += [f"sample {id!r}"] if id else []
        super().__init__(f"[speech data] {', '.join(where) or 'samples'}: {problem}: {remedy}")

    def __reduce__(self) -> Any:  # from a worker process
        return _remade, ((self.problem, self.remedy), self.path, self.line, self.id)


def _remade(given: tuple[str, str], path: str, line: int, id: str) -> SpeechDataError:
    return SpeechDataError(*given, path=path, line=line, id=id)


class TargetError(FlError, ValueError):
    """A target that a criterion cannot use. `sample` is its number in the batch."""

    def __init__(self, where: str, sample: int, problem: str, remedy: str) -> None:
        self.sample = sample
        super().__init__(f"[{where}] sample {sample}: {problem}: {remedy}")


class RecipeError(FlError, ValueError):
    """Settings of a recipe, or of a saved recogniser, that make no sense. `problem` says which."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"[recipe] {problem}")

    def __reduce__(self) -> Any:  # from a worker process
        return RecipeError, (self.problem,)


class EffectError(FlError, ValueError):
    """Settings of sound effects, or a file of them, that cannot be. `key` names the setting."""

    def __init__(self, where: str, key: str, problem: str, remedy: str) -> None:
        self.key, self.problem, self.remedy = key, problem, remedy
        super().__init__(f"[{where}] {key} {problem}: {remedy}")

    def __reduce__(self) -> Any:  # from a worker process
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[EffectError], args: tuple[Any, ...], state: dict[str, Any]) -> EffectError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error
