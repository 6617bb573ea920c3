"""Places in one block for results with known lifetimes.

The largest result comes first. Each gets the lowest offset where no other one is alive at the same
time. This is "greedy by size" of Pisarchyk and Lee, *Efficient Memory Management for Deep Neural
Net Inference*, 2020.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Interval(NamedTuple):
    """The steps from ``begin`` to ``end``, both included, during which ``nbytes`` are needed."""

    begin: int
    end: int
    nbytes: int


def assign_offsets(intervals: Mapping[K, Interval]) -> tuple[dict[K, int], int]:
    """The offset of each result, and the size of the block. Offsets are sums of the given sizes."""
    offsets: dict[K, int] = {}
    placed: list[tuple[int, int, Interval]] = []  # by offset
    order = sorted(intervals, key=lambda k: (-intervals[k].nbytes, intervals[k].begin))
    for key in order:
        mine = intervals[key]
        at = 0
        for begin, end, other in placed:
            if other.end < mine.begin or mine.end < other.begin:
                continue
            if begin - at >= mine.nbytes:
                break
            at = max(at, end)
        offsets[key] = at
        placed.append((at, at + mine.nbytes, mine))
        placed.sort(key=lambda place: place[:2])
    return offsets, max((end for _, end, _ in placed), default=0)
