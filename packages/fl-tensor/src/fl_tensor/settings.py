"""Settings: environment variables, read in one way, and values that a context may replace."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from fl_tensor.errors import ArgumentError

__all__ = ["ContextSetting", "number", "switch", "text"]

T = TypeVar("T")
_SWITCH = {"1": True, "on": True, "yes": True, "true": True}
_SWITCH |= {"0": False, "off": False, "no": False, "false": False}


def text(name: str, former: str = "") -> str:
    """The value of the variable ``name``, "" where it is not set. ``former`` is a deprecated name
    of it, which is read with a DeprecationWarning where ``name`` is not set."""
    given = os.environ.get(name, "")
    if not given and former and os.environ.get(former):
        given = os.environ[former]
        warnings.warn(
            f"{former} is deprecated and will be ignored from the next minor version on: "
            f"set {name}={given}",
            DeprecationWarning,
            stacklevel=3,
        )
    return given


def number(name: str, default: int, least: int, what: str = "a number", former: str = "") -> int:
    """The integer in the variable ``name`` (or ``former``, see ``text``), ``default`` where it is
    not set or empty. Raises ArgumentError unless it is an integer of at least ``least``; ``what``
    says what it counts."""
    given = text(name, former)
    if not given:
        return default
    try:
        found = int(given)
    except ValueError:
        found = least - 1
    if found < least:
        raise ArgumentError(f"{name}={given!r}: expected {what}, {least} or more")
    return found


def switch(name: str, default: bool, former: str = "") -> bool:
    """The switch in the variable ``name`` (or ``former``, see ``text``): on (1, on, yes, true) or
    off (0, off, no, false), ``default`` where it is not set or empty. Raises ArgumentError for
    anything else."""
    given = text(name, former)
    if not given:
        return default
    found = _SWITCH.get(given.strip().lower())
    if found is None:
        raise ArgumentError(f"{name}={given!r}: expected 1 (on) or 0 (off)")
    return found


class ContextSetting(Generic[T]):
    """A setting of the process that a context may replace, as ``ft.use`` does for the backend.

    ``set`` gives the whole process another value, ``within`` the current context until a block
    ends, and ``set_here`` what holds here. Inside a block the value of the process does not show.
    """

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

    def set_here(self, value: T) -> None:
        """Give the block of ``within`` that runs here another value until it ends, or the process
        where none runs."""
        if self._context.get() is None:
            self._process = value
        else:
            self._context.set(value)

    @contextmanager
    def within(self, value: T) -> Iterator[T]:
        """Give this context another value until the block ends."""
        token = self._context.set(value)
        try:
            yield value
        finally:
            self._context.reset(token)
