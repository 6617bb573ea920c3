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
        "native_allocs",
        "native_frees",
        "peak_live_bytes",
        "peak_reserved_bytes",
        "peak_used_bytes",
        "reserved_bytes",
        "used_bytes",
    )

    #: The native memory of the device.
    memory: DeviceMemory

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        #: Bytes that may be reserved at most, beside the limit of the memory itself.
        self.limit: int | None = None
        self.live_bytes = 0
        self.used_bytes = 0
        self.reserved_bytes = 0
        self.peak_live_bytes = 0
        self.peak_used_bytes = 0
        self.peak_reserved_bytes = 0
        self.allocs = 0
        self.frees = 0
        self.native_allocs = 0
        self.native_frees = 0

    def allocate(self, nbytes: int, alignment: int) -> int:
        """Native memory within the limit; see ``DeviceMemory.allocate``."""
        if self.limit is not None and self.reserved_bytes + nbytes > self.limit:
            raise OutOfMemoryError(nbytes, self.memory.device, limit=self.limit)
        return self.memory.allocate(nbytes, alignment)

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
            native_allocs=self.native_allocs,
            native_frees=self.native_frees,
        )


#: The kind of account a manager keeps: ``Account``, or its own class derived from it.
AnyAccount = TypeVar("AnyAccount", bound=Account)
