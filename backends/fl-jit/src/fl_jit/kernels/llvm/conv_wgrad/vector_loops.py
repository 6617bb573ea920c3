"""Vector loops of a wgrad: functions that the loop nest calls by address, compiled on first use.

column_sums(to, from, pitch, count, lanes, add)    a vector: the sum of ``count`` vectors, or of
                                                   both elements of ``count`` pairs
add_up(to, distance, count, nbytes)                each vector becomes the sum of ``count``
                                                   vectors, ``distance`` bytes apart
pair_up(line, nbytes, distance)                    elements of bfloat16, a zero behind each,
                                                   become pairs (``microkernel.py``) with the
                                                   one ``distance`` bytes further, or with
                                                   zero behind the line
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i32, i64, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.loop_nest import Emitter
from fl_tensor.dtypes import DType, int32

COLUMN_SUMS = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64, i64, i64])
ADD_UP = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
PAIR_UP = ir.FunctionType(ir.VoidType(), [pointer, i64, i64])


def addresses(names: Sequence[str], dtype: DType) -> dict[str, int]:
    """The addresses of functions for accumulators of ``dtype``: "column_sums", "sums_of_pairs",
    "add_up", "pair_up"."""
    machine = target.host()
    wanted = {f"{name}_{dtype}": name for name in names}
    found = compile.addresses(
        {name: f"{name} {compile.sources(FOLDER)}" for name in wanted},
        lambda missing: assembly({name: wanted[name] for name in missing}, dtype, machine),
        machine,
        compile.Effort.TIDY,
    )
    return {wanted[name]: place for name, place in found.items()}


def assembly(functions: Mapping[str, str], dtype: DType, machine: Target) -> str:
    """A module in LLVM IR. ``functions`` maps names to kinds of functions."""
    module = ir.Module("sweeps")
    module.triple = target.triple()
    for name, which in functions.items():
        if which == "add_up":
            AddUp(module, machine, dtype, name)
        elif which == "pair_up":
            PairUp(module, machine, name)
        else:
            ColumnSums(module, machine, dtype, which == "sums_of_pairs", name)
    return str(module)


class ColumnSums(Emitter):
    """``column_sums``, of elements or of pairs."""

    def __init__(
        self,
        module: IR,
        machine: Target,
        dtype: DType,
        pairs: bool = False,
        name: str = "column_sums",
    ) -> None:
        function = ir.Function(module, COLUMN_SUMS, name)
        super().__init__(function, machine, dtype)
        to, source, pitch, count, lanes, add = function.args
        b, most, mask = self.b, 4, self.of.first(lanes)
        zero = self.of.constant(self.element, 0)
        accumulators = [self.variable(zero.type) for _ in range(most)]
        for total in accumulators:
            b.store(zero, total)
        whole = b.and_(count, i64(-most))
        for low, high, step in ((i64(0), whole, most), (whole, count, 1)):
            with self.loop(low, high, step) as i:
                for k in range(step):
                    place = self.at(source, b.mul(b.add(i, i64(k)), pitch))
                    found = self._pair(place, mask) if pairs else self.read(place, mask)
                    b.store(b.fadd(b.load(accumulators[k], typ=zero.type), found), accumulators[k])
        first, second, third, fourth = (b.load(total, typ=zero.type) for total in accumulators)
        total = b.fadd(b.fadd(first, second), b.fadd(third, fourth))
        old = b.select(b.icmp_signed("!=", add, i64(0)), self.of.load(self.element, to), zero)
        self.of.store(b.fadd(old, total), to)
        b.ret_void()

    def _pair(self, place: IR, mask: IR) -> IR:
        b, of = self.b, self.of
        found = of.load(i32, place, mask)
        halves = b.shl(found, of.constant(i32, 16)), b.and_(found, of.constant(i32, -1 << 16))
        return b.fadd(*(b.bitcast(half, of.of(self.element)) for half in halves))


class AddUp(Emitter):
    """``add_up``."""

    def __init__(self, module: IR, machine: Target, dtype: DType, name: str) -> None:
        function = ir.Function(module, ADD_UP, name)
        super().__init__(function, machine, dtype)
        to, distance, count, nbytes = function.args
        b, kind = self.b, self.of.of(self.element)
        total = self.variable(kind)
        with self.loop(i64(0), nbytes, self.wide) as within:
            place = self.at(to, within)
            b.store(self.of.load(self.element, place), total)
            with self.loop(i64(1), count) as i:
                found = self.of.load(self.element, self.at(place, b.mul(i, distance)))
                b.store(b.fadd(b.load(total, typ=kind), found), total)
            self.of.store(b.load(total, typ=kind), place)
        b.ret_void()


class PairUp(Emitter):
    """``pair_up``."""

    def __init__(self, module: IR, machine: Target, name: str) -> None:
        function = ir.Function(module, PAIR_UP, name)
        super().__init__(function, machine, int32)
        line, nbytes, distance = function.args
        b = self.b
        end = b.sub(nbytes, distance)
        whole = self.maximum(b.and_(end, i64(-self.wide)), i64(0))
        sixteen = self.of.constant(i32, 16)
        for low, high, is_whole in ((i64(0), whole, True), (whole, end, False)):
            with self.loop(low, high, self.wide) as i:
                place = self.at(line, i)
                left = b.sdiv(b.sub(end, i), i64(self.itemsize))
                mask = None if is_whole else self.of.first(left)
                second = b.shl(self.of.load(i32, self.at(place, distance), mask), sixteen)
                self.of.store(b.or_(self.of.load(i32, place, mask), second), place, mask)
        b.ret_void()
