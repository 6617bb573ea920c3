"""``arena``: addresses count up, and start again when a region holds no live block.

An allocation is one addition (also known as bump or region allocation). Single blocks are not
reused: a region is, as a whole. ``mark("step", n)`` begins a new region, so that what a step left
behind does not hold back the memory of the next one. The region of a step takes the bytes that
the step before asked for. Blocks that stay (tags "parameter" and "state") have regions of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.account import Account
from fl_memory.accounting import AccountingManager
from fl_memory.manager import DeviceMemory

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["ArenaManager"]

ROUNDING = 64
#: The smallest region, in bytes.
MIN_REGION = 2 << 20
LONG_LIVED = frozenset(("parameter", "state"))


class Region:
    """Device memory that is lent from its beginning to its end."""

    __slots__ = ("address", "is_closed", "live", "size", "top")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self.top = 0
        self.live = 0
        self.is_closed = False  # a step has ended: no block before the region is empty

    def take(self, size: int, alignment: int) -> int | None:
        """The address of ``size`` bytes, or None where they do not fit."""
        if not self.live:
            self.top, self.is_closed = 0, False
        begin = ((self.address + self.top + alignment - 1) & -alignment) - self.address
        if self.is_closed or begin + size > self.size:
            return None
        self.top = begin + size
        self.live += 1
        return self.address + begin


class ArenaAccount(Account):
    """One device: regions by (stream, whether for blocks that stay)."""

    __slots__ = ("last_step", "regions", "requested")

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__(memory)
        self.regions: dict[tuple[Hashable, bool], list[Region]] = {}
        self.requested = 0  # bytes since the step began
        self.last_step = 0

    def largest_free_chunk(self) -> int:
        free = [
            r.size if not r.live else r.size - r.top for rs in self.regions.values() for r in rs
        ]
        return max(free, default=0)


class ArenaManager(AccountingManager[ArenaAccount]):
    """Regions that are reset as a whole."""

    CONTRACT = (1, 0)
    name = "arena"

    def open_account(self, memory: DeviceMemory) -> ArenaAccount:
        return ArenaAccount(memory)

    def allocate_chunk(
        self, account: ArenaAccount, nbytes: int, alignment: int, stream: Hashable, tag: object
    ) -> tuple[int, int, Region]:
        size = (nbytes + ROUNDING - 1) & -ROUNDING or ROUNDING
        stays = tag in LONG_LIVED
        regions = account.regions.setdefault((stream, stays), [])
        # The latest region is the one in use; older ones are looked at for having become empty.
        for region in reversed(regions):
            address = region.take(size, alignment)
            if address is not None:
                account.requested += size
                return address, size, region
        wanted = max(size, MIN_REGION, 0 if stays else account.last_step)
        address, got = self.device_allocate(
            account, wanted, max(alignment, ROUNDING), min_bytes=size
        )
        region = Region(address, got)
        # Not to ``regions``: the device may have refused at first, and ``trim`` made other lists.
        account.regions[stream, stays].append(region)
        account.requested += size
        region.take(size, alignment)
        return address, size, region

    def free_chunk(
        self, account: ArenaAccount, address: int, capacity: int, handle: Region
    ) -> None:
        handle.live -= 1

    def trim(self, account: ArenaAccount) -> int:
        released = 0
        for key, regions in account.regions.items():
            for region in regions:
                if not region.live:
                    self.device_free(account, region.address, region.size)
                    released += region.size
            account.regions[key] = [region for region in regions if region.live]
        return released

    def mark(self, name: str, number: int = 0) -> None:
        """("step", n) begins new regions for the blocks of the step."""
        super().mark(name, number)
        if name != "step":
            return
        with self.locked() as accounts:
            for account in accounts.values():
                account.last_step, account.requested = account.requested, 0
                for (_, stays), regions in account.regions.items():
                    if not stays:
                        for region in regions:
                            region.is_closed = True
