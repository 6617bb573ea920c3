"""A memory manager in one page: bump a pointer through a region, start over when it is empty.

Allocation is an addition. Nothing is ever searched: a block that is freed only counts down the
blocks of its region, and a region without blocks is used from its beginning again. That suits
work which frees everything at the end of a step, and wastes memory where it does not.
"""

from __future__ import annotations

from collections.abc import Hashable

from fl_memory import Account, AccountingManager, DeviceMemory

REGION = 4 << 20
GRAIN = 64


class Region:
    """A piece of device memory, used up to ``top``, lent to ``blocks`` blocks of one stream."""

    def __init__(self, start: int, size: int, stream: Hashable) -> None:
        self.start = start
        self.size = size
        self.stream = stream
        self.top = start
        self.blocks = 0

    def place(self, nbytes: int, alignment: int) -> int | None:
        """Address of ``nbytes`` more bytes, or None when they do not fit."""
        address = (self.top + alignment - 1) & -alignment
        if address + nbytes > self.start + self.size:
            return None
        self.top = address + nbytes
        self.blocks += 1
        return address


class ArenaAccount(Account):
    """The figures of one device, and its regions."""

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.regions: list[Region] = []


class ArenaManager(AccountingManager[ArenaAccount]):
    """Regions of 4 MiB (more for a larger request), each bound to one stream."""

    CONTRACT = (1, 0)
    name = "arena"

    def open_account(self, memory: DeviceMemory) -> ArenaAccount:
        return ArenaAccount(memory)

    def allocate_chunk(
        self, account: ArenaAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Region]:
        capacity = max(-(-nbytes // GRAIN), 1) * GRAIN
        for region in account.regions:
            if region.stream == stream:
                address = region.place(capacity, alignment)
                if address is not None:
                    return address, capacity, region
        start, size = self.device_allocate(
            account, max(REGION, capacity), max(alignment, GRAIN), min_bytes=capacity
        )
        region = Region(start, size, stream)
        account.regions.append(region)
        region.top = start + capacity
        region.blocks = 1
        return start, capacity, region

    def free_chunk(
        self, account: ArenaAccount, address: int, capacity: int, handle: Region
    ) -> None:
        handle.blocks -= 1
        if handle.blocks == 0:
            handle.top = handle.start

    def trim(self, account: ArenaAccount) -> int:
        empty = [region for region in account.regions if region.blocks == 0]
        account.regions = [region for region in account.regions if region.blocks]
        for region in empty:
            self.device_free(account, region.start, region.size)
        return sum(region.size for region in empty)
