"""A pool of native buffers, divided into chunks: best fit, splitting, coalescing.

Chunks of one buffer form a doubly linked list in address order. Free chunks are in a list sorted by
(size, address). So the smallest sufficient chunk is one bisection away, and ties go to the lowest
address. A freed chunk merges with its free neighbours before the next change of the pool. If the
next request has its size, it is reused without merging.

With ``quick=True``, merging is deferred. A freed chunk goes to a bin of its exact size, where the
next request of that size finds it. If no free chunk fits, the bins are emptied into the sorted
list. Loops with the same sizes never leave the bins. This wastes no memory, because no new buffer
is requested before all chunks are merged.
"""

from __future__ import annotations

from bisect import bisect_left, insort

MIB = 1 << 20
#: The largest buffer that blocks of several sizes share.
MAX_BUFFER = 20 * MIB
BUFFER_ROUNDING = 64 << 10
#: A new buffer takes this share of the memory that is held already. The last buffer may stay nearly
#: empty: in a small program it must be small.
BUFFER_SHARE = 32


def buffer_size(size: int, reserved_bytes: int, most: int = MAX_BUFFER) -> int:
    """Bytes of a new buffer for blocks of ``size`` bytes and others."""
    wanted = max(size, min(reserved_bytes // BUFFER_SHARE, most))
    return (wanted + BUFFER_ROUNDING - 1) // BUFFER_ROUNDING * BUFFER_ROUNDING


class Chunk:
    """A contiguous piece of a native buffer."""

    __slots__ = ("address", "after", "before", "free", "pool", "size")

    def __init__(
        self, pool: Pool, address: int, size: int, before: Chunk | None, after: Chunk | None
    ) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.before = before
        self.after = after
        self.free = False


class Pool:
    """Chunks of one kind. A chunk is split when at least ``min_split_remainder`` bytes remain."""

    def __init__(self, min_split_remainder: int, quick: bool) -> None:
        self.min_split_remainder = min_split_remainder
        self.quick = quick
        self.bins: dict[int, list[Chunk]] = {}
        self._unmerged: Chunk | None = None  # came back, and has not been merged yet
        self._free_by_size: list[tuple[int, int]] = []
        self._free_by_address: dict[int, Chunk] = {}

    def take(self, size: int) -> Chunk | None:
        """The smallest free chunk that fits, split if worthwhile; None when there is none."""
        latest, self._unmerged = self._unmerged, None
        if latest is not None:
            if latest.size == size:
                return latest
            self._merge(latest)
        found = self._best(size)
        if found is None and self.bins:
            self.merge_bins()
            found = self._best(size)
        return None if found is None else self._split(found, size)

    def add(self, address: int, nbytes: int, size: int) -> Chunk:
        """A new buffer; the chunk of ``size`` bytes at its beginning."""
        return self._split(Chunk(self, address, nbytes, None, None), size)

    def give(self, chunk: Chunk) -> None:
        """A chunk comes back."""
        if self.quick:
            try:
                self.bins[chunk.size].append(chunk)
            except KeyError:
                self.bins[chunk.size] = [chunk]
        else:
            latest, self._unmerged = self._unmerged, chunk
            if latest is not None:
                self._merge(latest)

    def merge_bins(self) -> None:
        latest, self._unmerged = self._unmerged, None
        if latest is not None:
            self._merge(latest)
        bins, self.bins = self.bins, {}
        for waiting in bins.values():
            for chunk in waiting:
                self._merge(chunk)

    def empty_buffers(self) -> list[tuple[int, int]]:
        """The buffers that are one free chunk, after all free chunks have merged; their
        (address, size)."""
        self.merge_bins()
        return [
            (chunk.address, chunk.size)
            for chunk in self._free_by_address.values()
            if chunk.before is None and chunk.after is None
        ]

    def free_chunks(self, min_size: int) -> list[tuple[int, int]]:
        """The free chunks from ``min_size`` bytes on, after all have merged; (address, size)."""
        self.merge_bins()
        first = bisect_left(self._free_by_size, (min_size, 0))
        return [(address, size) for size, address in self._free_by_size[first:]]

    def remove_buffer(self, address: int) -> None:
        """Remove an empty buffer from the pool."""
        self._remove_free(self._free_by_address[address])

    def largest_free_chunk(self) -> int:
        """Bytes of the largest chunk that is free; 0 if there is none. Nothing is merged."""
        sizes = [size for size, waiting in self.bins.items() if waiting]
        if self._unmerged is not None:
            sizes.append(self._unmerged.size)
        if self._free_by_size:
            sizes.append(self._free_by_size[-1][0])
        return max(sizes, default=0)

    # ------------------------------------------------------------------ inside

    def _best(self, size: int) -> Chunk | None:
        place = bisect_left(self._free_by_size, (size, 0))
        if place == len(self._free_by_size):
            return None
        chunk = self._free_by_address.pop(self._free_by_size.pop(place)[1])
        chunk.free = False
        return chunk

    def _split(self, chunk: Chunk, size: int) -> Chunk:
        rest = chunk.size - size
        if rest >= self.min_split_remainder:
            after = chunk.after
            tail = Chunk(self, chunk.address + size, rest, chunk, after)
            if after is not None:
                after.before = tail
            chunk.after = tail
            chunk.size = size
            self._insert_free(tail)
        return chunk

    def _merge(self, chunk: Chunk) -> None:
        before, after = chunk.before, chunk.after
        if after is not None and after.free:
            self._remove_free(after)
            chunk.size += after.size
            chunk.after = after.after
            if chunk.after is not None:
                chunk.after.before = chunk
        if before is not None and before.free:
            self._remove_free(before)
            before.size += chunk.size
            before.after = chunk.after
            if before.after is not None:
                before.after.before = before
            chunk = before
        self._insert_free(chunk)

    def _insert_free(self, chunk: Chunk) -> None:
        chunk.free = True
        self._free_by_address[chunk.address] = chunk
        insort(self._free_by_size, (chunk.size, chunk.address))

    def _remove_free(self, chunk: Chunk) -> None:
        chunk.free = False
        del self._free_by_address[chunk.address]
        del self._free_by_size[bisect_left(self._free_by_size, (chunk.size, chunk.address))]
