"""First phase of a kernel: a sweep over rows, in passes.

``sweep(arguments, begin, end, worker)`` computes chunks ``begin`` to ``end - 1``. If ``end`` is
less than ``begin``, it computes ``begin - 1`` down to ``end``. A chunk is a range of rows and a
tile of their last axis. Each chunk has its own partial results of column reductions and totals in
``partials``. No result therefore depends on the assignment of chunks to threads.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import unroll
from fl_jit.kernels.codegen.cascade import BELOW, sums_over_rows
from fl_jit.kernels.codegen.passes import Passes, Row
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import Schedule
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.transpose import ROWS
from fl_jit.kernels.codegen.vectors import IR, i32, i64, pointer


class Sweep(Passes):
    """Emits ``sweep`` into ``module``."""

    name = "sweep"

    def __init__(
        self,
        module: IR,
        program: Program,
        plan: Schedule,
        target: Target,
        lanes: int,
        draw: IR,
        streams: bool,
    ) -> None:
        super().__init__(module, self.name, program, plan, target, lanes)
        self.draw = draw
        self.streams = streams
        self.sums = sums_over_rows(program, plan)
        self.total_accumulators = {
            i: [self.variable(self.accumulator_type(i)) for _ in range(self._levels(i))]
            for i in self.totals
        }
        self.known: dict[int, IR] = {}
        for i in plan.once:
            self.known[i] = self.single(i, self.known, self.address)
        mine = self.b.mul(self.worker, self.args["worker_bytes"])
        scratch = self.b.add(self.args["scratch"], mine)
        draws = sum((step + 1) // 2 for _, _, step in plan.draws)
        transposed = self.layout.transposed
        blocks = ROWS * len(transposed)
        before_sums = blocks + len(plan.saved) + draws
        sums = BELOW * sum(i in self.columns for i in self.sums)
        self.regions = [self._region(scratch, i) for i in range(before_sums + sums)]
        self.blocks = {operand: self.regions[i * ROWS] for i, operand in enumerate(transposed)}
        self.sum_regions = self.regions[before_sums:]
        del self.regions[:blocks]
        self._all()
        if streams and target.has_fences:
            self.of.call("llvm.x86.sse.sfence", ir.VoidType())  # other threads may read them next
        self.b.ret_void()

    # chunks and rows

    def _all(self) -> None:
        b, (begin, end) = self.b, self.range
        is_reversed = b.icmp_signed("<", end, begin)
        low, high = self.minimum(begin, end), b.select(is_reversed, begin, end)
        with self.loop(low, high) as number:
            mirrored = b.sub(b.sub(b.add(low, high), i64(1)), number)
            self._chunk(b.select(is_reversed, mirrored, number))

    def _chunk(self, chunk: IR) -> None:
        b, args = self.b, self.args
        self.row_chunk = b.sdiv(chunk, args["tiles"])
        tile = b.srem(chunk, args["tiles"])
        self.low = b.mul(tile, args["tile"])
        self.high = self.minimum(b.add(self.low, args["tile"]), self.sizes[-1])
        first = b.mul(self.row_chunk, args["grain"])
        last = self.minimum(b.add(first, args["grain"]), args["rows"])
        self._begin_sums(self.row_chunk, b.sub(last, first))
        self._sum_rows(first, last, self._stretch)
        for i in self.totals:
            self._store_total(i, chunk)

    def _stretch(self, first: IR, last: IR) -> None:
        b = self.b
        if self.blocks:
            period = self.sizes[self.program.outer - 1]
            with self.stretches(first, last, ROWS, period) as (self.block_start, end):
                count = b.sub(end, self.block_start)
                for operand in self.blocks:
                    indices = self._outer_indices(self.block_start)
                    self._pack_rows(operand, indices, count)
                self._range(self.block_start, end)
        else:
            self._range(first, last)

    def _range(self, first: IR, last: IR) -> None:
        b, together = self.b, unroll.rows_together(self.program, self.plan)
        if unroll.has_short_form(self.program, self.plan):
            is_vector = b.icmp_signed("<=", self.args["row_length"], i64(self.of.lanes))
            mask = self.of.first(self.args["row_length"])
            with self.loop(first, b.select(is_vector, last, first)) as row:
                self._rows([row], mask)
            first = b.select(is_vector, last, first)
        middle = b.add(first, b.and_(b.sub(last, first), i64(-together)))
        if together > 1:
            middle = b.select(unroll.is_short(b, self.args["row_length"]), middle, first)
        with self.loop(first, middle, together) as row:
            self._rows([b.add(row, i64(k)) for k in range(together)])
        if together > 1:
            with self.loop(middle, last) as row:
                self._rows([row])

    def _rows(self, numbers: list[IR], mask: IR | None = None) -> None:
        rows = [self._begun(number) for number in numbers]
        for level, each in enumerate(self.plan.passes):
            if mask is None:
                self._pass(each, rows)
            else:
                self._vector_pass(each, rows[0], mask)
            for row in rows:
                self._single_values(level + 1, row)
        for row in rows:
            for output in self.plan.row_outputs:
                operand = self.output_number(output)
                self.store_scalar(operand, row.operands[operand], row.known[output.value])

    def _begun(self, number: IR) -> Row:
        outer = list(range(self.program.outer))
        indices = self._outer_indices(number)
        count = len(self.layout.operand_axes)
        operands = [self.moved(i, self.address(i), outer, indices) for i in range(count)]
        for operand in self.blocks:
            operands[operand] = self._packed_row(operand, self.b.sub(number, self.block_start))
        skips = [self._draw(number, k, *draw) for k, draw in enumerate(self.plan.draws)]
        row = Row(number, indices, operands, skips, dict(self.known))
        self._single_values(0, row)
        return row

    def _outer_indices(self, row: IR) -> list[IR]:
        indices: list[IR] = []
        for axis in range(self.program.outer - 1, 0, -1):
            indices.append(self.b.srem(row, self.sizes[axis]))
            row = self.b.sdiv(row, self.sizes[axis])
        return [row, *reversed(indices)] if self.program.outer else []

    def _single_values(self, level: int, row: Row) -> None:
        if level >= len(self.plan.per_row):
            return
        for i in self.plan.per_row[level]:
            made = self.program.instructions[i]
            if made.op == "index":
                row.known[i] = self.of.splat(row.indices[made.parameter])
            else:
                row.known[i] = self.single(i, row.known, lambda operand: row.operands[operand])

    # random words

    def _draw(self, row: IR, number: int, seed: int, offset: int, step: int) -> IR:
        # Fill a region with the random words of a row; returns the number to skip at its beginning.
        b, args = self.b, self.args
        start = b.add(b.mul(row, args["row_length"]), self.low)
        first = b.add(self._first_lane(offset), b.mul(start, i64(step)))
        skip = b.and_(first, i64(3))
        length = b.sub(self.high, self.low)
        if self.program.row_axes > 1:
            length = args["row_length"]
        count = b.lshr(b.add(b.add(skip, b.mul(length, i64(step))), i64(3)), i64(2))
        b.call(
            self.draw,
            [self._bits_region(number), self._first_lane(seed), b.lshr(first, i64(2)), count],
        )
        return skip

    def _first_lane(self, number: int) -> IR:
        return self.b.extract_element(self.known[number], i32(0))

    def _region(self, scratch: IR, number: int) -> IR:
        start = self.b.add(scratch, self.b.mul(self.args["region"], i64(number)))
        return self.b.inttoptr(start, pointer)
