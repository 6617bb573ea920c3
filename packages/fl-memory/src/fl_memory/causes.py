"""The cause of a request: which operation of which module asked, in which phase and step.

Upper layers say the cause, events carry it. ``observed`` is empty while no manager has an observer.
A layer tests it first, so that it costs nothing without one:

    if observed:
        with cause(operation="matmul"):
            ...

The current cause belongs to the context, as the current manager does: other threads have others,
except those that run in a copied context.
"""

from __future__ import annotations

import weakref
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["CURRENT", "Cause", "add_observer", "cause", "current_cause", "observed", "set_step"]


class Cause(NamedTuple):
    """Where a request comes from. A field that nobody set is "" (``step``: None)."""

    #: Name of the tensor operation, such as "matmul".
    operation: str = ""
    #: Path of the module from the root of the model, such as "encoder.0.linear".
    module: str = ""
    #: "forward", "backward" or "update".
    phase: str = ""
    #: Number of the training step.
    step: int | None = None


#: One entry for each observer of a manager.
observed: set[object] = set()

#: The cause of this context, or None if no field is set.
CURRENT: ContextVar[Cause | None] = ContextVar("fl_memory_cause", default=None)


def current_cause() -> Cause | None:
    """The cause of this context; None if no field is set."""
    return CURRENT.get()


class cause:
    """Within ``with cause(operation="matmul"):`` the requests of this context have this cause.

    Fields that are not given stay as they are outside. The block's value is the whole ``Cause``.
    """

    __slots__ = ("_cause", "_token")

    def __init__(
        self,
        *,
        operation: str | None = None,
        module: str | None = None,
        phase: str | None = None,
        step: int | None = None,
    ) -> None:
        outer = CURRENT.get() or Cause()
        self._cause = Cause(
            outer.operation if operation is None else operation,
            outer.module if module is None else module,
            outer.phase if phase is None else phase,
            outer.step if step is None else step,
        )

    def __enter__(self) -> Cause:
        self._token: Token[Cause | None] = CURRENT.set(self._cause)
        return self._cause

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        CURRENT.reset(self._token)


def set_step(number: int) -> None:
    """Set the step of this context's cause; the innermost ``with cause(...)`` ends that."""
    CURRENT.set((CURRENT.get() or Cause())._replace(step=number))


def add_observer(observer: object) -> object:
    """Put an entry into ``observed`` that goes when ``observer`` dies; returns it."""
    entry = weakref.ref(observer, observed.discard)
    observed.add(entry)
    return entry
