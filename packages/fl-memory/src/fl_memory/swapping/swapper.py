"""Which blocks leave memory when a program exceeds its budget.

The swapper observes a manager: what was freed goes first (its bytes are not needed), then blocks
that have not been used for longest. Reads and writes bring pages back without any event, so a
thread compares the resident bytes of the process with the budget every few milliseconds.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right, insort
from collections import OrderedDict
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from fl_memory.errors import AllocationError, OutOfMemoryError
from fl_memory.manager import MemoryManager
from fl_memory.swapping.file_memory import FileMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from fl_memory.events import Event

__all__ = ["Swapper", "resident_bytes"]

#: Blocks below this size stay: the calls would cost more than they release.
MIN_BLOCK = 256 << 10
#: When the budget is exceeded, this share of it is released on top.
MARGIN = 0.05


def resident_bytes() -> int:
    """Resident bytes of this process (RSS)."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Swapper:
    """Keep the resident bytes of a program within ``budget``.

    memory   the device memory of the managers to watch
    budget   bytes, counted from the resident bytes of the process at this moment: make the swapper
             before the model
    policy   "oldest": blocks leave in the order of their allocation, or last ``Block.touch``.
             "newest": in the opposite order, which suits programs that go through all blocks in
             turn and start again
    period   seconds between two looks of the watching thread

    The resident bytes may exceed the budget by the operands and results of one operation, and by
    what a program touches within ``period``. An allocation of more than the budget raises
    OutOfMemoryError.
    """

    def __init__(
        self,
        memory: FileMemory,
        budget: int,
        *,
        policy: Literal["oldest", "newest"] = "oldest",
        period: float = 0.005,
    ) -> None:
        if not isinstance(memory, FileMemory):
            raise AllocationError(f"Swapper({memory!r}, ...): give a FileMemory")
        if type(budget) is not int or budget <= 0:
            raise AllocationError(f"budget of {budget!r} bytes: give an integer above 0")
        if policy not in ("oldest", "newest"):
            raise AllocationError(f"policy {policy!r}: one of 'oldest', 'newest'")
        if not isinstance(period, (int, float)) or not period > 0:
            raise AllocationError(f"period of {period!r} seconds: give a number above 0")
        self.memory = memory
        self.budget = budget
        self.policy = policy
        self.period = period
        self.base_bytes = resident_bytes()
        #: The most resident bytes above ``base_bytes`` so far.
        self.peak_bytes = 0
        #: Bytes that left memory, and might have come back.
        self.evicted_bytes = 0
        self._live: OrderedDict[int, int] = OrderedDict()  # address: bytes, longest unused first
        self._free = FreeRanges()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._removers: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="fl-memory-swapper", daemon=True)

    def watch(self, manager: MemoryManager) -> None:
        """Observe ``manager``, whose blocks lie in ``memory``. AllocationError for what is no
        manager."""
        if not isinstance(manager, MemoryManager):
            raise AllocationError(f"watch({manager!r}): give a MemoryManager")
        self._removers.append(manager.on_event(self._observe))

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and the observation. What left memory comes back as it is used."""
        self._stop.set()
        while self._removers:
            self._removers.pop()()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    # ------------------------------------------------------------------ inside

    def _run(self) -> None:
        while not self._stop.wait(self.period):
            with self._lock:
                self._make_room(0)

    def _observe(self, event: Event) -> None:
        address, nbytes = event.address, event.nbytes
        with self._lock:
            if event.kind == "alloc":
                reused = self._free.remove(address, address + nbytes)
                if nbytes >= MIN_BLOCK:
                    if nbytes > self.budget:
                        raise OutOfMemoryError(
                            nbytes,
                            event.device,
                            limit=self.budget,
                            hint="a single request exceeds the budget of the swapper; raise it",
                        )
                    self._make_room(nbytes - reused)
                    self._live[address] = nbytes
            elif event.kind == "free":
                if self._live.pop(address, None) is not None:
                    self._free.add(address, address + nbytes)
            elif event.kind == "touch":
                if address in self._live:
                    self._live.move_to_end(address)
            elif event.kind == "device_free":
                self._free.remove(address, address + nbytes)

    def _make_room(self, nbytes: int) -> None:
        """Release memory until ``nbytes`` more fit into the budget."""
        resident = resident_bytes() - self.base_bytes
        self.peak_bytes = max(self.peak_bytes, resident)
        excess = resident + nbytes - self.budget
        if excess <= 0:
            return
        wanted = excess + int(MARGIN * self.budget)
        wanted -= self._release_free(wanted)
        if wanted <= 0:
            return
        blocks = list(self._live.items())
        if self.policy == "newest":
            blocks.reverse()
        for address, size in blocks:
            released = self._released(address, size, "cold")
            self.evicted_bytes += released
            wanted -= released
            if wanted <= 0:
                return

    def _release_free(self, wanted: int) -> int:
        done = 0
        while done < wanted and (found := self._free.pop()) is not None:
            begin, end = found
            done += self._released(begin, end - begin, "free")
        return done

    def _released(self, address: int, nbytes: int, advice: str) -> int:
        before = resident_bytes()
        self.memory.advise(address, nbytes, advice)
        return max(before - resident_bytes(), 0)


class FreeRanges:
    """Disjoint ranges of addresses that hold no live block."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: dict[int, int] = {}

    def add(self, begin: int, end: int) -> None:
        if end > begin:
            insort(self._begins, begin)
            self._ends[begin] = end

    def remove(self, begin: int, end: int) -> int:
        """Take the parts within ``begin`` and ``end`` out; their bytes."""
        removed = 0
        place = max(bisect_right(self._begins, begin) - 1, 0)
        while place < len(self._begins) and self._begins[place] < end:
            start = self._begins[place]
            stop = self._ends[start]
            if stop <= begin:
                place += 1
                continue
            del self._begins[place], self._ends[start]
            removed += min(stop, end) - max(start, begin)
            if start < begin:
                self.add(start, begin)
                place += 1
            if end < stop:
                self.add(end, stop)
                break
        return removed

    def pop(self) -> tuple[int, int] | None:
        """Some range, taken out."""
        if not self._begins:
            return None
        begin = self._begins.pop()
        return begin, self._ends.pop(begin)
