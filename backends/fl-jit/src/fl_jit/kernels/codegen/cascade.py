"""Cascade summation of floats over rows: sums in blocks, with the error growth of pairwise
summation.

Rows of a block are added one after the other. Then the sums of several blocks are added. The sums
of these make up the chunk's sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fl_jit.kernels.codegen import unroll
from fl_jit.kernels.codegen.accumulate import Accumulation
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Schedule
from fl_jit.kernels.codegen.vectors import IR, i64

#: Rows of a block (for short rows: iterations of the loop), and blocks that are added in sequence.
BLOCK_ROWS, BLOCKS = 32, 32
#: Levels below that of the chunk: one block, and ``BLOCKS`` blocks.
BELOW = 2


def sums_over_rows(program: Program, plan: Schedule) -> list[int]:
    """The reductions that are floating sums over rows.

    Column reductions among them need ``BELOW`` regions each.
    """
    made, values = program.instructions, program.values
    return [i for i in plan.late_reductions if made[i].op == "sum" and values[i].dtype.is_floating]


class Cascade(Accumulation):
    """A function that sums rows on several levels.

    sums         the reductions that it sums in this way
    sum_regions  of the worker's memory, ``BELOW`` for each column reduction among them
    spans        rows per sum, for each level below that of the chunk
    is_over      whether the chunk has more rows; else its own accumulators serve that level, too
    """

    sums: list[int]
    sum_regions: list[IR]
    spans: list[IR]
    is_over: list[IR]

    def _levels(self, number: int) -> int:
        return BELOW + 1 if number in self.sums else 1

    def _begin_sums(self, row_chunk: IR, rows: IR) -> None:
        """Clear the accumulators of a chunk of ``rows`` rows."""
        b, together = self.b, unroll.rows_together(self.program, self.plan)
        spans = [BLOCK_ROWS * BLOCKS**level for level in range(BELOW)]
        is_short = unroll.is_short(b, self.args["row_length"])
        self.spans = [b.select(is_short, i64(together * n), i64(n)) for n in spans]
        self.is_over = [b.icmp_signed("<", span, rows) for span in self.spans]
        for i in self.totals:
            for slot in self.total_accumulators[i]:
                b.store(self.identity(i), slot)
        self.column_starts = {i: self._starts(i, row_chunk) for i in self.columns}
        self._clear([(i, self._levels(i) - 1) for i in self.columns])
        if below := [(i, k) for i in self.columns for k in range(self._levels(i) - 1)]:
            with b.if_then(self.is_over[0]):
                self._clear(below)

    def _clear(self, columns: list[tuple[int, int]]) -> None:
        # Accumulators of column reductions, by number and level.
        if columns:
            with self._columns() as (linear, mask):
                for i, level in columns:
                    address = self._column_address(i, level, linear)
                    self.of.store(self.identity(i), address, mask)

    @contextmanager
    def _columns(self) -> Iterator[tuple[IR, IR]]:
        # Every vector of accumulators, and its mask of valid lanes.
        low, high = self.low, self.high
        if self.program.row_axes > 1:
            low, high = i64(0), self.args["row_length"]
        with self.loop(low, high, self.of.lanes) as counter:
            index = self.opaque(counter)
            yield index, self.of.first(self.b.sub(high, index))

    def _starts(self, number: int, row_chunk: IR) -> list[IR]:
        own = self.column_partials(number, row_chunk)
        if number not in self.sums:
            return [own]
        first = BELOW * [i for i in self.columns if i in self.sums].index(number)
        element = self.accumulator_type(number).element
        below = [self.at(r, element, self.b.neg(self.low)) for r in self.sum_regions[first:]]
        return [self.b.select(o, r, own) for o, r in zip(self.is_over, below)] + [own]

    def _sum_rows(self, first: IR, last: IR, rows: Callable[[IR, IR], None]) -> None:
        """``rows(low, high)`` for all rows of a chunk, in blocks if there are sums."""
        self._sum_level(first, last, rows, BELOW if self.sums else 0)

    def _sum_level(self, first: IR, last: IR, rows: Callable[[IR, IR], None], level: int) -> None:
        if not level:
            rows(first, last)
            return
        span = self.spans[level - 1]
        with self.loop(first, last, span) as begin:
            end = self.minimum(self.b.add(begin, span), last)
            self._sum_level(begin, end, rows, level - 1)
            self._carry(level - 1)

    def _carry(self, level: int) -> None:
        # Add the accumulators of a level to those of the next one, and clear them.
        for i in self.sums:
            if i in self.totals:
                kind = self.accumulator_type(i)
                here, there = self.total_accumulators[i][level : level + 2]
                loaded = [self.b.load(slot, typ=kind) for slot in (there, here)]
                self.b.store(self.combine(i, *loaded), there)
                self.b.store(self.identity(i), here)
        columns = [i for i in self.sums if i in self.columns]
        if not columns:
            return
        with self.b.if_then(self.is_over[level]), self._columns() as (linear, mask):
            for i in columns:
                element = self.accumulator_type(i).element
                here, there = (self._column_address(i, k, linear) for k in (level, level + 1))
                loaded = [self.of.load(element, at, mask) for at in (there, here)]
                self.of.store(self.combine(i, *loaded), there, mask)
                self.of.store(self.identity(i), here, mask)
