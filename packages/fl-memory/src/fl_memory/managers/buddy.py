"""``buddy``: blocks of powers of two; a free block merges with the other half of its parent.

The binary buddy system (Knowlton, 1965). Splitting and merging take one step per power of two.
The price is internal fragmentation: a request of 2^k + 1 bytes occupies 2^(k+1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.manager import DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["BuddyManager"]

#: The smallest block, in bytes.
MIN_BLOCK = 64
#: What is taken from the device at least. Larger requests get a region of their own.
REGION = 64 << 20
REGION_ALIGNMENT = 4096


class Region:
    """Device memory of one stream, divided into powers of two."""

    __slots__ = ("_free", "address", "size", "stream", "used")

    def __init__(self, address: int, size: int, stream: Hashable) -> None:
        self.address = address
        self.size = size
        self.stream = stream
        self.used = 0
        self._free: dict[int, set[int]] = {}  # offsets of free blocks, by size
        offset = 0
        # A device short of memory may give a size that is no power of two: take its binary parts.
        while size - offset >= MIN_BLOCK:
            part = 1 << ((size - offset).bit_length() - 1)
            self._free.setdefault(part, set()).add(offset)
            offset += part

    def take(self, size: int, alignment: int) -> int | None:
        """The offset of a free block of ``size`` bytes, a power of two; None if there is none."""
        if self.address % alignment:
            return None
        found = size
        while not self._free.get(found):
            found *= 2
            if found > self.size:
                return None
        offset = self._free[found].pop()
        while found > size:
            found //= 2
            self._free.setdefault(found, set()).add(offset + found)
        self.used += size
        return offset

    def largest_free(self) -> int:
        return max((size for size, offsets in self._free.items() if offsets), default=0)

    def give(self, offset: int, size: int) -> None:
        self.used -= size
        while (buddies := self._free.get(size)) and (offset ^ size) in buddies:
            buddies.discard(offset ^ size)
            offset &= ~size
            size *= 2
        self._free.setdefault(size, set()).add(offset)


class BuddyAccount(Account):
    """One device: its regions."""

    __slots__ = ("regions",)

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.regions: list[Region] = []

    def largest_free_chunk(self) -> int:
        return max((region.largest_free() for region in self.regions), default=0)


class BuddyManager(AccountingManager[BuddyAccount]):
    """Binary buddies in regions of 64 MiB."""

    CONTRACT = (1, 0)
    name = "buddy"

    def open_account(self, memory: DeviceMemory) -> BuddyAccount:
        return BuddyAccount(memory)

    def allocate_chunk(
        self, account: BuddyAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Region]:
        # A block of size 2^k lies at a multiple of 2^k from the beginning of its region.
        size = max(MIN_BLOCK, alignment, 1 << max(nbytes - 1, 0).bit_length())
        for region in account.regions:
            if region.stream == stream:
                offset = region.take(size, alignment)
                if offset is not None:
                    return region.address + offset, size, region
        address, got = self.device_allocate(
            account, max(REGION, size), max(alignment, REGION_ALIGNMENT), min_bytes=size
        )
        region = Region(address, got, stream)
        account.regions.append(region)
        offset = region.take(size, alignment)
        assert offset is not None, "a new region has room for the request that it was made for"
        return address + offset, size, region

    def free_chunk(
        self, account: BuddyAccount, address: int, capacity: int, handle: Region
    ) -> None:
        handle.give(address - handle.address, capacity)

    def trim(self, account: BuddyAccount) -> int:
        empty = [region for region in account.regions if not region.used]
        account.regions = [region for region in account.regions if region.used]
        for region in empty:
            self.device_free(account, region.address, region.size)
        return sum(region.size for region in empty)
