"""Whether operations are recorded: a context variable, so that threads and tasks do not disturb one
another."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_enabled: ContextVar[bool] = ContextVar("fl_autograd_enabled", default=True)

#: Whether operations are recorded in this context.
is_grad_enabled: Callable[[], bool] = _enabled.get


class _Mode:
    """A context manager that can be entered again while it is active, and a decorator."""

    _value: bool

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(_enabled.set(self._value))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _enabled.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        mode = type(self)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with mode():  # a fresh one per call: the function may run in several threads
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """``with no_grad():`` or ``@no_grad()``: nothing is recorded, results need no gradient."""

    _value = False


class enable_grad(_Mode):
    """Records again inside ``no_grad``."""

    _value = True
