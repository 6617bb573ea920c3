"""Passes over a row: the loads, computations, reductions and stores of a sweep."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import emit_elementwise, unroll
from fl_jit.kernels.codegen.cascade import Cascade
from fl_jit.kernels.codegen.function import Place
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
        rooms = {
            i: [self.variable(self.accumulator_type(i)) for _ in range(copies)]
            for i in each.reductions
            if self.program.instructions[i].parameter != "column"
        }
        blocks = {i: self.variable(self.accumulator_type(i)) for i in rooms}
        totals = {i: self._row_total(i) for i in rooms}
        for i, variables in rooms.items():
            for variable in (*variables, blocks[i]):
                self.b.store(self.identity(i), variable)

        def put_aside() -> None:
            for i, variables in rooms.items():
                self._put_aside(i, variables, blocks[i])

        def put_blocks_aside() -> None:
            for i, total in totals.items():
                self._put_aside(i, [blocks[i]], total)

        def body(place: Place) -> None:
            # All loads precede all stores: a store may delay loads of other rows.
            known = [self._place(each, place, row) for row in rows]
            for i in each.reductions:
                operand = self.program.instructions[i].operands[0]
                self._accumulate(i, place, [found[operand] for found in known], rooms.get(i))
            for row, found in zip(rows, known):
                self._write(each, place, row, found)

        long_sums = any(self._is_float_sum(i) for i in rooms)
        ends = (put_aside, put_blocks_aside)
        self.walk(self.low, self.high, copies, body, ends if long_sums else None)
        if not long_sums:
            put_aside()
            put_blocks_aside()
        for i in rooms:
            if self.program.instructions[i].parameter == "row":
                total = self.b.load(totals[i], typ=self.accumulator_type(i))
                (row,) = rows
                row.known[i] = self.finished(i, self.across(i, total))

    def _vector_pass(self, each: Pass, row: Row, mask: IR) -> None:
        # For rows of one vector (``unroll.has_short_form``).
        place = Place((), i64(0), i64(0), mask, 0)
        known = self._place(each, place, row)
        for i in each.reductions:
            value = self._widened(i, known[self.program.instructions[i].operands[0]])
            lanes = self.b.select(mask, value, self.identity(i))
            row.known[i] = self.finished(i, self.across(i, lanes))
        self._write(each, place, row, known)

    def _place(self, each: Pass, place: Place, row: Row) -> dict[int, IR]:
        # The values of one vector of a row.
        known = dict(row.known)
        for i in each.reload:
            known[i] = self._reload(i, place)
        for i in each.compute:
            known[i] = self._value(i, place, row, known)
            if i in each.keep:
                self._keep(i, place, known[i])
        return known

    def _write(self, each: Pass, place: Place, row: Row, known: dict[int, IR]) -> None:
        for output in each.outputs:
            operand = self.output_number(output)
            address, value = self._operand(operand, place, row), known[output.value]
            if output.at is not None:
                address = self.at_index(operand, address, known[output.at])
                before = self.load(operand, address, place.mask)
                dtype = self.program.values[output.value].dtype
                value = emit_elementwise.emit(self.of, "add", dtype, before, value)
            streams = self.streams and output.at is None
            self.store(operand, address, value, place.mask, streams)

    def _value(self, number: int, place: Place, row: Row, known: dict[int, IR]) -> IR:
        op, _, parameter = self.program.instructions[number]
        if op == "input":
            operand = self.input_numbers[number]
            return self.load(operand, self._operand(operand, place, row), place.mask)
        if op == "gather":
            operand = self.input_numbers[number]
            return self.gathered(number, self._operand(operand, place, row), known, place.mask)
        if op == "index":
            return self.index(parameter, place)
        if op == "random_bits":
            return self._random_bits(number, place, row)
        return self.instruction(number, known)

    def _operand(self, operand: int, place: Place, row: Row) -> IR:
        axes = range(self.program.outer, self.program.rank)
        return self.moved(operand, row.operands[operand], axes, [*place.middle, place.index])

    # values that a later pass needs

    def _kept_address(self, number: int, place: Place) -> IR:
        region = self.regions[self.plan.saved.index(number)]
        element = element_type(self.program.values[number].dtype)
        return self.at(region, element, place.linear)

    def _keep(self, number: int, place: Place, value: IR) -> None:
        # The region has space for a vector beyond the end of a row.
        self.of.store(value, self._kept_address(number, place))

    def _reload(self, number: int, place: Place) -> IR:
        element = element_type(self.program.values[number].dtype)
        return self.of.load(element, self._kept_address(number, place))

    # random words, which are generated before a row begins

    def _random_bits(self, number: int, place: Place, row: Row) -> IR:
        b, lanes = self.b, self.of.lanes
        seed, offset = self.program.instructions[number].operands
        step, phase = self.program.instructions[number].parameter
        which = self.plan.draws.index((seed, offset, step))
        index = b.mul(b.sub(place.linear, self.low), i64(step))
        index = b.add(index, row.skips[which])
        address = self.at(self._words_region(which), i32, index)
        wide = ir.VectorType(i32, step * lanes)
        found = b.load(address, typ=wide, align=4)
        if step == 1:
            return found
        return self.of.shuffle(found, found, [phase + step * lane for lane in range(lanes)])

    def _words_region(self, number: int) -> IR:
        before = sum((step + 1) // 2 for _, _, step in self.plan.draws[:number])
        return self.regions[len(self.plan.saved) + before]
