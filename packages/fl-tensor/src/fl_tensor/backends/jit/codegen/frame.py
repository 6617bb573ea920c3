"""What the two functions of a kernel have in common: arguments, operands, loops, single values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from llvmlite import ir

from fl_tensor import dtypes
from fl_tensor.backends.jit.codegen import emit_elementwise, half, reductions
from fl_tensor.backends.jit.codegen.instructions import ARRAYS
from fl_tensor.backends.jit.codegen.layout import Layout
from fl_tensor.backends.jit.codegen.program import Program
from fl_tensor.backends.jit.codegen.schedule import Schedule
from fl_tensor.backends.jit.codegen.target import Target
from fl_tensor.backends.jit.codegen.vectors import (
    IR,
    Vectors,
    element_bytes,
    element_type,
    f64,
    i1,
    i8,
    i32,
    i64,
    memory_type,
    pointer,
)
from fl_tensor.dtypes import DType

#: sweep(arguments, first chunk, last chunk + 1, number of the worker)
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
#: Elements after which partial sums are put aside: what is added to a sum stays near it in size.
BLOCK = 4096


class Place(NamedTuple):
    """One vector of a row: indices of the row axes before the last, and the first index of the
    last; its distance from the beginning of the row; which lanes count (None: all); and the number
    of the copy of the loop's body."""

    middle: tuple[IR, ...]
    index: IR
    linear: IR
    mask: IR | None
    copy: int


class Frame:
    """A function in the making, with the arguments of ``SIGNATURE``."""

    def __init__(
        self, module: IR, name: str, program: Program, plan: Schedule, target: Target, lanes: int
    ) -> None:
        self.program = program
        self.plan = plan
        made = program.instructions
        self.columns = [i for i in plan.late_reductions if made[i].parameter == "column"]
        self.totals = [i for i in plan.late_reductions if made[i].parameter == "all"]
        self.layout = Layout(program)
        self.function = ir.Function(module, SIGNATURE, name)
        self.function.attributes.add("nounwind")
        self.arguments, self.begin, self.end, self.worker = self.function.args
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.of = Vectors(self.b, target, lanes)
        self.words: dict[str, IR] = {}
        for name, i in self.layout.words.items():
            address = self.b.gep(self.arguments, [i64(i)], source_etype=i64)
            self.words[name] = self.b.load(address, typ=i64, align=8)
        self.sizes = [self.words[f"size {axis}"] for axis in range(program.rank)]
        self.input_numbers = {value: i for i, value in enumerate(program.inputs)}

    # loops

    @contextmanager
    def loop(self, low: IR, high: IR, step: int = 1) -> Iterator[IR]:
        """``for index in range(low, high, step)``."""
        b = self.b
        before = b.block
        head, body, after = (b.append_basic_block(n) for n in ("head", "body", "after"))
        b.branch(head)
        b.position_at_end(head)
        index = b.phi(i64)
        index.add_incoming(low, before)
        b.cbranch(b.icmp_signed("<", index, high), body, after)
        b.position_at_end(body)
        yield index
        index.add_incoming(b.add(index, i64(step)), b.block)
        b.branch(head)
        b.position_at_end(after)

    def minimum(self, x: IR, y: IR) -> IR:
        """The smaller of two integers."""
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def variable(self, kind: IR) -> IR:
        """Room for a value that loops change; LLVM makes a register of it."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def walk(
        self,
        low: IR,
        high: IR,
        copies: int,
        body: Callable[[Place], None],
        block_end: Callable[[], None] | None = None,
    ) -> None:
        """``body`` at every vector of a row, of which ``low`` to ``high`` of the last axis count;
        ``copies`` vectors per turn of the loop. ``block_end`` after every ``BLOCK`` elements."""
        b, axes = self.b, range(self.program.outer, self.program.rank - 1)
        with ExitStack() as stack:
            middle: list[IR] = []
            linear: IR = i64(0)
            for axis in axes:
                index = stack.enter_context(self.loop(i64(0), self.sizes[axis]))
                middle.append(index)
                linear = b.add(b.mul(linear, self.sizes[axis]), index)
            linear = b.mul(linear, self.sizes[-1]) if middle else i64(0)
            if block_end:
                low = stack.enter_context(self.loop(low, high, BLOCK))
                high = self.minimum(b.add(low, i64(BLOCK)), high)
            self._vectors(tuple(middle), linear, low, high, copies, body)
            if block_end:
                block_end()

    def _vectors(
        self,
        middle: tuple[IR, ...],
        linear: IR,
        low: IR,
        high: IR,
        copies: int,
        body: Callable[[Place], None],
    ) -> None:
        b, lanes = self.b, self.of.lanes
        step = copies * lanes
        whole = b.add(low, b.and_(b.sub(high, low), i64(-step)))
        with self.loop(low, whole, step) as index:
            for copy in range(copies):
                here = b.add(index, i64(copy * lanes))
                body(Place(middle, here, b.add(linear, here), None, copy))
        with self.loop(whole, high, lanes) as index:
            mask = self.of.first(b.sub(high, index))
            body(Place(middle, index, b.add(linear, index), mask, 0))

    # operands in memory

    def moved(self, operand: int, address: IR, axes: Sequence[int], indices: Sequence[IR]) -> IR:
        """``address`` of an operand, further along ``axes`` by ``indices``."""
        letters = self.layout.operand_axes[operand]
        for axis, index in zip(axes, indices):
            if letters[axis] == "s":
                index = self.b.mul(index, self.words[f"stride {operand} {axis}"])
            if letters[axis] != ".":
                address = self.at(address, self.memory(operand), index)
        return address

    def address(self, operand: int) -> IR:
        """Where the operand begins."""
        return self.b.inttoptr(self.words[f"address {operand}"], pointer)

    def at(self, address: IR, element: IR, index: IR) -> IR:
        """The address of element ``index``."""
        return self.b.gep(address, [index], source_etype=element)

    def dtype(self, operand: int) -> DType:
        """The dtype of an input or output."""
        inputs = self.program.inputs
        if operand < len(inputs):
            return self.program.values[inputs[operand]].dtype
        return self.program.values[self.program.outputs[operand - len(inputs)].value].dtype

    def memory(self, operand: int) -> IR:
        """The type of the operand's elements in memory."""
        return memory_type(self.dtype(operand))

    def output_number(self, output: object) -> int:
        """The operand that ``output`` (the object, not one like it) is."""
        found = [output is other for other in self.program.outputs]
        return len(self.program.inputs) + found.index(True)

    def load(self, operand: int, address: IR, mask: IR | None) -> IR:
        """A vector along the last axis, from ``address``."""
        element, rank = self.memory(operand), self.program.rank
        if self.layout.operand_axes[operand][-1] == "c":
            return self.computed(self.dtype(operand), self.of.load(element, address, mask))
        if self.layout.operand_axes[operand][-1] == ".":
            return self.load_one(operand, address)
        apart = self.of.apart(self.words[f"stride {operand} {rank - 1}"])
        found = self.of.gather(element, address, apart, mask)
        return self.computed(self.dtype(operand), found)

    def load_one(self, operand: int, address: IR) -> IR:
        """One element, in every lane."""
        found = self.b.load(address, typ=self.memory(operand), align=self._align(operand))
        return self.computed(self.dtype(operand), self.of.splat(found))

    def store(self, operand: int, address: IR, value: IR, mask: IR | None) -> None:
        """A vector along the last axis, to ``address``."""
        value = self.stored(self.dtype(operand), value)
        if self.layout.operand_axes[operand][-1] == "c":
            self.of.store(value, address, mask)
        else:
            apart = self.of.apart(self.words[f"stride {operand} {self.program.rank - 1}"])
            self.of.scatter(value, address, apart, mask)

    def store_one(self, operand: int, address: IR, value: IR) -> None:
        """The first lane of ``value``."""
        value = self.stored(self.dtype(operand), value)
        first = self.b.extract_element(value, i32(0))
        self.b.store(first, address, align=self._align(operand))

    def _align(self, operand: int) -> int:
        return element_bytes(self.memory(operand))

    def computed(self, dtype: DType, found: IR) -> IR:
        """What was in memory, as it is computed with."""
        if dtype.kind == "b":
            return self.b.icmp_signed("!=", found, self.of.like(found, 0))
        return half.widen(self.of, dtype, found) if dtype in dtypes.HALF else found

    def stored(self, dtype: DType, value: IR) -> IR:
        """The reverse of ``computed``."""
        if dtype.kind == "b":
            return self.b.zext(value, self.of.of(i8))
        return half.narrow(self.of, dtype, value) if dtype in dtypes.HALF else value

    # values

    def instruction(self, number: int, known: dict[int, IR]) -> IR:
        """Instruction ``number`` on operands that are ``known``; none of ``SOURCES``."""
        op, operands, _ = self.program.instructions[number]
        dtype_of = [self.program.values[i].dtype for i in operands]
        found = [known[i] for i in operands]
        if op == "where":
            return self.b.select(*found)
        if op == "cast":
            target = self.program.values[number].dtype
            return emit_elementwise.cast(self.of, dtype_of[0], target, found[0])
        return emit_elementwise.emit(self.of, op, dtype_of[0], *found)

    def scalar(self, number: int) -> IR:
        """A number that is given with the call, in every lane."""
        dtype, word = self.program.values[number].dtype, self.words[f"scalar {number}"]
        b, element = self.b, element_type(self.program.values[number].dtype)
        if not dtype.is_floating:
            narrow = word if element == i64 else b.trunc(word, element)
            return self.of.splat(b.icmp_signed("!=", word, i64(0)) if element == i1 else narrow)
        wide = self.of.splat(b.bitcast(word, f64))
        return emit_elementwise.cast(self.of, dtypes.float64, dtype, wide)

    def constant(self, number: int) -> IR:
        """A number of the program, in every lane."""
        dtype, value = self.program.instructions[number].parameter
        if dtype.kind == "b":
            value = bool(value)
        elif dtype.is_integer:
            value = int(value)
        found = self.of.constant(element_type(dtype), value)
        return half.rounded(self.of, dtype, found) if dtype in dtypes.HALF else found

    def single(self, number: int, known: dict[int, IR], row: Callable[[int], IR]) -> IR:
        """A value that is the same in all of a row; ``row(operand)`` is where the row begins."""
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
            return self.load_one(operand, address)
        return self.instruction(number, known)

    # operands with an axis that an index walks along

    def index_distances(self, operand: int, index: IR) -> IR:
        """How far each lane's index leads, in elements. One that is out of range leads to the
        nearest element: a kernel cannot raise, and must not read what is not the operand's."""
        of, b = self.of, self.b
        if index.type.element != i64:
            index = b.sext(index, of.of(i64))
        last = of.splat(b.sub(self.words[f"index size {operand}"], i64(1)))
        index = b.select(b.icmp_signed("<", index, last), index, last)
        zero = of.constant(i64, 0)
        index = b.select(b.icmp_signed(">", index, zero), index, zero)
        return b.mul(index, of.splat(self.words[f"index stride {operand}"]))

    def at_index(self, operand: int, address: IR, index: IR) -> IR:
        """``address`` further along by an index that is the same in all lanes."""
        distance = self.b.extract_element(self.index_distances(operand, index), i32(0))
        return self.at(address, self.memory(operand), distance)

    def gathered(self, number: int, address: IR, known: dict[int, IR], mask: IR | None) -> IR:
        """A vector along the last axis, from ``address``, at the indices that are known."""
        (index,) = self.program.instructions[number].operands
        operand = self.input_numbers[number]
        if not self.program.values[index].by_place:
            return self.load(operand, self.at_index(operand, address, known[index]), mask)
        distances = self.index_distances(operand, known[index])
        letter = self.layout.operand_axes[operand][-1]
        if letter != ".":
            stride = self.words.get(f"stride {operand} {self.program.rank - 1}", i64(1))
            distances = self.b.add(distances, self.of.apart(stride))
        found = self.of.gather(self.memory(operand), address, distances, mask)
        return self.computed(self.dtype(operand), found)

    def index(self, axis: int, place: Place) -> IR:
        """The index of a row axis."""
        if axis == self.program.rank - 1:
            return self.b.add(self.of.splat(place.index), self.of.iota(i64))
        return self.of.splat(place.middle[axis - self.program.outer])

    # reductions, by the number of the instruction

    def accumulator(self, number: int) -> DType:
        """What is accumulated in: bools count as uint8."""
        op, operands, _ = self.program.instructions[number]
        dtype = self.program.values[operands[0]].dtype
        if op in ("sum", "prod"):
            return dtypes.accumulator(dtype)
        if dtype in dtypes.HALF:
            return dtypes.float32
        return dtypes.uint8 if dtype.kind == "b" else dtype

    def accumulator_type(self, number: int) -> IR:
        """A vector of accumulators."""
        return self.of.of(element_type(self.accumulator(number)))

    def identity(self, number: int) -> IR:
        """The vector that changes no result."""
        op = self.program.instructions[number].op
        return reductions.identity(self.of, op, self.accumulator(number))

    def combine(self, number: int, x: IR, y: IR) -> IR:
        """Two partial results as one."""
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
        """A total of accumulators as the result of the reduction."""
        dtype = self.program.values[number].dtype
        if dtype.kind == "b":
            return self.b.icmp_signed("!=", total, self.of.like(total, 0))
        return half.rounded(self.of, dtype, total) if dtype in dtypes.HALF else total

    # Partial results: per chunk of rows a row of each column reduction, 8 bytes for an element;
    # then of each total one number per chunk.

    def column_partials(self, number: int, row_chunk: IR) -> IR:
        """Where what a chunk of rows found of a column reduction begins."""
        b, length = self.b, self.words["row_length"]
        which = b.mul(row_chunk, i64(len(self.columns)))
        which = b.add(which, i64(self.columns.index(number)))
        start = b.add(self.words["partials"], b.mul(b.mul(which, length), i64(8)))
        return b.inttoptr(start, pointer)

    def total_partials(self, number: int) -> IR:
        """Where what the chunks found of a total begins."""
        b, words = self.b, self.words
        before = b.mul(b.mul(words["row_chunks"], i64(len(self.columns))), words["row_length"])
        mine = b.mul(words["chunks"], i64(self.totals.index(number)))
        start = b.add(words["partials"], b.mul(b.add(before, mine), i64(8)))
        return b.inttoptr(start, pointer)
