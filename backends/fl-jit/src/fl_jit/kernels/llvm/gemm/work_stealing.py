"""How the items of a loop nest are shared out: each thread has a share, and helps with others' when
it is done, so that no thread waits while there is work.

    share 0   [0 1 2 3 4|        an item is taken by adding 1 to the share's ``next``: whoever got
    share 1   |5 6 7 8 9|        a number below ``end`` does that item, once
    share 2   |a b c d e]

A pool of threads (``codegen.pools``) is given the shares to do, in whatever number of threads it
has: a thread does those it was given and then goes round all others. Neighbouring items are mostly
done by one thread, one after the other, which is what caches like.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import IR, i64

#: Words of a share: the next item, the end, and the rest of a cache line of its own.
SHARE = 8


def cut(items: int, shares: int) -> list[int]:
    """The words of ``shares`` equal shares of ``items``."""
    words = []
    for i in range(shares):
        words += [items * i // shares, items * (i + 1) // shares, *[0] * (SHARE - 2)]
    return words


class WorkQueues(Loops):
    """A function of a pool's jobs in the making: ``function(arguments, begin, end, worker)``, whose
    first two arguments are the address of the shares and their number."""

    def __init__(self, module: IR, name: str) -> None:
        self.function = ir.Function(module, SIGNATURE, name)
        self.function.attributes.add("nounwind")
        self.arguments, self.begin, self.end, self.worker = self.function.args
        self.b = Builder(self.function.append_basic_block("entry"))

    def argument(self, number: int | IR) -> IR:
        """Word ``number`` of the arguments."""
        place = i64(number) if isinstance(number, int) else number
        address = self.b.gep(self.arguments, [place], source_etype=i64)
        return self.b.load(address, typ=i64, align=8)

    @contextmanager
    def items(self) -> Iterator[IR]:
        """Every item that this thread gets hold of."""
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
