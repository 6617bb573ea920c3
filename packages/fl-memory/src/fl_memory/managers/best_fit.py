"""``best_fit``: one pool for all sizes, without size classes.

Requests are rounded to 64 bytes. The smallest free chunk that fits is split, however small the
rest. Small and large blocks share buffers, which suits programs of changing sizes better than the
two pools of ``caching``, and costs more time per request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.manager import DeviceMemory
from fl_memory.managers.pool import Chunk, Pool, buffer_size
from fl_memory.managers.pooled import PooledAccount, PooledManager

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

__all__ = ["BestFitManager"]

ROUNDING = 64


class BestFitAccount(PooledAccount):
    """One device: a pool per stream."""

    __slots__ = ("pools",)

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.pools: dict[Hashable, Pool] = {}

    def all_pools(self) -> Iterator[Pool]:
        yield from self.pools.values()


class BestFitManager(PooledManager[BestFitAccount]):
    """Best fit with coalescing in one pool per stream."""

    CONTRACT = (1, 0)
    name = "best_fit"

    def open_account(self, memory: DeviceMemory) -> BestFitAccount:
        return BestFitAccount(memory)

    def allocate_chunk(
        self, account: BestFitAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Chunk | None]:
        size = (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING
        if alignment > ROUNDING:  # rare: served by the device, not cached
            return *self.device_allocate(account, size, alignment), None
        pool = account.pools.get(stream)
        if pool is None:
            pool = account.pools[stream] = Pool(min_split_remainder=ROUNDING, quick=False)
        account.requested_bytes += size
        chunk = pool.take(size)
        if chunk is None:
            buffer = buffer_size(size, account.reserved_bytes)
            chunk = self.add_buffer(account, pool, buffer, ROUNDING, size)
        return chunk.address, chunk.size, chunk

    def free_chunk(
        self, account: BestFitAccount, address: int, capacity: int, handle: Chunk | None
    ) -> None:
        if handle is None:
            self.device_free(account, address, capacity)
        else:
            handle.pool.give(handle)
