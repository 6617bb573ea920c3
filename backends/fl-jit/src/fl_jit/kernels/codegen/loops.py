"""Loops and variables of a function under construction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, i64, pointer


class Loops:
    """Appends loops at the position of ``b``, an IR builder, which then stands behind them."""

    b: IR

    @contextmanager
    def loop(self, low: IR, high: IR, step: IR | int = 1) -> Iterator[IR]:
        """``for index in range(low, high, step)``."""
        by = i64(step) if isinstance(step, int) else step
        with self.while_less(low, high) as (index, following):
            yield index
            following.append(self.b.add(index, by))

    @contextmanager
    def while_less(self, low: IR, high: IR) -> Iterator[tuple[IR, list[IR]]]:
        """``index = low; while index < high``: the index, and a list for its next value."""
        b, following = self.b, list[IR]()
        before = b.block
        head, body, after = (b.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(i64)
        index.add_incoming(low, before)
        b.cbranch(b.icmp_signed("<", index, high), body, after)
        b.position_at_end(body)
        yield index, following
        index.add_incoming(following[0], b.block)
        b.branch(head)
        b.position_at_end(after)

    def minimum(self, x: IR, y: IR) -> IR:
        """The smaller of two integers."""
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def variable(self, kind: IR) -> IR:
        """A stack slot for a value that loops change; LLVM promotes it to a register."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def room(self, kind: IR, count: int) -> IR:
        """The address of stack memory for ``count`` values, valid until the function returns."""
        with self.b.goto_entry_block():
            start = self.b.alloca(kind, size=i64(count))
            return self.b.inttoptr(self.b.ptrtoint(start, i64), pointer)

    def opaque(self, number: IR) -> IR:
        """The same int64 or address, opaque to LLVM.

        Otherwise LLVM's loop strength reduction would search for increments of every address. That
        takes longer than all other passes, and often gives slower code than base + index.
        """
        kind = ir.FunctionType(number.type, [number.type])
        return self.b.asm(kind, "", "=r,0", [number], side_effect=False)


class OuterLoops(Loops):
    """Loops around calls of other functions, or around a few loads and stores.

    Their indices are opaque to LLVM, which therefore skips loop strength reduction of the
    addresses.
    """

    @contextmanager
    def loop(self, low: IR, high: IR, step: IR | int = 1) -> Iterator[IR]:
        with super().loop(low, high, step) as index:
            yield self.opaque(index)
