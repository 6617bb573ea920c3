"""Errors of communication. Each is an FlError and the nearest ordinary Python error, and pickles.

Ranks in messages are those of the world that was launched, also for its groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fl_memory.errors import FlError as FlError
from fl_tensor.errors import ArgumentError as ArgumentError
from fl_tensor.errors import DTypeError as DTypeError

__all__ = [
    "ArgumentError",
    "DTypeError",
    "DistError",
    "DistTimeoutError",
    "FlError",
    "MismatchError",
    "PeerError",
    "ProgramError",
    "one_line",
]


class DistError(FlError, RuntimeError):
    """A communicator cannot do what was asked."""


class DistTimeoutError(FlError, TimeoutError):
    """The other ranks did not do their part in time."""


class PeerError(DistError):
    """Another rank is gone: its program failed or ended, or its connection broke.

    rank   the rank that is gone (numbered as in the world that was launched)
    cause  one line on why, such as ``"ValueError: bad sample"``
    """

    def __init__(self, where: str, rank: int, cause: str) -> None:
        super().__init__(f"{where}: rank {rank} is gone ({cause})")
        self.where = where
        self.rank = rank
        self.cause = cause

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.rank, self.cause), _notes(self)


class MismatchError(DistError):
    """The ranks did not call the same thing; every rank gets this error.

    calls  one line per rank: what it did
    """

    def __init__(self, where: str, calls: Sequence[str]) -> None:
        lines = "".join(
            f"\n  rank {rank}: {text}" for rank, text in enumerate(_from_difference(calls))
        )
        super().__init__(
            f"{where}: the ranks disagree{lines}\n"
            "every rank must make the same calls in the same order, with equal shapes and dtypes"
        )
        self.where = where
        self.calls = tuple(calls)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.calls), _notes(self)


class ProgramError(DistError):
    """A launched program raised. ``__cause__`` is the exception of the rank that failed first.

    rank    the rank that failed first
    errors  the exception of every rank that raised, mostly PeerErrors about that rank
    """

    def __init__(self, rank: int, errors: Mapping[int, BaseException], world_size: int) -> None:
        first = errors[rank]
        others = sorted(set(errors) - {rank})
        also = f" (then also failed: {', '.join(map(str, others))})" if others else ""
        super().__init__(f"rank {rank} of {world_size} failed: {one_line(first)}{also}")
        self.rank = rank
        self.errors = dict(errors)
        self.world_size = world_size
        self.__cause__ = first

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rank, self.errors, self.world_size), _notes(self)


def one_line(error: BaseException) -> str:
    """``ValueError: bad sample``: the type and the first line of the message."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _notes(error: BaseException) -> dict[str, Any]:
    """What others have attached to an exception, ``add_note`` among it."""
    return dict(vars(error))


def _from_difference(texts: Sequence[str], keep: int = 48, limit: int = 160) -> list[str]:
    """Long texts cut so that the place where they first differ is visible."""
    if max(map(len, texts), default=0) <= limit:
        return list(texts)
    shortest = min(map(len, texts))
    same = next((i for i in range(shortest) if len({t[i] for t in texts}) > 1), shortest)
    cut = []
    for text in texts:
        head, tail = text[:keep], text[max(keep, same - keep) : same + limit - keep]
        gap = " ... " if same > 2 * keep else ""
        end = " ..." if len(text) > same + limit - keep else ""
        cut.append(head + gap + tail + end)
    return cut
