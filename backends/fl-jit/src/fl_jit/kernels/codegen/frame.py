"""Common base of a kernel's two functions: row-invariant values, instructions, and reductions."""

from __future__ import annotations

from collections.abc import Callable

from fl_jit.kernels.codegen import emit_elementwise, half, reductions
from fl_jit.kernels.codegen.function import Position
from fl_jit.kernels.codegen.instructions import ARRAYS
from fl_jit.kernels.codegen.operands import Operands
from fl_jit.kernels.codegen.vectors import IR, Vectors, element_type, f64, i1, i64, pointer
from fl_tensor import dtypes
from fl_tensor.dtypes import DType

#: Instructions that are not pipelined, and their lanes where all lanes are equal.
_DIVIDING, FEW = frozenset(("divide", "sqrt", "rsqrt")), 4


class Frame(Operands):
    """A function that computes values of its program."""

    def instruction(self, number: int, known: dict[int, IR]) -> IR:
        """Instruction ``number`` on operands that are ``known``; not for ``SOURCES``."""
        op, operands, _ = self.program.instructions[number]
        dtype_of = [self.program.values[i].dtype for i in operands]
        vectors = [known[i] for i in operands]
        if op == "where":
            return self.b.select(*vectors)
        if op == "cast":
            target = self.program.values[number].dtype
            return emit_elementwise.cast(self.of, dtype_of[0], target, vectors[0])
        return emit_elementwise.emit(self.of, op, dtype_of[0], *vectors)

    def scalar(self, number: int) -> IR:
        """A scalar argument of the call, in every lane."""
        dtype, argument = self.program.values[number].dtype, self.args[f"scalar {number}"]
        b, element = self.b, element_type(self.program.values[number].dtype)
        if not dtype.is_floating:
            narrow = argument if element == i64 else b.trunc(argument, element)
            return self.of.splat(b.icmp_signed("!=", argument, i64(0)) if element == i1 else narrow)
        wide = self.of.splat(b.bitcast(argument, f64))
        return emit_elementwise.cast(self.of, dtypes.float64, dtype, wide)

    def constant(self, number: int) -> IR:
        """A constant of the program, in every lane."""
        dtype, value = self.program.instructions[number].parameter
        if dtype.kind == "b":
            value = bool(value)
        elif dtype.is_integer:
            value = int(value)
        vector = self.of.constant(element_type(dtype), value)
        return half.rounded(self.of, dtype, vector) if dtype in dtypes.HALF else vector

    def single(self, number: int, known: dict[int, IR], row: Callable[[int], IR]) -> IR:
        """A row-invariant value; ``row(operand)`` is the address of the row."""
        op, operands, _ = self.program.instructions[number]
        if op == "scalar":
            return self.scalar(number)
        if op == "constant":
            return self.constant(number)
        if op in ARRAYS:
            operand = self.input_numbers[number]
            address = row(operand)
            if op == "gather":
                address = self.at_index(operand, address, known[operands[0]])
            return self.load_scalar(operand, address)
        if op in _DIVIDING and self.of.lanes > FEW:
            return self._few(number, known)
        return self.instruction(number, known)

    def value(
        self, number: int, position: Position, known: dict[int, IR], row: Callable[[int], IR]
    ) -> IR:
        """A vector of a row at ``position``; ``row`` as in ``single``. Not for ``random_bits``."""
        op, _, parameter = self.program.instructions[number]
        if op in ARRAYS:
            operand = self.input_numbers[number]
            address = self.element_address(operand, row(operand), position)
            if op == "gather":
                return self.gathered(number, address, known, position.mask)
            return self.load(operand, address, position.mask)
        return self.index(parameter, position) if op == "index" else self.instruction(number, known)

    def element_address(self, operand: int, row: IR, position: Position) -> IR:
        """The address of an operand at ``position`` of the row that begins at ``row``."""
        axes = range(self.program.outer, self.program.rank)
        return self.moved(operand, row, axes, [*position.middle, position.index])

    def _few(self, number: int, known: dict[int, IR]) -> IR:
        # In a few lanes, because a division of wide vectors takes several times as long.
        wide, lanes = self.of, self.of.lanes
        operands = self.program.instructions[number].operands
        first = list(range(FEW))
        few = {i: wide.shuffle(known[i], known[i], first) for i in operands}
        self.of = Vectors(self.b, wide.target, FEW)
        result = self.instruction(number, few)
        self.of = wide
        return wide.shuffle(result, result, [0] * lanes)

    def index(self, axis: int, position: Position) -> IR:
        """The index of a row axis."""
        if axis == self.program.rank - 1:
            return self.b.add(self.of.splat(position.index), self.of.iota(i64))
        return self.of.splat(position.middle[axis - self.program.outer])

    # reductions, by the number of the instruction

    def accumulator(self, number: int) -> DType:
        """The dtype of the accumulator; uint8 for bools."""
        op, operands, _ = self.program.instructions[number]
        dtype = self.program.values[operands[0]].dtype
        if op in ("sum", "prod"):
            return dtypes.accumulator(dtype)
        if dtype in dtypes.HALF:
            return dtypes.float32
        return dtypes.uint8 if dtype.kind == "b" else dtype

    def accumulator_type(self, number: int) -> IR:
        """The type of a vector of accumulators."""
        return self.of.of(element_type(self.accumulator(number)))

    def identity(self, number: int) -> IR:
        """The identity element, in every lane."""
        op = self.program.instructions[number].op
        return reductions.identity(self.of, op, self.accumulator(number))

    def combine(self, number: int, x: IR, y: IR) -> IR:
        """The combination of two partial results."""
        op = self.program.instructions[number].op
        return reductions.combine(self.of, op, self.accumulator(number), x, y)

    def across(self, number: int, lanes: IR) -> IR:
        """All lanes combined, in every lane."""
        width = self.of.lanes
        while width > 1:
            width //= 2
            turned = [(i + width) % self.of.lanes for i in range(self.of.lanes)]
            lanes = self.combine(number, lanes, self.of.shuffle(lanes, lanes, turned))
        return lanes

    def finished(self, number: int, total: IR) -> IR:
        """The result of the reduction from its accumulated total."""
        dtype = self.program.values[number].dtype
        if dtype.kind == "b":
            return self.b.icmp_signed("!=", total, self.of.like(total, 0))
        return half.rounded(self.of, dtype, total) if dtype in dtypes.HALF else total

    # Partial results: for each column reduction one row per chunk of rows, 8 bytes per element.
    # Then for each total one number per chunk.

    def column_partials(self, number: int, row_chunk: IR) -> IR:
        """The address of a row chunk's partial results of a column reduction."""
        b, length = self.b, self.args["row_length"]
        which = b.mul(row_chunk, i64(len(self.columns)))
        which = b.add(which, i64(self.columns.index(number)))
        start = b.add(self.args["partials"], b.mul(b.mul(which, length), i64(8)))
        return b.inttoptr(start, pointer)

    def total_partials(self, number: int) -> IR:
        """The address of the partial results of a total."""
        b, args = self.b, self.args
        before = b.mul(b.mul(args["row_chunks"], i64(len(self.columns))), args["row_length"])
        mine = b.mul(args["chunks"], i64(self.totals.index(number)))
        start = b.add(args["partials"], b.mul(b.add(before, mine), i64(8)))
        return b.inttoptr(start, pointer)
