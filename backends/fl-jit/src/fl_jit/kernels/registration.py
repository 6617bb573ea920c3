"""Registrations that can be undone, and the handling of their failures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from fl_tensor.errors import ArgumentError

F = TypeVar("F")


class KernelWarning(RuntimeWarning):
    """A kernel from outside that could not be made, and was left out."""


def function(what: str, given: F) -> F:
    """``given``, if it can be called; ArgumentError otherwise."""
    if not callable(given):
        raise ArgumentError(f"{what} is a {type(given).__name__}: expected a function")
    return given


def attempt(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What ``function`` gives. What is wrong with a stranger's kernel does no harm: where it
    raises, a KernelWarning says that ``what`` was left out, and there is None."""
    try:
        return function(*arguments)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        # The stack ends in whatever asked for a result: no line of it is at fault.
        warnings.warn(f"{what} was left out: {said}", KernelWarning, stacklevel=2)
        return None


class Registration:
    """Something registered, for good; or for a block: ``with register(...):``. A block computes
    nothing when it ends: what is deferred in it runs later, without what was registered, unless the
    block asks for it (``ft.eval``)."""

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo

    def remove(self) -> None:
        """Take it back. Twice is once."""
        undo, self._undo = self._undo, lambda: None
        undo()

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
