"""``caching``, the default manager: device memory is cached, split and reused.

Sizes are rounded to 512 bytes. Requests up to 1 MiB are cut from buffers of 2 MiB (small pool);
requests below 10 MiB from buffers of 20 MiB, larger ones from buffers of their own size rounded up
to 2 MiB (large pool). Both pools search best fit, split what is too large and coalesce neighbours
(``managers/pool.py``). Each stream of each device has pools of its own, so that memory returns to
the stream whose work used it last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.errors import OutOfMemoryError
from fl_memory.manager import DeviceMemory
from fl_memory.managers.pool import Chunk, Pool

if TYPE_CHECKING:
    from collections.abc import Hashable

GRAIN = 512
MIB = 1 << 20
SMALL_REQUEST, SMALL_BUFFER = 1 * MIB, 2 * MIB
MEDIUM_REQUEST, MEDIUM_BUFFER = 10 * MIB, 20 * MIB
LARGE_GRAIN = 2 * MIB


class Lane:
    """The two pools of one stream."""

    __slots__ = ("large", "small")

    def __init__(self) -> None:
        self.small = Pool(least_rest=GRAIN, quick=True)
        self.large = Pool(least_rest=SMALL_REQUEST, quick=False)


class CachingAccount(Account):
    """One device: a lane per stream."""

    __slots__ = ("lanes",)

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.lanes: dict[Hashable, Lane] = {None: Lane()}


class CachingManager(AccountingManager[CachingAccount]):
    """Best fit with splitting and coalescing over small and large pools."""

    CONTRACT = (1, 0)
    name = "caching"

    def open(self, memory: DeviceMemory) -> CachingAccount:
        return CachingAccount(memory)

    def reserve(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        size = (nbytes + GRAIN - 1) & -GRAIN or GRAIN
        if alignment > GRAIN:  # rare: served by the device, not cached
            address, size = self.obtain(account, size, alignment)
            return address, size, None
        lanes = account.lanes
        try:
            lane = lanes[stream]
        except KeyError:
            lane = lanes[stream] = Lane()
        if size <= SMALL_REQUEST:
            pool = lane.small
            waiting = pool.bins.get(size)
            if waiting:
                chunk = waiting.pop()
                return chunk.address, size, chunk
            buffer = SMALL_BUFFER
        else:
            pool = lane.large
            if size < MEDIUM_REQUEST:
                buffer = MEDIUM_BUFFER
            else:
                buffer = (size + LARGE_GRAIN - 1) & -LARGE_GRAIN
        found = pool.take(size)
        if found is None:
            address, got = self.obtain(account, buffer, GRAIN, least=size)
            found = pool.add(address, got, size)
        return found.address, found.size, found

    def recycle(
        self, account: CachingAccount, address: int, capacity: int, lease: Chunk | None
    ) -> None:
        if lease is None:
            self.surrender(account, address, capacity)
        else:
            lease.pool.give(lease)

    def stock(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
        """Take ``nbytes`` from the device in one piece, for blocks to be cut from later, unless as
        much is cached; the bytes taken. Who knows how much a computation needs at once spares it
        the buffers, each of the size of one block, that would be taken one after another. No block
        is lent, so that of all figures only those of the device change. A device that refuses is no
        error: memory is then taken as it is needed.
        """
        try:
            account = self._accounts[device]
        except KeyError:
            account = self._account(device)
        size = (nbytes + LARGE_GRAIN - 1) & -LARGE_GRAIN
        with self._lock:
            if self._busy:  # asked by a finaliser in the middle of a step
                return 0
            self._busy = True
            try:
                self._post()
                if account.reserved_bytes - account.used_bytes >= size:
                    return 0
                address, got = self.obtain(account, size, GRAIN)
                pool = account.lanes.setdefault(stream, Lane()).large
                pool.give(pool.add(address, got, got))
            except OutOfMemoryError:
                return 0
            finally:
                self._busy = False
            if self._journal:
                self._deliver()
        return got

    def trim(self, account: CachingAccount) -> int:
        released = 0
        for lane in account.lanes.values():
            for pool in (lane.small, lane.large):
                for address, size in pool.buffers_without_tenant():
                    self.surrender(account, address, size)
                    released += size
        return released
