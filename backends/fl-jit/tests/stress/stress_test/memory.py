"""Memory with an unmapped page before and behind it: a read or a write past either end is fatal.

An operand lies against one of the two. What remains of its last page on the other side, and the
gaps between its elements, hold a pattern that must be there afterwards.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from fl_jit.kernels import Layout

#: Of what holds no element: as float16, bfloat16, float32 or float64 it is a NaN.
PATTERN = 0xFF
#: Bytes around an operand that are looked at.
_MARGIN = 4096


class Region:
    """Some pages between two that nobody may touch."""

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
    """``nbytes`` bytes against the upper guard (``at_end``) or the lower one, filled with the
    pattern; ``align``: its first byte is at a multiple, so that up to ``align - 1`` bytes may lie
    between it and the guard."""

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
    """Regions that operands of one problem take and the next problem's take again."""

    def __init__(self) -> None:
        self._free: dict[int, list[Region]] = {}
        self._taken: list[Region] = []

    def take(self, nbytes: int) -> Region:
        """One of at least so many bytes."""
        size = 1 << max(nbytes - 1, 4095).bit_length()
        free = self._free.setdefault(size, [])
        region = free.pop() if free else Region(size)
        self._taken.append(region)
        return region

    def reclaim(self) -> None:
        """All operands are done with."""
        for region in self._taken:
            self._free[region.nbytes].append(region)
        self._taken.clear()


class Strided(Operand):
    """An operand by strides, which may be negative or zero: ``values`` are its elements, ``first``
    the address of the first one."""

    def __init__(self, regions: Regions, layout: Layout, at_end: bool) -> None:
        assert layout.strides is not None
        itemsize = layout.dtype.itemsize
        ends = [(n - 1) * s for n, s in zip(layout.shape, layout.strides)]
        low, high = sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)
        empty = 0 in layout.shape
        super().__init__(regions, 0 if empty else (high - low + 1) * itemsize, at_end)
        self.first = self.address - (0 if empty else low * itemsize)
        words = self.bytes.view(f"u{itemsize}")
        bare = np.lib.stride_tricks.as_strided(
            words[0 if empty else -low :],
            layout.shape,
            [s * itemsize for s in layout.strides],
        )
        self.values = bare.view(str(layout.dtype)) if itemsize != 2 else bare
        self._bits, self._layout = bare, layout

    def gaps_are_intact(self) -> bool:
        """Whether nothing between the elements was written."""
        kept = self._bits.copy()
        self._bits[...] = ~self._bits.dtype.type(0)
        intact = bool((self.bytes == PATTERN).all())
        self._bits[...] = kept
        return intact
