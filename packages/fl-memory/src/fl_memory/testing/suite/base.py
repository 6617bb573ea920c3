"""The base class of the parts of the memory suite."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from fl_memory.block import Block
from fl_memory.errors import BlockError
from fl_memory.manager import HOST, MemoryManager
from fl_memory.testing.kit import Suite, hide
from fl_memory.testing.ledger import BlockLedger, LedgerMemory

__tracebackhide__ = hide

MIB = 1 << 20


def within(seconds: float, function: Callable[[], object]) -> None:
    """Run ``function`` in a thread of its own; a failure there, or a hang, is a failure here."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:  # carried to the test's thread
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        # Blocks of a manager that is stuck must not die: their way home would hang this thread, or
        # the end of the process. One reference too many to the caller's variables sees to that.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys._getframe(1)))
        pytest.fail(f"still running after {seconds} seconds: a deadlock")
    if failures:
        raise failures[0]


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run ``work(i)`` in ``count`` threads; raise the first failure."""
    failures: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:  # carried to the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Cycle:
    """A block in a reference cycle: only garbage collection can free it, at a time of its own."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.itself = self


class ManagerSuite(Suite, official=True):
    """What every part of the suite needs: the manager under test, and books to compare with."""

    subject = "manager"
    what = "memory manager"
    host = HOST
    host_package = "fl-memory"
    hooks = ("make", "exercise")

    manager: ClassVar[Any] = None

    #: Seconds until something that should take microseconds counts as hanging.
    patience: ClassVar[float] = 20.0

    def make(self, memory: LedgerMemory) -> MemoryManager:
        """A fresh manager that takes all its bytes from ``memory``."""
        return type(self).manager(memory)

    def exercise(self, mm: MemoryManager) -> None:
        """Bring ``mm`` into its next mode: called again and again between the requests of a test.

        For managers that work in modes of their own. The suite itself sends ``mark("step", n)``.
        """

    @pytest.fixture
    def memory(self) -> LedgerMemory:
        return LedgerMemory()

    @pytest.fixture
    def mm(self, memory: LedgerMemory) -> MemoryManager:
        return self.make(memory)

    def assert_disjoint(self, blocks: list[Block]) -> None:
        """Fail when two of these live blocks share a byte."""
        books = BlockLedger()
        for block in blocks:
            try:
                books.add(block.address, block.nbytes, block.capacity)
            except BlockError as error:
                pytest.fail(str(error))

    def check_statistics(self, mm: MemoryManager, books: BlockLedger, memory: LedgerMemory) -> None:
        """The manager's figures against ours."""
        stats = mm.stats()
        true = {
            "live_bytes": books.live_bytes,
            "live_blocks": len(books.blocks),
            "used_bytes": books.used_bytes,
            "peak_live_bytes": books.peak_live_bytes,
            "peak_used_bytes": books.peak_used_bytes,
        }
        claimed = {figure: getattr(stats, figure) for figure in true}
        assert claimed == true, f"true are {true}, stats() says {claimed}"
        assert 0 <= stats.largest_free_chunk <= stats.cached_bytes
        assert (stats.allocs, stats.frees) == (books.allocs, books.frees)
        assert stats.reserved_bytes == stats.used_bytes + stats.cached_bytes == memory.bytes_out
        assert stats.device_allocs == memory.allocations
        assert stats.device_frees == memory.releases
        assert stats.peak_reserved_bytes >= stats.reserved_bytes
