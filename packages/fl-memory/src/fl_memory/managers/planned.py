"""``planned``: the requests of a step are packed once, and served from one slab from then on.

Training steps ask for the same sizes in the same order. ``mark("step", n)`` separates them; in a
program without such marks ``managers/repetition.py`` finds where its requests repeat. After two
equal steps ``planning.pack`` gives each request its offset in a slab. The k-th request of a
size then gets the k-th offset that was planned for that size.

A wrong plan costs memory, never data: an offset is lent only while no lent block overlaps it.
Requests that were not planned, and blocks that live longer than one round (weights, state of the
optimizer), come from a best-fit pool beside the slab.

A plan that was made from a recorded program (``Plan.of``) serves it from its first request on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence

from fl_memory.errors import OutOfMemoryError
from fl_memory.manager import SMALL_BYTES, DeviceMemory
from fl_memory.managers.plan import ROUNDING, Key, Plan, Request, Slab, key_of
from fl_memory.managers.pool import Chunk, Pool
from fl_memory.managers.pooled import PooledAccount, PooledManager
from fl_memory.managers.repetition import MOST_REQUESTS, Repetition

__all__ = ["Plan", "PlannedManager", "Request"]

#: Of the pools beside the slab. Small ones: a block that stays holds back its whole buffer, while
#: the blocks that shared it move to the slab.
BUFFER = 2 << 20


class SidePool(Pool):
    """Beside the slab. What stays (weights) must not hold back a large buffer that the slab makes
    superfluous: an empty one is lent only to requests of at least four fifths of it."""

    def __init__(self) -> None:
        super().__init__(min_split_remainder=ROUNDING, quick=False)

    def _best(self, size: int) -> Chunk | None:
        place = bisect_left(self._free_by_size, (size, 0))
        if place < len(self._free_by_size):
            found, address = self._free_by_size[place]
            chunk = self._free_by_address[address]
            is_empty = chunk.before is None and chunk.after is None
            if is_empty and found > BUFFER and 4 * found > 5 * size:
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

    __slots__ = ("before", "clock", "now", "pools", "repetition", "round", "round_ended", "slab")

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.pools: dict[Hashable, SidePool] = {}
        self.slab: Slab | None = None
        self.round = 0
        self.clock = 0
        self.now: list[_Entry] = []
        self.before: list[_Entry] = []
        #: Finds the steps of a program that does not mark them.
        self.repetition: Repetition | None = Repetition()
        self.round_ended = False

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

    def open_account(self, memory: DeviceMemory) -> PlannedAccount:
        return PlannedAccount(memory)

    def allocate_chunk(
        self, account: PlannedAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, tuple[Slab | Chunk | None, _Entry]]:
        key = key_of(nbytes, alignment, stream)
        if self.plan is not None and account.slab is None:
            self._take_slab(account, self.plan)
        if account.round_ended:
            account.round_ended = False
            self._begin_step(account)
        account.clock += 1
        entry = _Entry(key, account.clock, account.round)
        slab = account.slab
        if slab is not None:
            offset = slab.take(key)
            if offset is not None:
                self._record(account, entry)
                return slab.address + offset, key[0], (slab, entry)
        size = key[0]
        if key[1] > ROUNDING:
            address, size = self.device_allocate(account, size, key[1])
            self._record(account, entry)
            return address, size, (None, entry)
        pool = account.pools.get(stream)
        if pool is None:
            pool = account.pools[stream] = SidePool()
        account.requested_bytes += size
        chunk = pool.take(size)
        if chunk is None:
            chunk = self.add_buffer(account, pool, max(size, BUFFER), ROUNDING, size)
        self._record(account, entry)
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
            if place is not account.slab and place.is_empty:
                self.device_free(account, place.address, place.plan.height)
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
                    account.repetition, account.round_ended = None, False
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

    def _record(self, account: PlannedAccount, entry: _Entry) -> None:
        if self.plan is not None:
            return
        account.now.append(entry)
        if account.repetition is not None:
            account.round_ended = account.repetition.add(entry.key, account.used_bytes)
            if len(account.now) > MOST_REQUESTS:
                account.now.clear()  # it does not repeat

    def _plan_rounds(self, account: PlannedAccount, entries: Sequence[_Entry]) -> None:
        plan = Plan.of([_request(entry) for entry in entries])
        slab = account.slab
        if not plan.height:
            return
        if slab is not None and not slab.is_empty:
            if 2 * slab.plan.height > plan.height:
                return  # the next round finds the slab empty, or plans again
            account.slab = None  # it goes back with its last block
        self.trim(account)
        self._take_slab(account, plan)

    def _take_slab(self, account: PlannedAccount, plan: Plan) -> None:
        try:
            address, _ = self.device_allocate(account, plan.height or 1, plan.alignment)
        except OutOfMemoryError:
            return  # the pools may still do: they need no single piece of this size
        account.slab = Slab(plan, address)


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
