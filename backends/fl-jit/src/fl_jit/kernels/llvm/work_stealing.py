"""Work stealing among the threads of a loop nest.

Each thread has a queue of work items and steals from the queues of others when its own is empty.

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

from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import IR, i64, pointer

#: Fields of a queue: the next item, the end, and padding to a cache line.
QUEUE = 8


def queues(items: int, count: int) -> list[int]:
    """The fields of ``count`` queues of equal parts of ``items``."""
    fields = []
    for i in range(count):
        fields += [items * i // count, items * (i + 1) // count, *[0] * (QUEUE - 2)]
    return fields


@contextmanager
def steal(nest: Loops, begin: IR, first_queue: IR, count: IR) -> Iterator[IR]:
    """Loop over every item that this thread takes. It starts with the queue ``begin``;
    ``first_queue`` is the address of the first of ``count`` queues."""
    b = nest.b
    with nest.loop(begin, b.add(begin, count)) as number:
        queue = b.add(first_queue, b.mul(b.srem(number, count), i64(QUEUE * 8)))
        next_item = b.inttoptr(queue, pointer)
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
