"""Builder of loop nests: job functions (``codegen.thread_pools``) with named argument fields.

    nest = LoopNestBuilder(module, "loop", FIELDS, machine, dtype)
    with nest.loop(nest.begin, nest.end) as item:
        ... nest.args["rows"] ...

Sizes, distances in bytes and addresses are fields, so that one nest serves every shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen import half
from fl_jit.kernels.codegen.arg_struct import FIELD, ArgStruct
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.loops import Loops, OuterLoops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import (
    IR,
    Vectors,
    call,
    element_type,
    i1,
    i8,
    i64,
    memory_type,
    pointer,
)
from fl_jit.kernels.llvm import strided_copy
from fl_tensor.dtypes import HALF, DType, float32


def computed(given: DType) -> DType:
    """The compute dtype of operands of ``given``."""
    return float32 if given in HALF else given


def zero(b: IR, address: IR, nbytes: IR) -> None:
    """Fill memory with zeros."""
    call(b, "llvm.memset.p0.i64", ir.VoidType(), address, i8(0), nbytes, i1(0))


class FunctionBuilder(Loops):
    """Builder of a function of addresses, sizes and distances in bytes."""

    #: Argument fields by name, if the function has any.
    args: Mapping[str, IR]

    def __init__(self, function: IR) -> None:
        function.attributes.add("nounwind")
        self.function = function
        self.b = Builder(function.append_basic_block("entry"))

    def at(self, address: IR, distance: IR | int) -> IR:
        """The address ``distance`` bytes after ``address``."""
        if isinstance(distance, int):
            distance = i64(distance)
        return self.b.gep(address, [distance], source_etype=i8)

    def address(self, field: IR) -> IR:
        """A field as an address."""
        return self.b.inttoptr(field, pointer)

    def entry(self, table: IR, index: IR) -> IR:
        """An element of a table of int64."""
        at = self.b.gep(table, [index], source_etype=i64)
        return self.b.load(at, typ=i64, align=FIELD)

    def is_set(self, name: str) -> IR:
        """Whether an argument field is not 0."""
        return self.b.icmp_signed("!=", self.args[name], i64(0))

    @contextmanager
    def when(self, condition: IR) -> Iterator[None]:
        """Emit the body under ``condition``."""
        with self.b.if_then(condition):
            yield

    def sum(self, *products: tuple[IR, IR] | IR) -> IR:
        """x * y + ... of pairs, and of single numbers."""
        total: IR = i64(0)
        for found in products:
            term = self.b.mul(*found) if isinstance(found, tuple) else found
            total = self.b.add(total, term)
        return total

    def maximum(self, x: IR, y: IR) -> IR:
        """The larger of two integers."""
        return self.b.select(self.b.icmp_signed(">", x, y), x, y)

    def share(self, number: IR, of: IR, total: IR) -> tuple[IR, IR]:
        """Begin and end of part ``number`` of ``of`` equal parts of ``total``."""
        b = self.b
        begin = b.sdiv(b.mul(number, total), of)
        return begin, b.sdiv(b.mul(b.add(number, i64(1)), total), of)

    def call(self, function: IR, signature: IR, *arguments: IR) -> None:
        """Call the function whose address is the int64 ``function``."""
        self.b.call_at(self.address(function), signature, arguments)

    def move(
        self, name: str, to: Sequence[IR], source: Sequence[IR], rows: IR, columns: IR
    ) -> None:
        """Copy rows and columns by the function of ``strided_copy.py`` whose address is the field
        ``name``. ``to`` and ``source`` are an address, a row stride and a column stride."""
        arguments = (self.address(to[0]), *to[1:], self.address(source[0]), *source[1:])
        self.call(self.args[name], strided_copy.SIGNATURE, *arguments, rows, columns)


class Emitter(FunctionBuilder):
    """Builder of a function on elements of ``dtype``. Operands have the dtype ``given``: that one,
    or half precision, which is converted on load and store."""

    def __init__(
        self, function: IR, machine: Target, dtype: DType, given: DType | None = None
    ) -> None:
        super().__init__(function)
        self.machine = machine
        self.dtype = dtype
        self.of = Vectors(self.b, machine, machine.lanes(dtype.itemsize))
        self.element = element_type(dtype)
        #: Bytes of an element, and of a vector.
        self.itemsize = dtype.itemsize
        self.wide = self.of.lanes * dtype.itemsize
        self.given = given or dtype
        self.one = Vectors(self.b, machine, 1)

    def read(self, address: IR, mask: IR | None = None) -> IR:
        """Load a vector of an operand's elements."""
        found = self.of.load(memory_type(self.given), address, mask)
        return half.widen(self.of, self.given, found) if self.given in HALF else found

    def write(self, vector: IR, address: IR, mask: IR | None = None) -> None:
        """Store a vector of an operand's elements."""
        if self.given in HALF:
            vector = half.narrow_sums(self.of, self.given, vector)
        self.of.store(vector, address, mask)

    def write_one(self, number: IR, address: IR) -> None:
        """Store an element of an operand."""
        vector = self.one.splat(number)
        if self.given in HALF:
            vector = half.narrow(self.one, self.given, vector)
        self.one.store(vector, address)


class LoopNestBuilder(OuterLoops, Emitter):
    """Builder of ``name(arguments, first item, last item + 1, worker)`` with the argument fields
    ``fields``."""

    def __init__(
        self,
        module: IR,
        name: str,
        fields: ArgStruct,
        machine: Target,
        dtype: DType,
        given: DType | None = None,
    ) -> None:
        super().__init__(ir.Function(module, SIGNATURE, name), machine, dtype, given)
        self.arguments, self.begin, self.end, self.worker = self.function.args
        self.args = fields.fields(self.b, self.arguments)
