"""The first function of a kernel: it goes over rows, in passes.

``sweep(arguments, begin, end, worker)`` does chunks ``begin`` to ``end - 1``. A chunk is a range of
rows and a tile of their last axis; what it finds of column reductions and totals goes to a place of
its own in ``partials``, so that no result depends on who did which chunk.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor import dtypes
from fl_tensor.backends.jit.codegen import emit_elementwise
from fl_tensor.backends.jit.codegen.frame import Frame
from fl_tensor.backends.jit.codegen.function import Place
from fl_tensor.backends.jit.codegen.instructions import EXPENSIVE, REDUCTIONS
from fl_tensor.backends.jit.codegen.program import Program
from fl_tensor.backends.jit.codegen.schedule import Pass, Schedule
from fl_tensor.backends.jit.codegen.target import Target
from fl_tensor.backends.jit.codegen.vectors import IR, element_type, i32, i64, pointer


class Sweep(Frame):
    """Emits ``sweep`` into ``module``."""

    def __init__(
        self, module: IR, program: Program, plan: Schedule, target: Target, lanes: int, draw: IR
    ) -> None:
        super().__init__(module, "sweep", program, plan, target, lanes)
        self.draw = draw
        self.total_rooms = {i: self.variable(self.accumulator_type(i)) for i in self.totals}
        self.known: dict[int, IR] = {}
        for i in plan.once:
            self.known[i] = self.single(i, self.known, self.address)
        mine = self.b.mul(self.worker, self.words["worker_bytes"])
        scratch = self.b.add(self.words["scratch"], mine)
        draws = sum((step + 1) // 2 for _, _, step in plan.draws)
        self.regions = [self._region(scratch, i) for i in range(len(plan.kept) + draws)]
        with self.loop(self.begin, self.end) as chunk:
            self._chunk(chunk)
        self.b.ret_void()

    # chunks and rows

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
        with self.loop(first, last) as row:
            self._row(row)
        for i in self.totals:
            self._put_total(i, chunk)

    def _row(self, row: IR) -> None:
        outer = list(range(self.program.outer))
        self.outer_indices = self._outer_indices(row)
        operands = range(len(self.layout.operand_axes))
        self.rows = [self.moved(i, self.address(i), outer, self.outer_indices) for i in operands]
        self.row_number = row
        self.skips = [self._draw(k, *draw) for k, draw in enumerate(self.plan.draws)]
        known = dict(self.known)
        self._single_values(0, known)
        for level, each in enumerate(self.plan.passes):
            self._pass(each, known)
            self._single_values(level + 1, known)
        for output in self.plan.row_outputs:
            operand = self.output_number(output)
            self.store_one(operand, self.rows[operand], known[output.value])

    def _outer_indices(self, row: IR) -> list[IR]:
        found: list[IR] = []
        for axis in range(self.program.outer - 1, 0, -1):
            found.append(self.b.srem(row, self.sizes[axis]))
            row = self.b.sdiv(row, self.sizes[axis])
        return [row, *reversed(found)] if self.program.outer else []

    def _single_values(self, level: int, known: dict[int, IR]) -> None:
        if level >= len(self.plan.by_row):
            return
        for i in self.plan.by_row[level]:
            made = self.program.instructions[i]
            if made.op == "index":
                known[i] = self.of.splat(self.outer_indices[made.parameter])
            else:
                known[i] = self.single(i, known, lambda operand: self.rows[operand])

    # random words

    def _draw(self, number: int, seed: int, offset: int, step: int) -> IR:
        # Fills a region with the words of this row; returns how many at its beginning to skip.
        b, words = self.b, self.words
        start = b.add(b.mul(self.row_number, words["row_length"]), self.low)
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

    def _random_bits(self, number: int, place: Place) -> IR:
        b, lanes = self.b, self.of.lanes
        seed, offset = self.program.instructions[number].operands
        step, phase = self.program.instructions[number].parameter
        which = self.plan.draws.index((seed, offset, step))
        index = b.mul(b.sub(place.linear, self.low), i64(step))
        index = b.add(index, self.skips[which])
        address = self.at(self._words_region(which), i32, index)
        wide = ir.VectorType(i32, step * lanes)
        found = b.load(address, typ=wide, align=4)
        if step == 1:
            return found
        return self.of.shuffle(found, found, [phase + step * lane for lane in range(lanes)])

    # passes

    def _pass(self, each: Pass, known: dict[int, IR]) -> None:
        copies = _copies(self.program, each)
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
            self._place(each, place, dict(known), rooms)

        long_sums = any(self._is_float_sum(i) for i in rooms)
        self.walk(self.low, self.high, copies, body, put_aside if long_sums else None)
        if not long_sums:
            put_aside()
        for i in rooms:
            if self.program.instructions[i].parameter == "row":
                total = self.b.load(totals[i], typ=self.accumulator_type(i))
                known[i] = self.finished(i, self.across(i, total))

    def _is_float_sum(self, number: int) -> bool:
        made = self.program.instructions[number]
        return made.op in ("sum", "prod") and self.program.values[number].dtype.is_floating

    def _place(
        self, each: Pass, place: Place, known: dict[int, IR], rooms: dict[int, list[IR]]
    ) -> None:
        for i in each.reload:
            known[i] = self._reload(i, place)
        for i in each.compute:
            known[i] = self._value(i, place, known)
            if i in each.keep:
                self._keep(i, place, known[i])
        for i in each.reductions:
            self._accumulate(i, place, known, rooms.get(i))
        for output in each.outputs:
            operand = self.output_number(output)
            address, value = self._operand(operand, place), known[output.value]
            if output.at is not None:
                address = self.at_index(operand, address, known[output.at])
                before = self.load(operand, address, place.mask)
                dtype = self.program.values[output.value].dtype
                value = emit_elementwise.emit(self.of, "add", dtype, before, value)
            self.store(operand, address, value, place.mask)

    def _value(self, number: int, place: Place, known: dict[int, IR]) -> IR:
        op, _, parameter = self.program.instructions[number]
        if op == "input":
            operand = self.input_numbers[number]
            return self.load(operand, self._operand(operand, place), place.mask)
        if op == "gather":
            operand = self.input_numbers[number]
            return self.gathered(number, self._operand(operand, place), known, place.mask)
        if op == "index":
            return self.index(parameter, place)
        if op == "random_bits":
            return self._random_bits(number, place)
        return self.instruction(number, known)

    def _operand(self, operand: int, place: Place) -> IR:
        axes = range(self.program.outer, self.program.rank)
        return self.moved(operand, self.rows[operand], axes, [*place.middle, place.index])

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

    # reductions

    def _accumulate(
        self, number: int, place: Place, known: dict[int, IR], rooms: list[IR] | None
    ) -> None:
        op, (operand,), _ = self.program.instructions[number]
        value, source = known[operand], self.program.values[operand].dtype
        wide = self.accumulator(number)
        if source not in dtypes.HALF:  # those are float32 already
            value = emit_elementwise.cast(self.of, source, wide, value)
        kind = self.accumulator_type(number)
        if rooms is None:
            address = self._column_address(number, place.linear)
            before = self.of.load(kind.element, address, place.mask)
            self.of.store(self.combine(number, before, value), address, place.mask)
            return
        if place.mask is not None:
            value = self.b.select(place.mask, value, self.identity(number))
        room = rooms[place.copy]
        self.b.store(self.combine(number, self.b.load(room, typ=kind), value), room)

    def _row_total(self, number: int) -> IR:
        if number in self.total_rooms:
            return self.total_rooms[number]
        room = self.variable(self.accumulator_type(number))
        self.b.store(self.identity(number), room)
        return room

    def _put_aside(self, number: int, rooms: list[IR], total: IR) -> None:
        kind = self.accumulator_type(number)
        found = [self.b.load(room, typ=kind) for room in rooms]
        while len(found) > 1:
            found = [self.combine(number, x, y) for x, y in zip(found[::2], found[1::2])]
        joined = self.combine(number, self.b.load(total, typ=kind), found[0])
        self.b.store(joined, total)
        for room in rooms:
            self.b.store(self.identity(number), room)

    # partial results

    def _column_address(self, number: int, linear: IR) -> IR:
        start = self.column_starts[number]
        return self.at(start, self.accumulator_type(number).element, linear)

    def _clear_column(self, number: int) -> None:
        low, high = self.low, self.high
        if self.program.row_axes > 1:
            low, high = i64(0), self.words["row_length"]
        with self.loop(low, high, self.of.lanes) as index:
            mask = self.of.first(self.b.sub(high, index))
            self.of.store(self.identity(number), self._column_address(number, index), mask)

    def _put_total(self, number: int, chunk: IR) -> None:
        kind = self.accumulator_type(number)
        lanes = self.across(number, self.b.load(self.total_rooms[number], typ=kind))
        address = self.at(self.total_partials(number), kind.element, chunk)
        self.b.store(self.b.extract_element(lanes, i32(0)), address)


def _copies(program: Program, each: Pass) -> int:
    """How many vectors a turn of the loop does: enough to hide the latency of short bodies."""
    work = sum(
        8 if program.instructions[i].op in EXPENSIVE else 1
        for i in each.compute
        if program.instructions[i].op not in REDUCTIONS
    )
    return 4 if work <= 2 else 2 if work <= 20 else 1
