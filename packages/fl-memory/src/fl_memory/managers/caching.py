"""``caching``, the default manager: device memory is cached, split and reused.

Sizes are rounded to 512 bytes. Requests up to 1 MiB are cut from buffers of up to 2 MiB (small
pool), requests below 10 MiB from buffers of up to 20 MiB, which grow with the program. Larger ones
get buffers of their own size rounded up to 2 MiB (large pool). Both pools search best fit, split
what is too large and coalesce neighbours (``managers/pool.py``). Empty buffers go back before new
ones are taken (``managers/pooled.py``). Each stream of each device has pools of its own, so that
memory returns to the stream whose work used it last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.manager import SMALL_BYTES, DeviceMemory
from fl_memory.managers.limits import LimitedPool, Limits, RecyclingRule, SplitRule
from fl_memory.managers.pool import MAX_BUFFER, MIB, Chunk, Pool, buffer_size
from fl_memory.managers.pooled import PooledAccount, PooledManager

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

__all__ = ["CachingManager"]

ROUNDING = 512
SMALL_REQUEST, SMALL_BUFFER = 1 * MIB, 2 * MIB
MEDIUM_REQUEST = 10 * MIB
LARGE_ROUNDING = 2 * MIB


class StreamPools:
    """The two pools of one stream."""

    __slots__ = ("large", "small")

    def __init__(self, limits: Limits) -> None:
        self.small = Pool(min_split_remainder=ROUNDING, quick=True)
        self.large = LimitedPool(min_split_remainder=SMALL_REQUEST, limits=limits)


class CachingAccount(PooledAccount):
    """One device: two pools per stream."""

    __slots__ = ("pools_by_stream",)

    def __init__(self, memory: DeviceMemory, limits: Limits) -> None:
        super().__init__(memory)
        self.pools_by_stream: dict[Hashable, StreamPools] = {None: StreamPools(limits)}

    def all_pools(self) -> Iterator[Pool]:
        for pools in self.pools_by_stream.values():
            yield pools.small
            yield pools.large


class CachingManager(PooledManager[CachingAccount]):
    """Best fit with splitting and coalescing over small and large pools.

    split_limit      bytes from which chunks are kept whole; None: FL_MEM_SPLIT_SIZE_MB, else none
    split_rule       whose size counts: that of the "request" (PyTorch) or the "chunk" (Flashlight)
    recycling_limit  bytes from which free chunks are not lent again; None:
                     FL_MEM_RECYCLING_SIZE_MB, else none
    recycling_rule   "hold": until the device refuses a request; "release": they return to it

    ``managers/limits.py`` explains the rules and the errors.
    """

    CONTRACT = (1, 0)
    name = "caching"

    def __init__(
        self,
        *memories: DeviceMemory,
        split_limit: int | None = None,
        split_rule: SplitRule = "request",
        recycling_limit: int | None = None,
        recycling_rule: RecyclingRule = "hold",
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        self.limits = Limits(split_limit, split_rule, recycling_limit, recycling_rule)
        self.held_buffer = self.limits.held_chunk
        super().__init__(*memories, small_bytes=small_bytes)

    def open_account(self, memory: DeviceMemory) -> CachingAccount:
        return CachingAccount(memory, self.limits)

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
            pools = pools_by_stream[stream] = StreamPools(self.limits)
        if size <= SMALL_REQUEST:
            pool = pools.small
            waiting = pool.bins.get(size)
            if waiting:
                chunk = waiting.pop()
                return chunk.address, size, chunk
            most = SMALL_BUFFER
        else:
            pool = pools.large
            most = MAX_BUFFER
        account.requested_bytes += size
        found = pool.take(size)
        if found is None:
            if size < MEDIUM_REQUEST:
                buffer = buffer_size(size, account.reserved_bytes, most)
            else:
                buffer = (size + LARGE_ROUNDING - 1) & -LARGE_ROUNDING
            found = self.add_buffer(account, pool, buffer, ROUNDING, size)
        return found.address, found.size, found

    def free_chunk(
        self, account: CachingAccount, address: int, capacity: int, handle: Chunk | None
    ) -> None:
        if handle is None or (
            capacity >= self.limits.released_buffer and handle.before is handle.after is None
        ):
            self.device_free(account, address, capacity)
        else:
            handle.pool.give(handle)

    def preallocate(self, account: CachingAccount, nbytes: int, stream: Hashable) -> int:
        # With a limit, a chunk of this size would be lent whole, or to nobody.
        if self.limits.are_set or not account.memory.lazy_commit:
            return 0
        size = (nbytes + LARGE_ROUNDING - 1) & -LARGE_ROUNDING
        if account.reserved_bytes - account.used_bytes >= size:
            return 0
        address, got = self.device_allocate(account, size, ROUNDING)
        pool = account.pools_by_stream.setdefault(stream, StreamPools(self.limits)).large
        pool.give(pool.add(address, got, got))
        return got
