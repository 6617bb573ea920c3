"""A setting of the process that a context may replace, as ``ft.use`` does for the backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

__all__ = ["ContextSetting"]

T = TypeVar("T")


class ContextSetting(Generic[T]):
    """A value that ``set`` gives the whole process, and ``within`` the current context until a
    block ends. Inside such a block the value of the process does not show."""

    def __init__(self, name: str, value: T) -> None:
        self._process = value
        self._context: ContextVar[T | None] = ContextVar(name, default=None)

    def get(self) -> T:
        """The value that holds here."""
        found = self._context.get()
        return self._process if found is None else found

    def set(self, value: T) -> None:
        """Give the process another value."""
        self._process = value

    @contextmanager
    def within(self, value: T) -> Iterator[T]:
        """Give this context another value until the block ends."""
        token = self._context.set(value)
        try:
            yield value
        finally:
            self._context.reset(token)
