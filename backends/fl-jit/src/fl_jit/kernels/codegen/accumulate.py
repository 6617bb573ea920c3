"""Accumulators of the sweep: in registers along a row, in memory over the rows of a chunk."""

from __future__ import annotations

from fl_jit.kernels.codegen import emit_elementwise
from fl_jit.kernels.codegen.frame import Frame
from fl_jit.kernels.codegen.function import Position
from fl_jit.kernels.codegen.vectors import IR, i32
from fl_tensor import dtypes


class Accumulation(Frame):
    """A function with partial results.

    low, high        the tile of the row in progress
    column_starts    addresses of the chunk's accumulators of column reductions
    total_rooms      accumulators of totals: rows are added to the first one; the last one holds the
                     chunk's total
    """

    low: IR
    high: IR
    column_starts: dict[int, list[IR]]
    total_accumulators: dict[int, list[IR]]

    def _widened(self, number: int, value: IR) -> IR:
        # The operand of a reduction, converted to the accumulator's dtype.
        (operand,) = self.program.instructions[number].operands
        source = self.program.values[operand].dtype
        if source in dtypes.HALF:  # those are float32 already
            return value
        return emit_elementwise.cast(self.of, source, self.accumulator(number), value)

    def _accumulate(
        self, number: int, position: Position, values: list[IR], accumulators: list[IR] | None
    ) -> None:
        """Accumulate one vector of each of several rows.

        Without ``accumulators``, the accumulators are those of columns, in memory.
        """
        value = self._joined(number, [self._widened(number, value) for value in values])
        kind = self.accumulator_type(number)
        if accumulators is None:
            address = self._column_address(number, 0, position.linear)
            before = self.of.load(kind.element, address, position.mask)
            self.of.store(self.combine(number, before, value), address, position.mask)
            return
        if position.mask is not None:
            value = self.b.select(position.mask, value, self.identity(number))
        slot = accumulators[position.copy]
        # The NaN check uses the new value, so that it does not depend on the accumulator.
        self.b.store(self.combine(number, value, self.b.load(slot, typ=kind)), slot)

    def _joined(self, number: int, values: list[IR]) -> IR:
        while len(values) > 1:
            values = [self.combine(number, x, y) for x, y in zip(values[::2], values[1::2])]
        return values[0]

    def _is_float_sum(self, number: int) -> bool:
        made = self.program.instructions[number]
        return made.op in ("sum", "prod") and self.program.values[number].dtype.is_floating

    # totals and results of rows

    def _row_total(self, number: int) -> IR:
        if number in self.total_accumulators:
            return self.total_accumulators[number][0]
        slot = self.variable(self.accumulator_type(number))
        self.b.store(self.identity(number), slot)
        return slot

    def _flush(self, number: int, accumulators: list[IR], total: IR) -> None:
        kind = self.accumulator_type(number)
        value = self._joined(number, [self.b.load(slot, typ=kind) for slot in accumulators])
        self.b.store(self.combine(number, self.b.load(total, typ=kind), value), total)
        for slot in accumulators:
            self.b.store(self.identity(number), slot)

    def _store_total(self, number: int, chunk: IR) -> None:
        kind = self.accumulator_type(number)
        lanes = self.across(number, self.b.load(self.total_accumulators[number][-1], typ=kind))
        address = self.at(self.total_partials(number), kind.element, chunk)
        self.b.store(self.b.extract_element(lanes, i32(0)), address)

    # columns

    def _column_address(self, number: int, level: int, linear: IR) -> IR:
        start = self.column_starts[number][level]
        return self.at(start, self.accumulator_type(number).element, linear)
