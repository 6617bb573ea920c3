"""The plan of ``planned``: the offsets of the requests of a step, and the slab that has them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeAlias

from fl_memory.planning import Lifetime, pack

__all__ = ["ROUNDING", "Key", "Plan", "Request", "Slab", "key_of"]

#: Sizes of blocks are multiples of this.
ROUNDING = 64
#: Of the slab. A page: so that a device that wants pages (pinned memory, files) need not round.
SLAB_ALIGNMENT = 4096

#: (bytes after rounding, alignment, stream): requests with equal keys are interchangeable.
Key: TypeAlias = tuple[int, int, Hashable]


def key_of(nbytes: int, alignment: int, stream: Hashable) -> Key:
    """What the requests of a plan are told apart by."""
    return (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING, max(alignment, ROUNDING), stream


class Request(NamedTuple):
    """One allocation of a program. ``begin`` and ``end`` are moments of any clock that counts up;
    ``end`` is None for a block that stays. ``end < begin``: freed in the next round."""

    nbytes: int
    alignment: int
    stream: Hashable
    begin: int
    end: int | None

    @property
    def key(self) -> Key:
        return key_of(self.nbytes, self.alignment, self.stream)


class Plan:
    """The offsets of a round of requests.

    offsets     by key; the k-th entry is for the k-th request of that key, None for a block that
                stays
    height      bytes of the slab
    alignment   of the slab
    repeats     whether ``mark("step", n)`` starts it again; else it is of a whole program
    """

    __slots__ = ("alignment", "height", "offsets", "repeats")

    def __init__(
        self,
        offsets: dict[Key, list[int | None]],
        height: int,
        alignment: int = SLAB_ALIGNMENT,
        repeats: bool = True,
    ) -> None:
        self.offsets = offsets
        self.height = height
        self.alignment = alignment
        self.repeats = repeats

    @classmethod
    def of(cls, requests: Iterable[Request], *, until: int | None = None) -> Plan:
        """The plan of one step, or, with the moment ``until`` at which it ends, of a whole program.
        Only then blocks that stay have offsets, too."""
        keys: list[Key] = []
        lifetimes: list[Lifetime | None] = []
        for request in requests:
            size, alignment, _ = key = request.key
            keys.append(key)
            end = until if request.end is None else request.end
            lifetimes.append(None if end is None else Lifetime(request.begin, end, size, alignment))
        planned = [x for x in lifetimes if x is not None]
        packing = pack(planned)
        places = iter(packing.offsets)
        offsets: dict[Key, list[int | None]] = {}
        for key, lifetime in zip(keys, lifetimes, strict=True):
            offsets.setdefault(key, []).append(None if lifetime is None else next(places))
        alignment = max([SLAB_ALIGNMENT, *(x.alignment for x in planned)])
        return cls(offsets, packing.height, alignment, repeats=until is None)


class Slab:
    """Device memory that a plan divides: which parts of it are lent."""

    def __init__(self, plan: Plan, address: int) -> None:
        self.plan = plan
        self.address = address
        self._begins: list[int] = []  # of lent parts, sorted
        self._ends: list[int] = []
        self.restart()

    @property
    def is_empty(self) -> bool:
        return not self._begins

    def restart(self) -> None:
        """A round begins: the first request of each key gets the first offset again."""
        self._next = dict.fromkeys(self.plan.offsets, 0)
        self.misses = 0  # requests that could not have their offset

    def take(self, key: Key) -> int | None:
        """The planned offset, if there is one for this request and nothing overlaps it."""
        turn = self._next.get(key)
        if turn is None:
            self.misses += 1
            return None
        offsets = self.plan.offsets[key]
        if turn == len(offsets):
            self.misses += 1
            return None
        self._next[key] = turn + 1
        begin = offsets[turn]
        if begin is None:
            return None
        end = begin + key[0]
        place = bisect_left(self._begins, begin)
        before_is_free = place == 0 or self._ends[place - 1] <= begin
        after_is_free = place == len(self._begins) or self._begins[place] >= end
        if not (before_is_free and after_is_free):
            self.misses += 1
            return None
        self._begins.insert(place, begin)
        self._ends.insert(place, end)
        return begin

    def give(self, offset: int) -> None:
        place = bisect_left(self._begins, offset)
        del self._begins[place], self._ends[place]
