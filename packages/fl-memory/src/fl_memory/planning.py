"""Offline packing of lifetimes: offsets in one slab such that blocks alive together do not overlap.

This is the dynamic storage allocation problem, which is NP-hard. ``pack`` runs greedy first fit in
several orders and keeps the lowest result. First fit by decreasing size is the usual choice of
memory planners (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
2020). No packing is lower than ``peak_live``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Lifetime", "Packing", "pack", "peak_live"]


class Lifetime(NamedTuple):
    """One block: it is alive at the moments ``begin <= t < end``.

    With ``end < begin`` it lives on into the next round of a program that repeats: it is alive at
    ``t >= begin`` and at ``t < end``.
    """

    begin: int
    end: int
    nbytes: int
    alignment: int = 64


class Packing(NamedTuple):
    """``offsets`` of the blocks in bytes, in the order of the lifetimes; ``height`` of the slab."""

    offsets: list[int]
    height: int


def peak_live(lifetimes: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at once: the lower bound of every packing."""
    live = sum(x.nbytes for x in lifetimes if x.end < x.begin)
    peak = live
    for index, begins in _events(lifetimes):
        live += lifetimes[index].nbytes if begins else -lifetimes[index].nbytes
        peak = max(peak, live)
    return peak


def pack(lifetimes: Sequence[Lifetime]) -> Packing:
    """The lowest packing that first fit finds in three orders. Cost: the number of pairs of blocks
    that are alive together, three times."""
    neighbours = _alive_together(lifetimes)
    bound = peak_live(lifetimes)
    best = Packing([0] * len(lifetimes), 0)
    for number, key in enumerate(_ORDERS):
        order = sorted(range(len(lifetimes)), key=lambda i: key(lifetimes[i]), reverse=True)
        made = _first_fit(lifetimes, order, neighbours)
        if not number or made.height < best.height:
            best = made
        if best.height <= bound:
            break
    return best


def _size(x: Lifetime) -> tuple[int, int]:
    return x.nbytes, -x.begin


def _area(x: Lifetime) -> tuple[int, int]:
    return x.nbytes * _duration(x), -x.begin


def _size_class(x: Lifetime) -> tuple[int, int]:
    # Among sizes up to the next power of two the longest first.
    return x.nbytes.bit_length(), _duration(x)


def _duration(x: Lifetime) -> int:
    # A lifetime that wraps counts as long: its place is contested at both ends of the round.
    return x.end - x.begin if x.end >= x.begin else 1 << 40


_ORDERS: tuple[Callable[[Lifetime], tuple[int, int]], ...] = (_size_class, _size, _area)


def _events(lifetimes: Sequence[Lifetime]) -> Iterator[tuple[int, bool]]:
    # (index, whether it begins), by time; at one moment ends come before beginnings.
    events = []
    for index, x in enumerate(lifetimes):
        if x.begin != x.end:
            events += [(x.begin, True, index), (x.end, False, index)]
    for _, begins, index in sorted(events):
        yield index, begins


def _alive_together(lifetimes: Sequence[Lifetime]) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in lifetimes]
    alive = {i for i, x in enumerate(lifetimes) if x.end < x.begin}
    for index in alive:
        found[index] |= alive
    for index, begins in _events(lifetimes):
        if begins:
            found[index] |= alive
            for other in alive:
                found[other].add(index)
            alive.add(index)
        else:
            alive.discard(index)
    for index, others in enumerate(found):
        others.discard(index)
    return found


def _first_fit(
    lifetimes: Sequence[Lifetime], order: Sequence[int], neighbours: Sequence[set[int]]
) -> Packing:
    offsets = [-1] * len(lifetimes)
    height = 0
    for index in order:
        _, _, size, alignment = lifetimes[index]
        taken = sorted(
            [
                (offsets[j], offsets[j] + lifetimes[j].nbytes)
                for j in neighbours[index]
                if offsets[j] >= 0
            ]
        )
        at = 0
        for begin, end in taken:
            if begin - at >= size:
                break
            at = max(at, (end + alignment - 1) & -alignment)
        offsets[index] = at
        height = max(height, at + size)
    return Packing(offsets, height)
