"""Operands between guard pages: a read or a write past either end ends the process (Linux).

An operand begins or ends at one of the two pages, which ``mprotect`` makes inaccessible. The rest
of its pages, and the gaps between its elements, hold a pattern that a kernel must not change.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, TypeAlias

import numpy as np

from fl_jit.kernels import Layout

Array: TypeAlias = np.ndarray[Any, Any]

#: Value of each byte without an element. In every floating dtype it is a NaN.
PATTERN = 0xFF
#: Bytes on either side of an operand that are compared with the pattern.
_MARGIN = 4096


class Region:
    """Pages between two guard pages."""

    def __init__(self, nbytes: int) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(nbytes, 1) // page) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (first, first + page + inner):
            if ctypes.CDLL(None, use_errno=True).mprotect(
                ctypes.c_void_p(guard), ctypes.c_size_t(page), 0
            ):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.nbytes = inner
        self.address = first + page
        self.bytes = np.frombuffer(self._map, np.uint8, inner, page)


class Operand:
    """``nbytes`` bytes at the upper guard page (``at_end``) or the lower one, filled with the
    pattern. The address is a multiple of ``align``, so up to ``align - 1`` bytes may lie between
    the operand and the upper page."""

    def __init__(self, regions: Regions, nbytes: int, at_end: bool, align: int = 1) -> None:
        self._region = regions.take(nbytes)
        room = self._region.nbytes
        self._begin = (room - nbytes) // align * align if at_end else 0
        self._end = self._begin + nbytes
        self._low = max(self._begin - _MARGIN, 0)
        self._high = min(self._end + _MARGIN, room)
        self._region.bytes[self._low : self._high] = PATTERN
        self.address = self._region.address + self._begin
        self.bytes = self._region.bytes[self._begin : self._end]

    def surroundings_are_intact(self) -> bool:
        """Whether nothing next to the operand was written."""
        before = self._region.bytes[self._low : self._begin]
        behind = self._region.bytes[self._end : self._high]
        return bool((before == PATTERN).all() and (behind == PATTERN).all())


class Regions:
    """A pool of regions, which operands of one descriptor take and those of the next reuse."""

    def __init__(self) -> None:
        self._free: dict[int, list[Region]] = {}
        self._taken: list[Region] = []

    def take(self, nbytes: int) -> Region:
        """A region of at least ``nbytes`` bytes."""
        size = 1 << max(nbytes - 1, 4095).bit_length()
        free = self._free.setdefault(size, [])
        region = free.pop() if free else Region(size)
        self._taken.append(region)
        return region

    def reclaim(self) -> None:
        """Return all regions to the pool."""
        for region in self._taken:
            self._free[region.nbytes].append(region)
        self._taken.clear()


class Strided(Operand):
    """An operand in a strided layout; strides may be negative or zero. ``first`` is the address of
    the first element."""

    def __init__(self, regions: Regions, layout: Layout, at_end: bool) -> None:
        assert layout.strides is not None
        itemsize = layout.dtype.itemsize
        ends = [(n - 1) * s for n, s in zip(layout.shape, layout.strides)]
        low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
        empty = 0 in layout.shape
        super().__init__(regions, 0 if empty else (high - low + 1) * itemsize, at_end)
        self.first = self.address - (0 if empty else low * itemsize)
        self._bits = np.lib.stride_tricks.as_strided(
            self.bytes.view(f"u{itemsize}")[0 if empty else -low :],
            layout.shape,
            [s * itemsize for s in layout.strides],
        )
        self._name = str(layout.dtype)

    def write(self, numbers: Array) -> None:
        """Set the elements, rounded to the dtype."""
        if self._name == "bfloat16":
            wide = numbers.astype(np.float32).view(np.uint32)
            self._bits[...] = ((wide + 0x8000) >> 16).astype(np.uint16)
        else:
            self._bits[...] = numbers.astype(self._name).view(self._bits.dtype)

    def read(self) -> Array:
        """The elements in a wider dtype: float64, or long double for float64."""
        if self._name == "bfloat16":
            return (self._bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        wide = np.longdouble if self._name == "float64" else np.float64
        return self._bits.copy().view(self._name).astype(wide)

    def gaps_are_intact(self) -> bool:
        """Whether nothing between the elements was written."""
        saved = self._bits.copy()
        self._bits[...] = ~self._bits.dtype.type(0)
        intact = bool((self.bytes == PATTERN).all())
        self._bits[...] = saved
        return intact
