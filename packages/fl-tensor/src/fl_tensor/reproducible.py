"""``ft.reproducible``: results that depend only on the program and its data.

A backend may choose among ways to compute that round differently: by what it measured, or by
whether a computation has come before. So a run that was interrupted and goes on in a new process
can end with other last bits than one without interruption. Where that matters, such choices are
made by rules alone, on the same machine with the same versions and number of threads.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from fl_tensor import settings
from fl_tensor.arguments import flag_of

ENVIRONMENT = "FL_REPRODUCIBLE"

_begins_on = settings.switch(ENVIRONMENT, False)
_on: ContextVar[bool] = ContextVar("fl_tensor_reproducible", default=_begins_on)

#: Whether anybody has asked for it in this process: else no context needs to be searched.
_was_requested = _begins_on


def is_reproducible() -> bool:
    """Whether choices are to be made by rules alone, here and now."""
    return _was_requested and _on.get()


class reproducible:
    """``with ft.reproducible():`` what is asked for in this context has the same bits in every run.

    ``numpy`` then takes the kernels that a rule names, not those that were faster when tried; and
    ``jit`` makes a plan of every computation of some size when it is first seen, and waits for it.
    ``ft.reproducible(False)`` ends that for a block. ``FL_REPRODUCIBLE=1`` begins with it.
    """

    def __init__(self, on: bool = True) -> None:
        self.on = flag_of("reproducible", on, "on")
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        global _was_requested
        _was_requested = True
        self._tokens.append(_on.set(self.on))

    def __exit__(self, *raised: object) -> None:
        _on.reset(self._tokens.pop())
