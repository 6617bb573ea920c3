"""Collectives through memory that the ranks of one host share.

The arena has a line of counters for each rank, and two slots for each rank and two for results. A
*meeting* is a counter that every rank raises, and waits for on the lines of the others. Slots of
even and odd meetings take turns: who writes into a slot again has passed a later meeting, which the
others entered after they had read it.

Tensors pass in chunks of a slot, so the arena stays in the cache whatever their size. A large
all_reduce writes a chunk, meets, and reduces its share of the chunk in rank order into the results;
the meeting of the next chunk makes the results readable.

Memory order: elements must be visible before the counter that announces them. x86 keeps stores in
order and loads in order; elsewhere ``fence`` is a system call that orders them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_dist.host_arrays import HostArray
from fl_dist.processes.fence import fence
from fl_dist.processes.fold import fold
from fl_dist.spinning import CAN_YIELD, yield_core
from fl_tensor import DType

__all__ = ["Arena", "create", "size"]

CHUNK = 1 << 19  # bytes of a slot
SMALL = 1 << 17  # bytes of all ranks up to which each reduces everything: one meeting, not two
LINE = 64  # bytes of a rank's counters: a cache line
WORD = 8
QUICK_LOOKS = 200  # about 10 microseconds
SPIN_SECONDS = 0.01
SHORTEST_NAP, LONGEST_NAP = 2e-5, 1e-3

#: Raises when waiting for these ranks of the arena is in vain or takes too long.
Look = Callable[[list[int], Deadline], None]


def size(ranks: int) -> int:
    """The bytes of an arena: whole pages."""
    lines = -(-ranks * LINE // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
    return lines + 2 * (ranks + 1) * CHUNK


def create() -> int:
    """A file descriptor of shared memory without a name: it vanishes with its last holder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fl_dist arena", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def reserve(fd: int, offset: int, ranks: int) -> None:
    """Allocate the memory of an arena now: DistError where there is too little, in place of a
    signal later."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, offset, size(ranks))
        elif os.fstat(fd).st_size < offset + size(ranks):
            os.ftruncate(fd, offset + size(ranks))
    except OSError as error:
        raise DistError(
            f"[processes] cannot reserve {size(ranks) >> 20} MB of shared memory for {ranks} ranks "
            f"({error.strerror}): raise the memory limit of the job, or start fewer ranks"
        ) from error


class Arena:
    """The view of one rank, number ``place`` of ``ranks``.

    fd, offset  a file that was reserved, and where the arena lies in it
    look        called while others are late
    may_spin    whether there is a core for each rank; else waiting ranks sleep
    """

    def __init__(
        self, fd: int, offset: int, place: int, ranks: int, look: Look, may_spin: bool
    ) -> None:
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._map = mmap.mmap(fd, size(ranks), flags, offset=offset)
        lines = size(ranks) - 2 * (ranks + 1) * CHUNK
        self._counters = memoryview(self._map)[:lines].cast("q")
        slots = np.frombuffer(self._map, np.uint8, offset=lines).reshape(2, ranks + 1, CHUNK)
        self._slots, self._results = slots[:, :ranks], slots[:, ranks]
        self.place = place
        self.ranks = ranks
        self._step = 0
        self._mine = place * LINE // WORD
        self._others = [r * LINE // WORD for r in range(ranks) if r != place]
        self._look = look
        self._may_spin = may_spin and CAN_YIELD

    # ---- meetings

    def meet(self, deadline: Deadline, word: int = 0) -> None:
        """Return when every rank has come. ``word`` is what this rank brings for ``agreed``."""
        step = self._step = self._step + 1
        counters = self._counters
        counters[self._mine + 1 + (step & 1)] = word
        fence()
        counters[self._mine] = step
        for at in self._others:
            if counters[at] < step:
                self._wait(at, step, deadline)
        fence()

    def agreed(self, word: int, deadline: Deadline) -> bool:
        """A meeting: whether all ranks brought the same word."""
        self.meet(deadline, word)
        counters, place = self._counters, 1 + (self._step & 1)
        for at in self._others:
            if counters[at + place] != word:
                return False
        return True

    def _wait(self, at: int, step: int, deadline: Deadline) -> None:
        counters = self._counters
        if self._may_spin:
            for _ in range(QUICK_LOOKS):
                if counters[at] >= step:
                    return
            end = time.perf_counter() + SPIN_SECONDS
            while time.perf_counter() < end:
                if counters[at] >= step:
                    return
                yield_core()
        nap = SHORTEST_NAP
        while counters[at] < step:
            late = [at // (LINE // WORD) for at in self._others if counters[at] < step]
            try:
                self._look(late, deadline)
            except Exception:
                if counters[at] < step:  # a rank may come and end between the two looks
                    raise
                return
            time.sleep(nap)
            nap = min(1.5 * nap, LONGEST_NAP)

    # ---- collectives: of flat arrays, alike on all ranks unless said otherwise

    def all_reduce(
        self, x: HostArray, out: HostArray, op: str, dtype: DType, deadline: Deadline
    ) -> None:
        """The reduction in rank order into ``out``, which may be ``x`` itself."""
        if x.nbytes * self.ranks <= SMALL:
            slots = self._next_slots(x)
            slots[self.place] = x
            self.meet(deadline)
            fold(op, dtype, slots, out)
            return
        before: tuple[slice, HostArray] | None = None
        for part in _chunks(x.size, CHUNK // x.itemsize):
            mine = x[part]
            turn = (self._step + 1) & 1
            slots = self._next_slots(mine)
            result = self._results[turn, : mine.nbytes].view(x.dtype)
            slots[self.place] = mine
            self.meet(deadline)
            share = slice(*[mine.size * (self.place + i) // self.ranks for i in (0, 1)])
            fold(op, dtype, slots[:, share], result[share])
            if before is not None:
                out[before[0]] = before[1]
            before = part, result
        self.meet(deadline)
        assert before is not None
        out[before[0]] = before[1]

    def reduce(
        self, x: HostArray, out: HostArray | None, op: str, dtype: DType, deadline: Deadline
    ) -> None:
        """The reduction in rank order on the ranks that pass ``out``."""
        for part in _chunks(x.size, CHUNK // x.itemsize):
            slots = self._next_slots(x[part])
            slots[self.place] = x[part]
            self.meet(deadline)
            if out is not None:
                fold(op, dtype, slots, out[part])

    def reduce_scatter(
        self,
        x: HostArray,
        counts: Sequence[int],
        out: HostArray,
        op: str,
        dtype: DType,
        deadline: Deadline,
    ) -> None:
        """``x`` is divided into ``counts`` elements per rank; ``out`` is the share of this rank."""
        starts = [sum(counts[:r]) for r in range(self.ranks)]
        each = CHUNK // x.itemsize // self.ranks
        for part in _chunks(max(counts), each):
            slots = self._next_slots(x[: each * self.ranks], each * self.ranks)
            for r, (start, count) in enumerate(zip(starts, counts)):
                piece = x[start + min(part.start, count) : start + min(part.stop, count)]
                slots[self.place, r * each : r * each + piece.size] = piece
            self.meet(deadline)
            mine = out[part]
            fold(op, dtype, slots[:, self.place * each :][:, : mine.size], mine)

    def all_gather(
        self, x: HostArray, counts: Sequence[int], out: HostArray | None, deadline: Deadline
    ) -> None:
        """Every rank's ``x``, of ``counts[r]`` elements, one behind the other in ``out``, on the
        ranks that pass it."""
        each = CHUNK // x.itemsize
        starts = [sum(counts[:r]) for r in range(self.ranks)]
        for part in _chunks(max(counts), each):
            mine = x[part]
            slots = self._next_slots(x, each)
            slots[self.place, : mine.size] = mine
            self.meet(deadline)
            if out is not None:
                for r, (start, count) in enumerate(zip(starts, counts)):
                    stop = min(part.stop, count)
                    if part.start < stop:
                        source = mine if r == self.place else slots[r, : stop - part.start]
                        out[start + part.start : start + stop] = source

    def broadcast(self, x: HostArray, out: HostArray | None, root: int, deadline: Deadline) -> None:
        """Rank ``root``'s ``x`` into ``out`` of the others; the root passes None."""
        for part in _chunks(x.size, CHUNK // x.itemsize):
            slot = self._next_slots(x[part])[root]
            if out is None:
                slot[:] = x[part]
            self.meet(deadline)
            if out is not None:
                out[part] = slot

    def _next_slots(self, like: HostArray, count: int | None = None) -> HostArray:
        """The slots of the next meeting: a row of ``count`` elements for each rank."""
        nbytes = (like.size if count is None else count) * like.itemsize
        return self._slots[(self._step + 1) & 1, :, :nbytes].view(like.dtype)

    def close(self) -> None:
        """Give the memory back, unless arrays still show it."""
        self._counters.release()
        del self._slots, self._results
        self._map.close()


def _chunks(count: int, each: int) -> Iterator[slice]:
    return (slice(start, min(start + each, count)) for start in range(0, count, each))
