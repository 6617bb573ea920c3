"""Second phase of a kernel: it combines the partial results of chunks when all rows are done.

``finish(arguments, begin, end, worker)`` computes pieces ``begin`` to ``end - 1`` of the last axis,
of ``PIECE`` elements each. Piece 0 also writes the single numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.frame import Frame
from fl_jit.kernels.codegen.function import Position
from fl_jit.kernels.codegen.instructions import REDUCTIONS
from fl_jit.kernels.codegen.program import Output, Program
from fl_jit.kernels.codegen.schedule import Schedule, needed
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64

#: Elements of the last axis that are combined at a time.
PIECE = 256
#: Partial results that are combined in sequence.
JOINED = 8


class Finish(Frame):
    """Emits ``finish`` into ``module``."""

    def __init__(
        self, module: IR, program: Program, plan: Schedule, target: Target, lanes: int
    ) -> None:
        super().__init__(module, "finish", program, plan, target, lanes)
        outputs = plan.late_outputs
        self.live = needed(program, [output.value for output in outputs], beyond=False)
        known = {i: self._total(i) for i in self.totals}
        for i in self.live:
            if not program.values[i].per_element and i not in known:
                known[i] = self.single(i, known, self.address)
        single = [o for o in outputs if not o.axes.strip(".")]
        columns = [o for o in outputs if o.axes.strip(".")]
        if single:
            with self.b.if_then(self.b.icmp_signed("==", self.range[0], i64(0))):
                for output in single:
                    operand = self.output_number(output)
                    self.store_scalar(operand, self.address(operand), known[output.value])
        if columns:
            with self.loop(*self.range) as piece:
                low = self.b.mul(piece, i64(PIECE))
                high = self.minimum(self.b.add(low, i64(PIECE)), self.sizes[-1])
                self.walk(low, high, 1, lambda at: self._columns_at(at, dict(known), columns))
        self.b.ret_void()

    def _columns_at(self, position: Position, known: dict[int, IR], outputs: list[Output]) -> None:
        for i in self.live:
            if i not in known:
                known[i] = self._value(i, position, known)
        for output in outputs:
            operand = self.output_number(output)
            address = self.element_address(operand, self.address(operand), position)
            self.store(operand, address, known[output.value], position.mask)

    def _value(self, number: int, position: Position, known: dict[int, IR]) -> IR:
        op = self.program.instructions[number].op
        if op in REDUCTIONS:
            return self._column(number, position)
        if op == "random_bits":
            raise ProgramError(
                "[random_bits] random words beside what is known only when all rows are done: make "
                "it a second program"
            )
        return self.value(number, position, known, self.address)

    def _column(self, number: int, position: Position) -> IR:
        kind = self.accumulator_type(number)

        def load_chunk(chunk: IR) -> IR:
            start = self.column_partials(number, chunk)
            address = self.at(start, kind.element, position.linear)
            return self.of.load(kind.element, address, position.mask)

        lanes = self._joined_chunks(number, self.args["row_chunks"], 1, load_chunk)
        return self.finished(number, lanes)

    def _total(self, number: int) -> IR:
        kind = self.accumulator_type(number)
        start, chunks = self.total_partials(number), self.args["chunks"]

        def load_chunk(chunk: IR) -> IR:
            mask = self.of.first(self.b.sub(chunks, chunk))
            lanes = self.of.load(kind.element, self.at(start, kind.element, chunk), mask)
            return self.b.select(mask, lanes, self.identity(number))

        lanes = self._joined_chunks(number, chunks, self.of.lanes, load_chunk)
        return self.finished(number, self.across(number, lanes))

    def _joined_chunks(self, number: int, chunks: IR, step: int, load: Callable[[IR], IR]) -> IR:
        # In groups, then the groups: sums over many chunks are as accurate as those in a chunk.
        kind, none = self.accumulator_type(number), self.identity(number)
        total, partial = self.variable(kind), self.variable(kind)
        self.b.store(none, total)
        with self.loop(i64(0), chunks, JOINED * step) as first:
            self.b.store(none, partial)
            last = self.minimum(self.b.add(first, i64(JOINED * step)), chunks)
            with self.loop(first, last, step) as chunk:
                joined = self.combine(number, self.b.load(partial, typ=kind), load(chunk))
                self.b.store(joined, partial)
            joined = self.combine(number, *(self.b.load(v, typ=kind) for v in (total, partial)))
            self.b.store(joined, total)
        return self.b.load(total, typ=kind)
