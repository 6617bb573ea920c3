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

__all__ = ["CachingManager"]

ROUNDING = 512
MIB = 1 << 20
SMALL_REQUEST, SMALL_BUFFER = 1 * MIB, 2 * MIB
MEDIUM_REQUEST, MEDIUM_BUFFER = 10 * MIB, 20 * MIB
LARGE_ROUNDING = 2 * MIB


class StreamPools:
    """The two pools of one stream."""

    __slots__ = ("large", "small")

    def __init__(self) -> None:
        self.small = Pool(min_split_remainder=ROUNDING, quick=True)
        self.large = Pool(min_split_remainder=SMALL_REQUEST, quick=False)


class CachingAccount(Account):
    """One device: two pools per stream."""

    __slots__ = ("pools_by_stream",)

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.pools_by_stream: dict[Hashable, StreamPools] = {None: StreamPools()}


class CachingManager(AccountingManager[CachingAccount]):
    """Best fit with splitting and coalescing over small and large pools."""

    CONTRACT = (1, 0)
    name = "caching"

    def open(self, memory: DeviceMemory) -> CachingAccount:
        return CachingAccount(memory)

    def reserve(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        size = (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING
        if alignment > ROUNDING:  # rare: served by the device, not cached
            address, size = self.obtain(account, size, alignment)
            return address, size, None
        pools_by_stream = account.pools_by_stream
        try:
            pools = pools_by_stream[stream]
        except KeyError:
            pools = pools_by_stream[stream] = StreamPools()
        if size <= SMALL_REQUEST:
            pool = pools.small
            waiting = pool.bins.get(size)
            if waiting:
                chunk = waiting.pop()
                return chunk.address, size, chunk
            buffer = SMALL_BUFFER
        else:
            pool = pools.large
            if size < MEDIUM_REQUEST:
                buffer = MEDIUM_BUFFER
            else:
                buffer = (size + LARGE_ROUNDING - 1) & -LARGE_ROUNDING
        found = pool.take(size)
        if found is None:
            address, got = self.obtain(account, buffer, ROUNDING, least=size)
            found = pool.add(address, got, size)
        return found.address, found.size, found

    def recycle(
        self, account: CachingAccount, address: int, capacity: int, lease: Chunk | None
    ) -> None:
        if lease is None:
            self.surrender(account, address, capacity)
        else:
            lease.pool.give(lease)

    def preallocate(self, nbytes: int, *, device: str = "cpu", stream: Hashable = None) -> int:
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
        size = (nbytes + LARGE_ROUNDING - 1) & -LARGE_ROUNDING
        with self._lock:
            if self._busy:  # asked by a finaliser in the middle of a step
                return 0
            self._busy = True
            try:
                self._apply_pending()
                if account.reserved_bytes - account.used_bytes >= size:
                    return 0
                address, got = self.obtain(account, size, ROUNDING)
                pool = account.pools_by_stream.setdefault(stream, StreamPools()).large
                pool.give(pool.add(address, got, got))
            except OutOfMemoryError:
                return 0
            finally:
                self._busy = False
            if self._undelivered:
                self._notify_observers()
        return got

    def trim(self, account: CachingAccount) -> int:
        released = 0
        for pools in account.pools_by_stream.values():
            for pool in (pools.small, pools.large):
                for address, size in pool.remove_empty_buffers():
                    self.surrender(account, address, size)
                    released += size
        return released
