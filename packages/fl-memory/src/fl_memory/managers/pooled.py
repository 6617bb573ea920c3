"""The base of managers that cut chunks from pools of native buffers.

A program whose sizes change from step to step frees buffers that are too small for what it asks
next. If each request took a new buffer beside them, the program would hold several times of what it
uses. So before a new buffer is taken, empty ones go back to the device, if otherwise more were
reserved than ever before, and an eighth more than was ever used.

Returning a buffer and taking another one costs time: the system clears its pages, and a device may
wait for its streams. So this ends when an eighth of the requested bytes, and the peak of the used
ones, have gone back. A program with equal steps ends with buffers for all its requests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeVar

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.manager import DeviceMemory
from fl_memory.managers.pool import MIB, Chunk, Pool

#: Reserved beyond the peak of used bytes: this share of it, and at least so many bytes.
SLACK_SHARE, MIN_SLACK = 8, 2 * MIB
#: Of the requested bytes, what goes back for new buffers at most.
TRIM_SHARE = 8


class PooledAccount(Account):
    """One device, and its pools."""

    __slots__ = ("requested_bytes", "trimmed_bytes")

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        #: Of all requests that searched a pool.
        self.requested_bytes = 0
        #: What went back to the device for new buffers.
        self.trimmed_bytes = 0

    def all_pools(self) -> Iterator[Pool]:
        """The pools of all streams. A derived class writes it."""
        raise NotImplementedError

    def largest_free_chunk(self) -> int:
        return max((pool.largest_free_chunk() for pool in self.all_pools()), default=0)


AnyPooledAccount = TypeVar("AnyPooledAccount", bound=PooledAccount)


class PooledManager(AccountingManager[AnyPooledAccount]):
    """Buffers of pools are taken here, and go back here."""

    #: Empty buffers from this size on go back in ``trim`` only.
    held_buffer: float = math.inf

    def add_buffer(
        self, account: AnyPooledAccount, pool: Pool, nbytes: int, alignment: int, size: int
    ) -> Chunk:
        """A new buffer of ``nbytes``, or of ``size`` if the device refuses; the chunk of ``size``
        bytes at its beginning. Raises OutOfMemoryError."""
        self._trim_for(account, nbytes, size)
        address, got = self.device_allocate(account, nbytes, alignment, min_bytes=size)
        return pool.add(address, got, size)

    def trim(self, account: AnyPooledAccount) -> int:
        """Return empty buffers to the device. Free chunks of the others keep their addresses, and
        the system takes their pages."""
        pools = list(account.all_pools())
        returned = sum(
            self._remove_buffer(account, pool, address, nbytes)
            for pool in pools
            for address, nbytes in pool.empty_buffers()
        )
        for pool in pools:
            for address, nbytes in pool.free_chunks(MIB):
                account.memory.advise(address, nbytes, "free")
        return returned

    def _trim_for(self, account: AnyPooledAccount, nbytes: int, size: int) -> None:
        used = max(account.peak_used_bytes, account.used_bytes + size)
        bound = max(account.peak_reserved_bytes, used + max(used // SLACK_SHARE, MIN_SLACK))
        excess = account.reserved_bytes + nbytes - bound
        allowed = account.requested_bytes // TRIM_SHARE + account.peak_used_bytes
        if excess <= 0 or account.trimmed_bytes >= allowed:
            return
        empty = [
            (buffer, address, pool)
            for pool in account.all_pools()
            for address, buffer in pool.empty_buffers()
            if buffer < self.held_buffer
        ]
        empty.sort(key=lambda found: found[:2])
        while empty and excess > 0 and account.trimmed_bytes < allowed:
            buffer, address, pool = empty.pop()  # the largest: few calls
            self._remove_buffer(account, pool, address, buffer)
            account.trimmed_bytes += buffer
            excess -= buffer

    def _remove_buffer(
        self, account: AnyPooledAccount, pool: Pool, address: int, nbytes: int
    ) -> int:
        pool.remove_buffer(address)
        self.device_free(account, address, nbytes)
        return nbytes
