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

    def largest_free_chunk(self) -> int:
        pools = [p for s in self.pools_by_stream.values() for p in (s.small, s.large)]
        return max(pool.largest_free_chunk() for pool in pools)


class CachingManager(AccountingManager[CachingAccount]):
    """Best fit with splitting and coalescing over small and large pools."""

    CONTRACT = (1, 0)
    name = "caching"

    def open(self, memory: DeviceMemory) -> CachingAccount:
        return CachingAccount(memory)

    def allocate_chunk(
        self, account: CachingAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        size = (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING
        if alignment > ROUNDING:  # rare: served by the device, not cached
            address, size = self.device_allocate(account, size, alignment)
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
            address, got = self.device_allocate(account, buffer, ROUNDING, least=size)
            found = pool.add(address, got, size)
        return found.address, found.size, found

    def free_chunk(
        self, account: CachingAccount, address: int, capacity: int, handle: Chunk | None
    ) -> None:
        if handle is None:
            self.device_free(account, address, capacity)
        else:
            handle.pool.give(handle)

    def preallocate(self, account: CachingAccount, nbytes: int, stream: Hashable) -> int:
        size = (nbytes + LARGE_ROUNDING - 1) & -LARGE_ROUNDING
        if account.reserved_bytes - account.used_bytes >= size:
            return 0
        address, got = self.device_allocate(account, size, ROUNDING)
        pool = account.pools_by_stream.setdefault(stream, StreamPools()).large
        pool.give(pool.add(address, got, got))
        return got

    def trim(self, account: CachingAccount) -> int:
        released = 0
        for pools in account.pools_by_stream.values():
            for pool in (pools.small, pools.large):
                for address, size in pool.remove_empty_buffers():
                    self.device_free(account, address, size)
                    released += size
        return released
