"""The first function of a kernel: it goes over rows, in passes.

``sweep(arguments, begin, end, worker)`` does chunks ``begin`` to ``end - 1``, or from ``begin - 1``
down to ``end`` where that is less. A chunk is a range of
rows and a tile of their last axis; what it finds of column reductions and totals goes to a place of
its own in ``partials``, so that no result depends on who did which chunk.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_tensor.codegen import emit_elementwise, unroll
from fl_tensor.codegen.function import Place
from fl_tensor.codegen.program import Program
from fl_tensor.codegen.schedule import Pass, Schedule
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.transpose import ROWS, Transposition
from fl_tensor.codegen.vectors import IR, element_type, i32, i64, pointer


class Row(NamedTuple):
    """A row that is being computed: its number, its indices along the outer axes, where each
    operand begins, how many random words to skip, and the values that are the same in all of it."""

    number: IR
    indices: list[IR]
    operands: list[IR]
    skips: list[IR]
    known: dict[int, IR]


class Sweep(Transposition):
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
        self.total_rooms = {i: self.variable(self.accumulator_type(i)) for i in self.totals}
        self.known: dict[int, IR] = {}
        for i in plan.once:
            self.known[i] = self.single(i, self.known, self.address)
        mine = self.b.mul(self.worker, self.words["worker_bytes"])
        scratch = self.b.add(self.words["scratch"], mine)
        draws = sum((step + 1) // 2 for _, _, step in plan.draws)
        transposed = self.layout.transposed
        blocks = ROWS * len(transposed)
        self.regions = [self._region(scratch, i) for i in range(blocks + len(plan.kept) + draws)]
        self.blocks = {operand: self.regions[i * ROWS] for i, operand in enumerate(transposed)}
        del self.regions[:blocks]
        self._all()
        if streams and target.has_fences:
            self.of.call("llvm.x86.sse.sfence", ir.VoidType())  # others may read it from here on
        self.b.ret_void()

    # chunks and rows

    def _all(self) -> None:
        b, (begin, end) = self.b, self.range
        is_turned = b.icmp_signed("<", end, begin)
        low, high = self.minimum(begin, end), b.select(is_turned, begin, end)
        with self.loop(low, high) as number:
            mirrored = b.sub(b.sub(b.add(low, high), i64(1)), number)
            self._chunk(b.select(is_turned, mirrored, number))

    def _chunk(self, chunk: IR) -> None:
        b, words = self.b, self.words
        self.row_chunk = b.sdiv(chunk, words["tiles"])
        tile = b.srem(chunk, words["tiles"])
        self.low = b.mul(tile, words["tile"])
        self.high = self.minimum(b.add(self.low, words["tile"]), self.sizes[-1])
        first = b.mul(self.row_chunk, words["grain"])
        last = self.minimum(b.add(first, words["grain"]), words["rows"])
        for i in self.totals:
            self.b.store(self.identity(i), self.total_rooms[i])
        self.column_starts = {i: self.column_partials(i, self.row_chunk) for i in self.columns}
        for i in self.columns:
            self._clear_column(i)
        if self.blocks:
            period = self.sizes[self.program.outer - 1]
            with self.stretches(first, last, ROWS, period) as (self.block_start, end):
                count = b.sub(end, self.block_start)
                for operand in self.blocks:
                    indices = self._outer_indices(self.block_start)
                    self._bring_together(operand, indices, count)
                self._range(self.block_start, end)
        else:
            self._range(first, last)
        for i in self.totals:
            self._put_total(i, chunk)

    def _range(self, first: IR, last: IR) -> None:
        b, together = self.b, unroll.rows_together(self.program, self.plan)
        whole = b.add(first, b.and_(b.sub(last, first), i64(-together)))
        if together > 1:
            is_short = b.icmp_signed("<=", self.words["row_length"], i64(unroll.SHORT))
            whole = b.select(is_short, whole, first)
        with self.loop(first, whole, together) as row:
            self._rows([b.add(row, i64(k)) for k in range(together)])
        if together > 1:
            with self.loop(whole, last) as row:
                self._rows([row])

    def _rows(self, numbers: list[IR]) -> None:
        rows = [self._begun(number) for number in numbers]
        for level, each in enumerate(self.plan.passes):
            self._pass(each, rows)
            for row in rows:
                self._single_values(level + 1, row)
        for row in rows:
            for output in self.plan.row_outputs:
                operand = self.output_number(output)
                self.store_one(operand, row.operands[operand], row.known[output.value])

    def _begun(self, number: IR) -> Row:
        outer = list(range(self.program.outer))
        indices = self._outer_indices(number)
        count = len(self.layout.operand_axes)
        operands = [self.moved(i, self.address(i), outer, indices) for i in range(count)]
        for operand in self.blocks:
            operands[operand] = self._brought_row(operand, self.b.sub(number, self.block_start))
        skips = [self._draw(number, k, *draw) for k, draw in enumerate(self.plan.draws)]
        row = Row(number, indices, operands, skips, dict(self.known))
        self._single_values(0, row)
        return row

    def _outer_indices(self, row: IR) -> list[IR]:
        found: list[IR] = []
        for axis in range(self.program.outer - 1, 0, -1):
            found.append(self.b.srem(row, self.sizes[axis]))
            row = self.b.sdiv(row, self.sizes[axis])
        return [row, *reversed(found)] if self.program.outer else []

    def _single_values(self, level: int, row: Row) -> None:
        if level >= len(self.plan.by_row):
            return
        for i in self.plan.by_row[level]:
            made = self.program.instructions[i]
            if made.op == "index":
                row.known[i] = self.of.splat(row.indices[made.parameter])
            else:
                row.known[i] = self.single(i, row.known, lambda operand: row.operands[operand])

    # random words

    def _draw(self, row: IR, number: int, seed: int, offset: int, step: int) -> IR:
        # Fills a region with the words of a row; returns how many at its beginning to skip.
        b, words = self.b, self.words
        start = b.add(b.mul(row, words["row_length"]), self.low)
        first = b.add(self._first_lane(offset), b.mul(start, i64(step)))
        skip = b.and_(first, i64(3))
        length = b.sub(self.high, self.low)
        if self.program.row_axes > 1:
            length = words["row_length"]
        count = b.lshr(b.add(b.add(skip, b.mul(length, i64(step))), i64(3)), i64(2))
        b.call(
            self.draw,
            [self._words_region(number), self._first_lane(seed), b.lshr(first, i64(2)), count],
        )
        return skip

    def _first_lane(self, number: int) -> IR:
        return self.b.extract_element(self.known[number], i32(0))

    def _words_region(self, number: int) -> IR:
        before = sum((step + 1) // 2 for _, _, step in self.plan.draws[:number])
        return self.regions[len(self.plan.kept) + before]

    def _region(self, scratch: IR, number: int) -> IR:
        start = self.b.add(scratch, self.b.mul(self.words["region"], i64(number)))
        return self.b.inttoptr(start, pointer)

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

    # passes

    def _pass(self, each: Pass, rows: list[Row]) -> None:
        copies = unroll.copies(self.program, self.plan, each) if len(rows) == 1 else 1
        rooms = {
            i: [self.variable(self.accumulator_type(i)) for _ in range(copies)]
            for i in each.reductions
            if self.program.instructions[i].parameter != "column"
        }
        totals = {i: self._row_total(i) for i in rooms}
        for i, variables in rooms.items():
            for variable in variables:
                self.b.store(self.identity(i), variable)

        def put_aside() -> None:
            for i, variables in rooms.items():
                self._put_aside(i, variables, totals[i])

        def body(place: Place) -> None:
            # All is read before anything is written: a store may hold up loads of other rows.
            known = [self._place(each, place, row) for row in rows]
            for i in each.reductions:
                operand = self.program.instructions[i].operands[0]
                self._accumulate(i, place, [found[operand] for found in known], rooms.get(i))
            for row, found in zip(rows, known):
                self._write(each, place, row, found)

        long_sums = any(self._is_float_sum(i) for i in rooms)
        self.walk(self.low, self.high, copies, body, put_aside if long_sums else None)
        if not long_sums:
            put_aside()
        for i in rooms:
            if self.program.instructions[i].parameter == "row":
                total = self.b.load(totals[i], typ=self.accumulator_type(i))
                (row,) = rows
                row.known[i] = self.finished(i, self.across(i, total))

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
        region = self.regions[self.plan.kept.index(number)]
        element = element_type(self.program.values[number].dtype)
        return self.at(region, element, place.linear)

    def _keep(self, number: int, place: Place, value: IR) -> None:
        # Beyond the end of a row there is room for a vector.
        self.of.store(value, self._kept_address(number, place))

    def _reload(self, number: int, place: Place) -> IR:
        element = element_type(self.program.values[number].dtype)
        return self.of.load(element, self._kept_address(number, place))
