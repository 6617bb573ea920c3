"""Decisions by a value that is nearly always the same: is every gradient finite?

A graph cannot decide by data. While a function is captured, ``assume`` takes the flag for true and
makes it a result of the graph. Where the flag turns out false, nothing of that call of the graph is
kept, and the function itself runs.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor

__all__ = ["ASSUMED", "assume", "is_captured"]

#: Of the capture in this context: the flags that it takes for true.
ASSUMED: ContextVar[list[Tensor] | None] = ContextVar("fl_tensor_assumed", default=None)


def is_captured() -> bool:
    """Whether a function is captured here: it may then not look at any array."""
    return ASSUMED.get() is not None


def assume(flag: Tensor) -> bool:
    """Whether ``flag``, one bool, is true. A capture takes it for true."""
    assumed = ASSUMED.get()
    if assumed is None:
        return bool(flag.item())
    assumed.append(flag)
    return True
