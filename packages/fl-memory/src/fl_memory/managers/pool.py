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
    """Chunks of one kind. ``least_rest``: a chunk is split when at least so many bytes remain."""

    def __init__(self, least_rest: int, quick: bool) -> None:
        self.least_rest = least_rest
        self.quick = quick
        self.bins: dict[int, list[Chunk]] = {}
        self._latest: Chunk | None = None  # came back, and has not been merged yet
        self._order: list[tuple[int, int]] = []
        self._at: dict[int, Chunk] = {}

    def take(self, size: int) -> Chunk | None:
        """The smallest free chunk that fits, split if worthwhile; None when there is none."""
        latest, self._latest = self._latest, None
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
            latest, self._latest = self._latest, chunk
            if latest is not None:
                self._merge(latest)

    def merge_bins(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            self._merge(latest)
        bins, self.bins = self.bins, {}
        for waiting in bins.values():
            for chunk in waiting:
                self._merge(chunk)

    def buffers_without_tenant(self) -> list[tuple[int, int]]:
        """Remove the buffers that are one free chunk from the pool; their (address, size)."""
        self.merge_bins()
        empty = [
            (chunk.address, chunk.size)
            for chunk in self._at.values()
            if chunk.before is None and chunk.after is None
        ]
        for address, _ in empty:
            self._unlist(self._at[address])
        return empty

    # ------------------------------------------------------------------ inside

    def _best(self, size: int) -> Chunk | None:
        place = bisect_left(self._order, (size, 0))
        if place == len(self._order):
            return None
        chunk = self._at.pop(self._order.pop(place)[1])
        chunk.free = False
        return chunk

    def _split(self, chunk: Chunk, size: int) -> Chunk:
        rest = chunk.size - size
        if rest >= self.least_rest:
            after = chunk.after
            tail = Chunk(self, chunk.address + size, rest, chunk, after)
            if after is not None:
                after.before = tail
            chunk.after = tail
            chunk.size = size
            self._list(tail)
        return chunk

    def _merge(self, chunk: Chunk) -> None:
        before, after = chunk.before, chunk.after
        if after is not None and after.free:
            self._unlist(after)
            chunk.size += after.size
            chunk.after = after.after
            if chunk.after is not None:
                chunk.after.before = chunk
        if before is not None and before.free:
            self._unlist(before)
            before.size += chunk.size
            before.after = chunk.after
            if before.after is not None:
                before.after.before = before
            chunk = before
        self._list(chunk)

    def _list(self, chunk: Chunk) -> None:
        chunk.free = True
        self._at[chunk.address] = chunk
        insort(self._order, (chunk.size, chunk.address))

    def _unlist(self, chunk: Chunk) -> None:
        chunk.free = False
        del self._at[chunk.address]
        del self._order[bisect_left(self._order, (chunk.size, chunk.address))]
