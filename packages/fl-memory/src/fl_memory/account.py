"""The statistics of a manager for one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from fl_memory.errors import OutOfMemoryError
from fl_memory.stats import Stats

if TYPE_CHECKING:
    from fl_memory.manager import DeviceMemory


class Account:
    """The figures of one device. A manager may derive from it to keep its own state per device."""

    __slots__ = (
        "allocs",
        "frees",
        "limit",
        "live_bytes",
        "memory",
        "device_allocs",
        "device_frees",
        "peak_live_bytes",
        "peak_reserved_bytes",
        "peak_used_bytes",
        "reserved_bytes",
        "used_bytes",
    )

    #: The native memory of the device.
    memory: DeviceMemory
    #: Bytes that may be reserved at most, as ``set_limit`` said; None for no limit.
    limit: int | None
    #: Requested bytes of all live blocks, as ``Stats.live_bytes``. Read it; the base class counts.
    live_bytes: int
    #: Capacity of all live blocks in bytes, as ``Stats.used_bytes``; to be read.
    used_bytes: int
    #: Bytes that the device gave and has not got back, as ``Stats.reserved_bytes``; to be read.
    reserved_bytes: int

    def __init__(self, memory: DeviceMemory) -> None:
        """All figures are 0, and there is no limit."""
        self.memory = memory
        self.limit = None
        self.live_bytes = 0
        self.used_bytes = 0
        self.reserved_bytes = 0
        self.peak_live_bytes = 0
        self.peak_used_bytes = 0
        self.peak_reserved_bytes = 0
        self.allocs = 0
        self.frees = 0
        self.device_allocs = 0
        self.device_frees = 0

    def largest_free_chunk(self) -> int:
        """Bytes of the largest chunk that is cached in one piece; override where chunks are kept.

        0 if there is none, or if the manager does not know. It changes nothing.
        """
        return 0

    def stats(self) -> Stats:
        """The figures now."""
        return Stats(
            live_bytes=self.live_bytes,
            live_blocks=self.allocs - self.frees,
            used_bytes=self.used_bytes,
            cached_bytes=self.reserved_bytes - self.used_bytes,
            reserved_bytes=self.reserved_bytes,
            largest_free_chunk=self.largest_free_chunk(),
            peak_live_bytes=self.peak_live_bytes,
            peak_used_bytes=self.peak_used_bytes,
            peak_reserved_bytes=self.peak_reserved_bytes,
            allocs=self.allocs,
            frees=self.frees,
            device_allocs=self.device_allocs,
            device_frees=self.device_frees,
        )


#: The kind of account a manager keeps: ``Account``, or its own class derived from it.
AnyAccount = TypeVar("AnyAccount", bound=Account)


def allocate_within_limit(account: Account, nbytes: int, alignment: int) -> int:
    """``DeviceMemory.allocate`` of the account's memory; OutOfMemoryError beyond its limit, too."""
    if account.limit is not None and account.reserved_bytes + nbytes > account.limit:
        raise OutOfMemoryError(nbytes, account.memory.device, limit=account.limit)
    return account.memory.allocate(nbytes, alignment)
