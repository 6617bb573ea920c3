"""Loops and variables of a function in the making."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, i64, pointer


class Loops:
    """Appends loops where ``b``, an IR builder, stands, and leaves it behind them."""

    b: IR

    @contextmanager
    def loop(self, low: IR, high: IR, step: IR | int = 1) -> Iterator[IR]:
        """``for index in range(low, high, step)``."""
        b = self.b
        by = i64(step) if isinstance(step, int) else step
        before = b.block
        head, body, after = (b.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(i64)
        index.add_incoming(low, before)
        b.cbranch(b.icmp_signed("<", index, high), body, after)
        b.position_at_end(body)
        yield index
        index.add_incoming(b.add(index, by), b.block)
        b.branch(head)
        b.position_at_end(after)

    def minimum(self, x: IR, y: IR) -> IR:
        """The smaller of two integers."""
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def variable(self, kind: IR) -> IR:
        """Room for a value that loops change; LLVM makes a register of it."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def room(self, kind: IR, count: int) -> IR:
        """The address of room for ``count`` values, until the function returns."""
        with self.b.goto_entry_block():
            start = self.b.alloca(kind, size=i64(count))
            return self.b.inttoptr(self.b.ptrtoint(start, i64), pointer)

    def opaque(self, number: IR) -> IR:
        """The same int64 or address, of which LLVM does not know where it comes from. It would look
        for the best way to step every address, for longer than all else takes, and often find a
        worse one: base + index is what there is."""
        kind = ir.FunctionType(number.type, [number.type])
        return self.b.asm(kind, "", "=r,0", [number], side_effect=False)


class OuterLoops(Loops):
    """Loops around calls of other functions, or around a few loads and stores. LLVM does not know
    where their indices come from, so it does not look for ways to step all the addresses that are
    computed from them."""

    @contextmanager
    def loop(self, low: IR, high: IR, step: IR | int = 1) -> Iterator[IR]:
        with super().loop(low, high, step) as index:
            yield self.opaque(index)
