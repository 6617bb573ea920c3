"""``exact``: freed blocks wait in lists of their exact size, and serve requests of that size only.

This is the default manager of the original (ArrayFire's). Sizes are rounded to 1024 bytes. Memory
is garbage collected, that is all lists are emptied, when the live bytes or the number of buffers
reach a maximum. Nothing is split or merged, so programs of changing sizes hold much more than
they use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.errors import AllocationError
from fl_memory.manager import SMALL_BYTES, DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["ExactManager"]

ROUNDING = 1024
GIB = 1 << 30

#: (bytes after rounding, alignment, stream)
Key: TypeAlias = "tuple[int, int, Hashable]"


class ExactAccount(Account):
    """One device: free addresses by key, and the maximum of live bytes."""

    __slots__ = ("free", "max_bytes")

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.free: dict[Key, list[int]] = {}
        total = memory.capacity()
        #: Three quarters of the device, or all of it but 1 GiB; 1 GiB where its size is unknown.
        self.max_bytes = GIB if total is None else max(3 * total // 4, total - GIB)

    def largest_free_chunk(self) -> int:
        return max((key[0] for key, addresses in self.free.items() if addresses), default=0)

    @property
    def buffers(self) -> int:
        """Native allocations that the manager holds, lent or not."""
        return self.device_allocs - self.device_frees


class ExactManager(AccountingManager[ExactAccount]):
    """Free lists by exact size, with garbage collection.

    max_buffers   native allocations at which garbage is collected
    debug         no rounding and no lists: each block is a native allocation, so that tools such
                  as valgrind see its bounds. Default: ``FL_MEM_DEBUG=1``
    """

    CONTRACT = (1, 0)
    name = "exact"

    def __init__(
        self,
        *memories: DeviceMemory,
        max_buffers: int = 1000,
        debug: bool | None = None,
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        if type(max_buffers) is not int or max_buffers < 1:
            raise AllocationError(f"max_buffers={max_buffers!r}: give a number of at least 1")
        self.max_buffers = max_buffers
        self.debug = _debug_setting() if debug is None else debug
        super().__init__(*memories, small_bytes=small_bytes)

    def open_account(self, memory: DeviceMemory) -> ExactAccount:
        return ExactAccount(memory)

    def pressure(self, device: str = "cpu") -> float:
        """1.0 where garbage would be collected now, else 0.0: a graph that defers work may ask
        before it keeps more alive."""
        return float(self._exceeds(self._accounts.get(device) or self._account(device)))

    def allocate_chunk(
        self, account: ExactAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Key]:
        rounding = 1 if self.debug else ROUNDING
        size = -(-nbytes // rounding) * rounding or rounding
        key = size, max(alignment, 64), stream
        if account.free and self._exceeds(account):
            self.trim(account)
        free = account.free.get(key)
        if free:
            return free.pop(), size, key
        address, size = self.device_allocate(account, size, key[1])
        return address, size, key

    def free_chunk(self, account: ExactAccount, address: int, capacity: int, handle: Key) -> None:
        if self.debug:
            self.device_free(account, address, capacity)
        else:
            account.free.setdefault(handle, []).append(address)

    def trim(self, account: ExactAccount) -> int:
        lists, account.free = account.free, {}
        released = 0
        for (size, _, _), addresses in lists.items():
            for address in addresses:
                self.device_free(account, address, size)
            released += size * len(addresses)
        return released

    def _exceeds(self, account: ExactAccount) -> bool:
        return account.live_bytes >= account.max_bytes or account.buffers >= self.max_buffers


def _debug_setting() -> bool:
    setting = os.environ.get("FL_MEM_DEBUG", "")
    if setting not in ("", "0", "1"):
        raise AllocationError(f"FL_MEM_DEBUG={setting!r}: expected 0 or 1")
    return setting == "1"
