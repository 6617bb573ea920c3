"""Tags: what a block is for, in words that backends, layers and managers share.

A tag may be any object. These strings are those that this library passes itself:

    block = manager.alloc(nbytes, tag=tags.SCRATCH)     # who knows the purpose says it
    with tags.tagged(tags.GRADIENT):                    # else the layer above says it
        loss.backward()

A backend passes ``current_tag()`` with the memory of a result.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "BATCH", "CURRENT", "GRADIENT", "PARAMETER", "RESULT", "SCRATCH", "STATE", "TAGS",
    "current_tag", "tagged",
]  # fmt: skip

#: The value of a parameter, as it is initialised.
PARAMETER = "parameter"
#: What the step of an optimizer makes: new values of parameters, momenta, averages.
STATE = "state"
#: A gradient, with the intermediate values of the backward pass.
GRADIENT = "gradient"
#: The result of an operation, if nobody says more.
RESULT = "result"
#: Memory that an operation needs while it runs.
SCRATCH = "scratch"
#: Samples that were put together to a batch.
BATCH = "batch"

TAGS = (PARAMETER, STATE, GRADIENT, RESULT, SCRATCH, BATCH)

#: The tag that this context gives to results.
CURRENT: ContextVar[object] = ContextVar("fl_memory_tag", default=RESULT)


def current_tag() -> object:
    """The tag that this context gives to results: RESULT outside any ``tagged``."""
    return CURRENT.get()


class tagged:
    """Within ``with tagged(tag):`` the results of this context have this tag."""

    __slots__ = ("_tag", "_token")

    def __init__(self, tag: object) -> None:
        self._tag = tag

    def __enter__(self) -> None:
        self._token: Token[object] = CURRENT.set(self._tag)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        CURRENT.reset(self._token)
