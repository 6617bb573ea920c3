"""``planned``: the requests of a step are packed once, and served from one slab from then on.

Training steps ask for the same sizes in the same order. ``mark("step", n)`` separates them. After
two equal steps ``planning.pack`` gives each request its offset in a slab. The k-th request of a
size then gets the k-th offset that was planned for that size.

A wrong plan costs memory, never data: an offset is lent only while no lent block overlaps it.
Requests that were not planned, and blocks that live longer than one round (weights, state of the
optimizer), come from a best-fit pool beside the slab.

A plan that was made from a recorded program (``Plan.of``) serves it from its first request on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from fl_memory.errors import OutOfMemoryError
from fl_memory.manager import SMALL_BYTES, DeviceMemory
from fl_memory.managers.pool import Chunk, Pool
from fl_memory.managers.pooled import PooledAccount, PooledManager
from fl_memory.planning import Lifetime, pack

__all__ = ["Plan", "PlannedManager", "Request"]

ROUNDING = 64
#: Of the pools beside the slab. Small ones: a block that stays holds back its whole buffer, while
#: the blocks that shared it move to the slab.
BUFFER = 2 << 20
#: Of the slab. A page: so that a device that wants pages (pinned memory, files) need not round.
SLAB_ALIGNMENT = 4096

#: (bytes after rounding, alignment, stream): requests with equal keys are interchangeable.
Key: TypeAlias = tuple[int, int, Hashable]


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
        return _key(self.nbytes, self.alignment, self.stream)


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


class SidePool(Pool):
    """What stays (weights) must not hold back a large buffer that the slab makes superfluous. So an
    empty buffer is divided only for a request of at least half of it."""

    def __init__(self) -> None:
        super().__init__(min_split_remainder=ROUNDING, quick=False)

    def _best(self, size: int) -> Chunk | None:
        place = bisect_left(self._free_by_size, (size, 0))
        if place < len(self._free_by_size):
            found, address = self._free_by_size[place]
            chunk = self._free_by_address[address]
            is_empty = chunk.before is None and chunk.after is None
            if found > BUFFER and found > 2 * size and is_empty:
                return None
        return super()._best(size)


class _Entry:
    """A request of the current round, or of the one before."""

    __slots__ = ("begin", "end", "key", "round")

    def __init__(self, key: Key, begin: int, number: int) -> None:
        self.key = key
        self.begin = begin
        self.end: tuple[int, int] | None = None  # (round, moment)
        self.round = number


class PlannedAccount(PooledAccount):
    """One device: the slab, the pools beside it, and what was asked for in the last two rounds."""

    __slots__ = ("before", "clock", "lengths", "now", "pools", "round", "slab")

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.pools: dict[Hashable, SidePool] = {}
        self.slab: Slab | None = None
        self.round = 0
        self.clock = 0
        self.now: list[_Entry] = []
        self.before: list[_Entry] = []

    def all_pools(self) -> Iterator[Pool]:
        yield from self.pools.values()


class PlannedManager(PooledManager[PlannedAccount]):
    """Serve repeated steps from one slab. ``plan``: of the whole program, made beforehand."""

    CONTRACT = (1, 0)
    name = "planned"

    def __init__(
        self,
        *memories: DeviceMemory,
        plan: Plan | None = None,
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        self.plan = plan
        super().__init__(*memories, small_bytes=small_bytes)

    def open(self, memory: DeviceMemory) -> PlannedAccount:
        return PlannedAccount(memory)

    def allocate_chunk(
        self, account: PlannedAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, tuple[Slab | Chunk | None, _Entry]]:
        key = _key(nbytes, alignment, stream)
        if self.plan is not None and account.slab is None:
            self._take_slab(account, self.plan)
        account.clock += 1
        entry = _Entry(key, account.clock, account.round)
        slab = account.slab
        if slab is not None:
            offset = slab.take(key)
            if offset is not None:
                account.now.append(entry)
                return slab.address + offset, key[0], (slab, entry)
        size = key[0]
        if key[1] > ROUNDING:
            address, size = self.device_allocate(account, size, key[1])
            account.now.append(entry)
            return address, size, (None, entry)
        pool = account.pools.get(stream)
        if pool is None:
            pool = account.pools[stream] = SidePool()
        account.requested_bytes += size
        chunk = pool.take(size)
        if chunk is None:
            chunk = self.add_buffer(account, pool, max(size, BUFFER), ROUNDING, size)
        account.now.append(entry)
        return chunk.address, chunk.size, (chunk, entry)

    def free_chunk(
        self,
        account: PlannedAccount,
        address: int,
        capacity: int,
        handle: tuple[Slab | Chunk | None, _Entry],
    ) -> None:
        place, entry = handle
        account.clock += 1
        entry.end = account.round, account.clock
        if isinstance(place, Slab):
            place.give(address - place.address)
        elif place is None:
            self.device_free(account, address, capacity)
        else:
            place.pool.give(place)

    def trim(self, account: PlannedAccount) -> int:
        released = super().trim(account)
        slab = account.slab
        if slab is not None and slab.is_empty:
            account.slab = None
            self.device_free(account, slab.address, slab.plan.height)
            released += slab.plan.height
        return released

    def mark(self, name: str, number: int = 0) -> None:
        """("step", n) begins a step: it is planned if the two steps before were equal."""
        super().mark(name, number)
        if name == "step":
            with self.locked() as accounts:
                for account in list(accounts.values()):
                    self._begin_step(account)

    def _begin_step(self, account: PlannedAccount) -> None:
        if self.plan is not None:
            if self.plan.repeats and account.slab is not None:
                account.slab.restart()
            return
        rounds = account.before, account.now
        account.round += 1
        account.before, account.now, account.clock = account.now, [], 0
        slab = account.slab
        if slab is not None:
            is_right = not slab.misses
            slab.restart()
            if is_right:
                super().trim(account)
                return
        if _is_repeated(*rounds):
            self._plan_rounds(account, rounds[0])

    # ------------------------------------------------------------------ inside

    def _plan_rounds(self, account: PlannedAccount, entries: Sequence[_Entry]) -> None:
        plan = Plan.of([_request(entry) for entry in entries])
        if not plan.height or (account.slab is not None and not account.slab.is_empty):
            return  # the next round finds the slab empty, or plans again
        self.trim(account)
        self._take_slab(account, plan)

    def _take_slab(self, account: PlannedAccount, plan: Plan) -> None:
        try:
            address, _ = self.device_allocate(account, plan.height or 1, plan.alignment)
        except OutOfMemoryError:
            return  # the pools may still do: they need no single piece of this size
        account.slab = Slab(plan, address)


def _key(nbytes: int, alignment: int, stream: Hashable) -> Key:
    return (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING, max(alignment, ROUNDING), stream


def _is_repeated(before: Sequence[_Entry], now: Sequence[_Entry]) -> bool:
    # The frees of ``now`` are not all known yet: only requests are compared.
    return bool(now) and [x.key for x in before] == [x.key for x in now]


def _request(entry: _Entry) -> Request:
    size, alignment, stream = entry.key
    end: int | None = None
    if entry.end is not None:
        rounds, moment = entry.end[0] - entry.round, entry.end[1]
        # Freed in its own round, or before the same request comes again in the next one.
        if rounds == 0 or (rounds == 1 and moment < entry.begin):
            end = moment
    return Request(size, alignment, stream, entry.begin, end)
