"""Work stealing among the threads of a loop nest.

Each thread has a queue of items and steals from the queues of others when its own is empty.

    queue 0   [0 1 2 3 4|        a thread takes an item by an atomic increment of the queue's
    queue 1   |5 6 7 8 9|        ``next``: a value below ``end`` is its item, computed once
    queue 2   |a b c d e]

A thread pool (``codegen.thread_pools``) distributes the queues among any number of threads. A
thread completes its own queues and then visits all others. One thread computes most adjacent items
in sequence, for cache locality.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import IR, i64

#: 64-bit fields of a queue: the next item, the end, and padding to a cache line.
SHARE = 8


def cut(items: int, shares: int) -> list[int]:
    """The fields of ``shares`` queues of equal parts of ``items``."""
    words = []
    for i in range(shares):
        words += [items * i // shares, items * (i + 1) // shares, *[0] * (SHARE - 2)]
    return words


class WorkQueues(Loops):
    """Builder of a job function of a thread pool: ``function(arguments, begin, end, worker)``. The
    first two arguments are the address of the queues and their number."""

    def __init__(self, module: IR, name: str) -> None:
        self.function = ir.Function(module, SIGNATURE, name)
        self.function.attributes.add("nounwind")
        self.arguments, self.begin, self.end, self.worker = self.function.args
        self.b = Builder(self.function.append_basic_block("entry"))

    def argument(self, number: int | IR) -> IR:
        """Field ``number`` of the arguments."""
        place = i64(number) if isinstance(number, int) else number
        address = self.b.gep(self.arguments, [place], source_etype=i64)
        return self.b.load(address, typ=i64, align=8)

    @contextmanager
    def items(self) -> Iterator[IR]:
        """Loop over every item that this thread takes."""
        b, shares, count = self.b, self.argument(0), self.argument(1)
        with self.loop(self.begin, b.add(self.begin, count)) as number:
            share = b.add(shares, b.mul(b.srem(number, count), i64(SHARE * 8)))
            next_item = b.inttoptr(share, ir.PointerType())
            end = b.load(b.gep(next_item, [i64(1)], source_etype=i64), typ=i64, align=8)
            take, work, done = (b.append_basic_block(n) for n in ("take", "work", "done"))
            b.branch(take)
            b.position_at_end(take)
            item = b.atomic_rmw("add", next_item, i64(1), "monotonic")
            b.cbranch(b.icmp_signed("<", item, end), work, done)
            b.position_at_end(work)
            yield item
            b.branch(take)
            b.position_at_end(done)
