"""Context managers of upper layers, active while allocations are observed: names of operations.

A layer registers a function that returns a context manager. The outermost observer of a context
enters it, and leaves it at its end. So a layer costs nothing while nobody observes.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING

from fl_memory.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["instrumented", "register_instrumentation"]

_factories: list[Callable[[], AbstractContextManager[object]]] = []
_active: ContextVar[bool] = ContextVar("fl_memory_instrumented", default=False)


def register_instrumentation(factory: Callable[[], AbstractContextManager[object]]) -> None:
    """Enter ``factory()`` whenever observation begins in a context; call it when a layer is
    imported. AllocationError for what cannot be called."""
    if not callable(factory):
        raise AllocationError(
            f"register_instrumentation({factory!r}): expected a function that returns a context "
            f"manager"
        )
    _factories.append(factory)


def instrumented() -> ExitStack:
    """Enter what layers registered, unless this context is inside of it already.

    The result is a context manager that leaves it. Blocks are left in the reverse order of
    entering, in the context that entered them.
    """
    stack = ExitStack()
    if not _active.get():
        with ExitStack() as entered:
            token = _active.set(True)
            entered.callback(_active.reset, token)
            for factory in _factories:
                entered.enter_context(factory())
            stack = entered.pop_all()
    return stack
