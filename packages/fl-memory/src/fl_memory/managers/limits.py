"""Limits of ``caching``: which large chunks are split, and which are lent again.

A program that frees a large block and then asks for many smaller ones cuts the large chunk to
pieces. When it asks for the large block again, no free chunk fits: external fragmentation. The
limits keep large chunks whole, at the price of internal fragmentation and of more memory held.

========================  =====================================================================
split_rule "request"      PyTorch's ``max_split_size_mb``: a request of the limit or more gets a
                          chunk whole, of at most 20 MiB too much. A smaller request gets no chunk
                          of the limit or more
split_rule "chunk"        Flashlight's: a chunk of the limit or more is lent whole, for any request
recycling_rule "hold"     Flashlight's: a free chunk of the limit or more is not lent again. It goes
                          back to the device when that refuses a request
recycling_rule "release"  a buffer of the limit or more goes back to the device when its block is
                          freed
========================  =====================================================================
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from typing import Literal, TypeAlias

from fl_memory.errors import AllocationError
from fl_memory.managers.pool import MAX_BUFFER, MIB, Chunk, Pool

__all__ = ["Limits", "RecyclingRule", "SplitRule"]

SplitRule: TypeAlias = Literal["request", "chunk"]
RecyclingRule: TypeAlias = Literal["hold", "release"]

#: Environment variables, in MiB, fractions allowed; for limits that are not given as arguments.
SPLIT_VARIABLE = "FL_MEM_SPLIT_SIZE_MB"
RECYCLING_VARIABLE = "FL_MEM_RECYCLING_SIZE_MB"


class Limits:
    """Both limits, in bytes; infinite where there is none.

    Raises AllocationError for a split limit of at most 20 MiB, the largest buffer that blocks
    share, for a recycling limit below that, and for an unknown rule.
    """

    __slots__ = ("held_chunk", "released_buffer", "whole_chunk", "whole_request")

    def __init__(
        self,
        split_limit: int | None = None,
        split_rule: SplitRule = "request",
        recycling_limit: int | None = None,
        recycling_rule: RecyclingRule = "hold",
    ) -> None:
        if split_rule not in ("request", "chunk"):
            raise AllocationError(f"split_rule={split_rule!r}: one of 'request', 'chunk'")
        if recycling_rule not in ("hold", "release"):
            raise AllocationError(f"recycling_rule={recycling_rule!r}: one of 'hold', 'release'")
        split = _checked("split_limit", split_limit, SPLIT_VARIABLE, MAX_BUFFER + 1)
        recycling = _checked("recycling_limit", recycling_limit, RECYCLING_VARIABLE, MAX_BUFFER)
        #: Requests that get a chunk whole.
        self.whole_request = split if split_rule == "request" else math.inf
        #: Chunks that are lent whole.
        self.whole_chunk = split if split_rule == "chunk" else math.inf
        #: Free chunks that are not lent.
        self.held_chunk = recycling if recycling_rule == "hold" else math.inf
        #: Buffers that the device gets back at once.
        self.released_buffer = recycling if recycling_rule == "release" else math.inf

    @property
    def are_set(self) -> bool:
        """Whether any limit is finite."""
        return any(getattr(self, name) != math.inf for name in self.__slots__)


class LimitedPool(Pool):
    """A pool that obeys ``limits``."""

    def __init__(self, min_split_remainder: int, limits: Limits) -> None:
        super().__init__(min_split_remainder, quick=False)
        self.limits = limits

    def give(self, chunk: Chunk) -> None:
        if chunk.size >= self.limits.held_chunk:
            self._merge(chunk)  # now: a chunk that waits for that is lent to the next request
        else:
            super().give(chunk)

    def _best(self, size: int) -> Chunk | None:
        limits = self.limits
        place = bisect_left(self._free_by_size, (size, 0))
        if place < len(self._free_by_size):
            found = self._free_by_size[place][0]
            if found >= limits.held_chunk:
                return None
            whole = limits.whole_request
            if found >= whole and (size < whole or found >= size + MAX_BUFFER):
                return None
        return super()._best(size)

    def _split(self, chunk: Chunk, size: int) -> Chunk:
        if chunk.size >= self.limits.whole_chunk or size >= self.limits.whole_request:
            return chunk
        return super()._split(chunk, size)


def _checked(name: str, given: int | None, variable: str, least: int) -> float:
    where, limit = f"{name}={given!r}", given
    if given is None:
        text = os.environ.get(variable)
        if not text:
            return math.inf
        where = f"{variable}={text!r}"
        try:
            limit = int(float(text) * MIB)
        except (ValueError, OverflowError):
            raise AllocationError(f"{where}: expected a number of MiB, such as 64") from None
    if type(limit) is not int:
        raise AllocationError(f"{where}: expected a number of bytes")
    if limit < least:
        raise AllocationError(
            f"{where}: a limit of {limit} bytes is too small, give at least {least}; buffers of up "
            f"to {MAX_BUFFER} bytes are shared by blocks of several sizes"
        )
    return limit
