"""``AddressMemory``: the memory of a device that consists of addresses alone."""

from __future__ import annotations

from bisect import bisect_right, insort

from fl_memory.argument_checks import checked_limit
from fl_memory.errors import BlockError, OutOfMemoryError
from fl_memory.manager import DeviceMemory

__all__ = ["AddressMemory"]


class AddressMemory(DeviceMemory):
    """A device without bytes: a manager on it takes no memory, so that traces of any size replay.

    ``capacity`` bounds the bytes that are out at the same time (None: no bound). It is an ideal
    device: it refuses only what exceeds its capacity, because its address space never fragments.
    Released ranges are used again for requests of the same size. Not for use by several threads.
    """

    #: Where addresses begin: a multiple of every alignment.
    BASE = 1 << 40

    lazy_commit = True

    def __init__(self, capacity: int | None = None, device: str = "cpu") -> None:
        self.device = device
        #: Bytes that are out now, and the most that have been.
        self.reserved_bytes = 0
        self.peak_reserved_bytes = 0
        self.allocs = 0
        #: Whether a wrong release raises. A finaliser of a broken manager cannot raise anyway.
        self.strict = True
        #: Address and size of each range that is out, in order of addresses.
        self.segments: list[tuple[int, int]] = []
        self._capacity = checked_limit(capacity, "capacity")
        self._top = self.BASE
        self._released: dict[tuple[int, int], list[int]] = {}
        self._alignments: dict[int, int] = {}

    def allocate(self, nbytes: int, alignment: int) -> int:
        if self._capacity is not None and self.reserved_bytes + nbytes > self._capacity:
            raise OutOfMemoryError(nbytes, self.device, limit=self._capacity)
        waiting = self._released.get((nbytes, alignment))
        if waiting:
            address = waiting.pop()
        else:
            address = (self._top + alignment - 1) & -alignment
            self._top = address + nbytes
        insort(self.segments, (address, nbytes))
        self._alignments[address] = alignment
        self.allocs += 1
        self.reserved_bytes += nbytes
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return address

    def release(self, address: int, nbytes: int) -> None:
        """As the contract says; BlockError for a range that is not out, if ``strict``."""
        place = bisect_right(self.segments, (address, nbytes)) - 1
        if place < 0 or self.segments[place] != (address, nbytes):
            if not self.strict:
                return
            raise BlockError(
                f"[release] {nbytes} bytes at {address:#x} on {self.device}: no such range is out"
            )
        del self.segments[place]
        self._released.setdefault((nbytes, self._alignments.pop(address)), []).append(address)
        self.reserved_bytes -= nbytes

    def capacity(self) -> int | None:
        return self._capacity

    def holds(self, address: int, nbytes: int) -> bool:
        """Whether these bytes lie in one range that is out."""
        place = bisect_right(self.segments, (address, 1 << 62)) - 1
        if place < 0:
            return False
        start, size = self.segments[place]
        return address + nbytes <= start + size
