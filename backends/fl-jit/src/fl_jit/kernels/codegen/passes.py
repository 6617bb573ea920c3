"""Passes over a row: the loads, computations, reductions and stores of a sweep."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import emit_elementwise, unroll
from fl_jit.kernels.codegen.cascade import Cascade
from fl_jit.kernels.codegen.function import Position
from fl_jit.kernels.codegen.schedule import Pass
from fl_jit.kernels.codegen.transpose import Transposition
from fl_jit.kernels.codegen.vectors import IR, element_type, i32, i64


class Row(NamedTuple):
    """The state of a row in progress.

    It holds its number, its indices along the outer axes, the address of each operand, the number
    of random words to skip, and its row-invariant values.
    """

    number: IR
    indices: list[IR]
    operands: list[IR]
    skips: list[IR]
    known: dict[int, IR]


class Passes(Cascade, Transposition):
    """A function with passes.

    ``regions`` of the worker's memory hold the values that a later pass needs, then random words.
    With ``streams``, outputs use non-temporal stores.
    """

    regions: list[IR]
    streams: bool

    def _pass(self, each: Pass, rows: list[Row]) -> None:
        copies = unroll.copies(self.program, self.plan, each) if len(rows) == 1 else 1
        accumulators = {
            i: [self.variable(self.accumulator_type(i)) for _ in range(copies)]
            for i in each.reductions
            if self.program.instructions[i].parameter != "column"
        }
        blocks = {i: self.variable(self.accumulator_type(i)) for i in accumulators}
        totals = {i: self._row_total(i) for i in accumulators}
        for i, variables in accumulators.items():
            for variable in (*variables, blocks[i]):
                self.b.store(self.identity(i), variable)

        def flush() -> None:
            for i, variables in accumulators.items():
                self._flush(i, variables, blocks[i])

        def flush_blocks() -> None:
            for i, total in totals.items():
                self._flush(i, [blocks[i]], total)

        def body(position: Position) -> None:
            # All loads precede all stores: a store may delay loads of other rows.
            by_row = [self._values(each, position, row) for row in rows]
            for i in each.reductions:
                operand = self.program.instructions[i].operands[0]
                self._accumulate(
                    i, position, [values[operand] for values in by_row], accumulators.get(i)
                )
            for row, values in zip(rows, by_row):
                self._write(each, position, row, values)

        long_sums = any(self._is_float_sum(i) for i in accumulators)
        ends = (flush, flush_blocks)
        self.walk(self.low, self.high, copies, body, ends if long_sums else None)
        if not long_sums:
            flush()
            flush_blocks()
        for i in accumulators:
            if self.program.instructions[i].parameter == "row":
                total = self.b.load(totals[i], typ=self.accumulator_type(i))
                (row,) = rows
                row.known[i] = self.finished(i, self.across(i, total))

    def _vector_pass(self, each: Pass, row: Row, mask: IR) -> None:
        # For rows of one vector (``unroll.has_short_form``).
        position = Position((), i64(0), i64(0), mask, 0)
        known = self._values(each, position, row)
        for i in each.reductions:
            value = self._widened(i, known[self.program.instructions[i].operands[0]])
            lanes = self.b.select(mask, value, self.identity(i))
            row.known[i] = self.finished(i, self.across(i, lanes))
        self._write(each, position, row, known)

    def _values(self, each: Pass, position: Position, row: Row) -> dict[int, IR]:
        # The values of one vector of a row.
        known = dict(row.known)
        for i in each.reload:
            known[i] = self._reload(i, position)
        for i in each.compute:
            if self.program.instructions[i].op == "random_bits":
                known[i] = self._random_bits(i, position, row)
            else:
                known[i] = self.value(i, position, known, row.operands.__getitem__)
            if i in each.save:
                self._save(i, position, known[i])
        return known

    def _write(self, each: Pass, position: Position, row: Row, known: dict[int, IR]) -> None:
        for output in each.outputs:
            operand = self.output_number(output)
            address = self.element_address(operand, row.operands[operand], position)
            value = known[output.value]
            if output.at is not None:
                address = self.at_index(operand, address, known[output.at])
                before = self.load(operand, address, position.mask)
                dtype = self.program.values[output.value].dtype
                value = emit_elementwise.emit(self.of, "add", dtype, before, value)
            streams = self.streams and output.at is None
            self.store(operand, address, value, position.mask, streams)

    # values that a later pass needs

    def _saved_address(self, number: int, position: Position) -> IR:
        region = self.regions[self.plan.saved.index(number)]
        element = element_type(self.program.values[number].dtype)
        return self.at(region, element, position.linear)

    def _save(self, number: int, position: Position, value: IR) -> None:
        # The region has space for a vector beyond the end of a row.
        self.of.store(value, self._saved_address(number, position))

    def _reload(self, number: int, position: Position) -> IR:
        element = element_type(self.program.values[number].dtype)
        return self.of.load(element, self._saved_address(number, position))

    # random words, which are generated before a row begins

    def _random_bits(self, number: int, position: Position, row: Row) -> IR:
        b, lanes = self.b, self.of.lanes
        seed, offset = self.program.instructions[number].operands
        step, phase = self.program.instructions[number].parameter
        which = self.plan.draws.index((seed, offset, step))
        index = b.mul(b.sub(position.linear, self.low), i64(step))
        index = b.add(index, row.skips[which])
        address = self.at(self._bits_region(which), i32, index)
        wide = ir.VectorType(i32, step * lanes)
        bits = b.load(address, typ=wide, align=4)
        if step == 1:
            return bits
        return self.of.shuffle(bits, bits, [phase + step * lane for lane in range(lanes)])

    def _bits_region(self, number: int) -> IR:
        before = sum((step + 1) // 2 for _, _, step in self.plan.draws[:number])
        return self.regions[len(self.plan.saved) + before]
