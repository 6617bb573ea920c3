"""Independent records beside a manager: observed native memory, and a list of live blocks."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from fl_memory.block import Block
from fl_memory.errors import BlockError
from fl_memory.host import HostMemory
from fl_memory.manager import DeviceMemory


class LedgerMemory(DeviceMemory):
    """Host memory that knows what is out, and refuses to take back what it did not give.

    ``on_allocate`` and ``on_release`` are called in the middle of the two operations, where a
    finaliser or another thread might strike; ``generation`` tells uses of an address apart.
    """

    CONTRACT = (1, 0)

    lazy_commit = True

    def __init__(self, limit: int | None = None, device: str = "cpu") -> None:
        self.device = device
        self.inner = HostMemory(limit, device)
        self.out: dict[int, tuple[int, int]] = {}
        self.allocations = 0
        self.releases = 0
        self.on_allocate: Callable[[], object] | None = None
        self.on_release: Callable[[], object] | None = None
        self._starts: list[int] = []
        self._lock = threading.RLock()

    def allocate(self, nbytes: int, alignment: int) -> int:
        if self.on_allocate is not None:
            self.on_allocate()
        address = self.inner.allocate(nbytes, alignment)
        with self._lock:
            self.allocations += 1
            self.out[address] = (nbytes, self.allocations)
            insort(self._starts, address)
        return address

    def release(self, address: int, nbytes: int) -> None:
        if self.on_release is not None:
            self.on_release()
        with self._lock:
            size, _ = self.out.pop(address, (-1, 0))
            self.releases += 1
            if size >= 0:
                del self._starts[bisect_left(self._starts, address)]
        if size != nbytes:
            raise BlockError(
                f"[release] {nbytes} bytes at {hex(address)} were never given out like this"
                + (f" (there were {size})" if size >= 0 else "")
            )
        self.inner.release(address, nbytes)

    def capacity(self) -> int | None:
        return self.inner.capacity()

    def advise(self, address: int, nbytes: int, advice: str) -> bool:
        if self.home_of(address, nbytes) is None:
            raise BlockError(f"[advise] {nbytes} bytes at {hex(address)} were never given out")
        return self.inner.advise(address, nbytes, advice)

    @property
    def bytes_out(self) -> int:
        with self._lock:
            return sum(size for size, _ in self.out.values())

    def home_of(self, address: int, nbytes: int) -> tuple[int, int] | None:
        """(address, generation) of the native allocation that holds these bytes, or None."""
        with self._lock:
            place = bisect_right(self._starts, address)
            if place == 0:
                return None
            start = self._starts[place - 1]
            size, generation = self.out[start]
            return (start, generation) if address + nbytes <= start + size else None


class BlockLedger:
    """The live blocks by address; finds overlaps as they arise."""

    def __init__(self) -> None:
        self.blocks: dict[int, tuple[int, object]] = {}
        self._starts: list[int] = []
        self.live_bytes = 0
        self.peak_live_bytes = 0
        self.used_bytes = 0
        self.peak_used_bytes = 0
        self.allocs = 0
        self.frees = 0

    def add(self, address: int, nbytes: int, extent: int, tag: object = None) -> None:
        """A new block of ``nbytes`` that owns ``extent`` bytes; BlockError when it overlaps one."""
        place = bisect_right(self._starts, address)
        for start in self._starts[max(place - 1, 0) : place + 1]:
            size = max(self.blocks[start][0], 1)
            if start < address + max(extent, 1) and address < start + size:
                raise BlockError(
                    f"[alloc] block of {nbytes} bytes at {hex(address)} overlaps the live block of "
                    f"{size} bytes at {hex(start)}"
                )
        insort(self._starts, address)
        self.blocks[address] = (extent, tag)
        self.allocs += 1
        self.live_bytes += nbytes
        self.peak_live_bytes = max(self.peak_live_bytes, self.live_bytes)
        self.used_bytes += extent
        self.peak_used_bytes = max(self.peak_used_bytes, self.used_bytes)

    def remove(self, address: int, nbytes: int) -> None:
        self.used_bytes -= self.blocks.pop(address)[0]
        del self._starts[bisect_left(self._starts, address)]
        self.frees += 1
        self.live_bytes -= nbytes


def write_pattern(block: Block, seed: int, memory: LedgerMemory) -> None:
    """Fill the block with bytes that depend on ``seed``.

    BlockError for a block that does not lie in ``memory``: to write there would damage this very
    process, and end the run.
    """
    if memory.home_of(block.address, block.nbytes) is None:
        raise BlockError(f"[write] {block} does not lie in the device memory of its manager")
    if block.nbytes:
        view = block.view()
        view[:] = _pattern(block.nbytes, seed)


def has_pattern(block: Block, seed: int) -> bool:
    return bytes(block.view()) == _pattern(block.nbytes, seed)


def _pattern(nbytes: int, seed: int) -> bytes:
    word = (seed * 2654435761 % (1 << 64)).to_bytes(8, "little")
    return (word * (nbytes // 8 + 1))[:nbytes]
