"""Operands of a kernel: access patterns, loads and stores, and memory types by dtype."""

from __future__ import annotations

from collections.abc import Sequence

from fl_jit.kernels.codegen import half
from fl_jit.kernels.codegen.function import Function
from fl_jit.kernels.codegen.vectors import IR, element_bytes, i8, i32, i64, memory_type, pointer
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


class Operands(Function):
    """A function with the operands of its program: inputs, then outputs, by number."""

    def letters(self, operand: int) -> str:
        """The access letters of the operand, one per axis."""
        return self.layout.operand_axes[operand]

    def moved(self, operand: int, address: IR, axes: Sequence[int], indices: Sequence[IR]) -> IR:
        """``address`` of an operand, advanced along ``axes`` by ``indices``."""
        letters = self.letters(operand)
        for axis, index in zip(axes, indices):
            address = self._along(operand, letters[axis], address, axis, index)
        return address

    def _along(self, operand: int, letter: str, address: IR, axis: int, index: IR) -> IR:
        if letter == ".":
            return address
        if letter == "s":
            index = self.b.mul(index, self.args[f"stride {operand} {axis}"])
        elif letter == "2":
            index = self.b.mul(index, i64(2))
        return self.at(address, self.memory(operand), index)

    def address(self, operand: int) -> IR:
        """The address of the operand."""
        return self.b.inttoptr(self.args[f"address {operand}"], pointer)

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
        """The operand number of ``output``, by identity."""
        is_output = [output is other for other in self.program.outputs]
        return len(self.program.inputs) + is_output.index(True)

    def load(self, operand: int, address: IR, mask: IR | None) -> IR:
        """A vector along the last axis, from ``address``."""
        element, rank = self.memory(operand), self.program.rank
        if self.letters(operand)[-1] == "c":
            return self.computed(self.dtype(operand), self.of.load(element, address, mask))
        if self.letters(operand)[-1] == ".":
            return self.load_scalar(operand, address)
        if self.letters(operand)[-1] == "2":
            vector = self.of.load_every_second(element, address, mask)
            return self.computed(self.dtype(operand), vector)
        distances = self.of.distances(self.args[f"stride {operand} {rank - 1}"])
        vector = self.of.gather(element, address, distances, mask)
        return self.computed(self.dtype(operand), vector)

    def load_scalar(self, operand: int, address: IR) -> IR:
        """One element, broadcast to every lane."""
        element = self.b.load(address, typ=self.memory(operand), align=self._align(operand))
        return self.computed(self.dtype(operand), self.of.splat(element))

    def store(
        self, operand: int, address: IR, value: IR, mask: IR | None, streams: bool = False
    ) -> None:
        """Store a vector along the last axis to ``address``; ``streams``: a non-temporal store."""
        value = self.stored(self.dtype(operand), value)
        if self.letters(operand)[-1] == "c":
            self.of.store(value, address, mask, streams)
        else:
            distances = self.of.distances(self.args[f"stride {operand} {self.program.rank - 1}"])
            self.of.scatter(value, address, distances, mask)

    def store_scalar(self, operand: int, address: IR, value: IR) -> None:
        """Store the first lane of ``value``."""
        value = self.stored(self.dtype(operand), value)
        first = self.b.extract_element(value, i32(0))
        self.b.store(first, address, align=self._align(operand))

    def _align(self, operand: int) -> int:
        return element_bytes(self.memory(operand))

    def computed(self, dtype: DType, value: IR) -> IR:
        """A value from memory, converted to its type in registers."""
        if dtype.kind == "b":
            return self.b.icmp_signed("!=", value, self.of.like(value, 0))
        return half.widen(self.of, dtype, value) if dtype in dtypes.HALF else value

    def stored(self, dtype: DType, value: IR) -> IR:
        """The reverse of ``computed``."""
        if dtype.kind == "b":
            return self.b.zext(value, self.of.of(i8))
        return half.narrow(self.of, dtype, value) if dtype in dtypes.HALF else value

    # operands with an indexed axis

    def index_distances(self, operand: int, index: IR) -> IR:
        """Each lane's index as an offset in elements.

        Indices out of range are clamped: a kernel cannot raise, and must not access memory outside
        of the operand.
        """
        of, b = self.of, self.b
        if index.type.element != i64:
            index = b.sext(index, of.of(i64))
        last = of.splat(b.sub(self.args[f"index size {operand}"], i64(1)))
        index = b.select(b.icmp_signed("<", index, last), index, last)
        zero = of.constant(i64, 0)
        index = b.select(b.icmp_signed(">", index, zero), index, zero)
        return b.mul(index, of.splat(self.args[f"index stride {operand}"]))

    def at_index(self, operand: int, address: IR, index: IR) -> IR:
        """``address`` advanced by an index that is the same in all lanes."""
        distance = self.b.extract_element(self.index_distances(operand, index), i32(0))
        return self.at(address, self.memory(operand), distance)

    def gathered(self, number: int, address: IR, known: dict[int, IR], mask: IR | None) -> IR:
        """A vector along the last axis, from ``address``, at the known indices."""
        (index,) = self.program.instructions[number].operands
        operand = self.input_numbers[number]
        if not self.program.values[index].per_element:
            return self.load(operand, self.at_index(operand, address, known[index]), mask)
        distances = self.index_distances(operand, known[index])
        letter = self.letters(operand)[-1]
        if letter != ".":
            stride = self.args.get(f"stride {operand} {self.program.rank - 1}", i64(1))
            distances = self.b.add(distances, self.of.distances(stride))
        vector = self.of.gather(self.memory(operand), address, distances, mask)
        return self.computed(self.dtype(operand), vector)
