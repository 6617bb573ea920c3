"""Vector loops of gradients of weights: functions that the loop nest calls by their addresses, each
compiled when a problem first needs it.

    column_sums(to, from, pitch, count, lanes, add)    a vector, the sum of ``count``, or of both
                                                       numbers of so many "pairs"
    add_up(to, distance, count, nbytes)                vectors become the sums of ``count``, of that
                                                       and those so many bytes behind each other
    pair_up(line, nbytes, distance)                    numbers of bfloat16, a zero behind each,
                                                       become pairs (``microkernel.py``) with the
                                                       one ``distance`` bytes further; what lies
                                                       behind the line counts as zero
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i32, i64, pointer
from fl_tensor.dtypes import DType, int32

COLUMN_SUMS = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64, i64, i64])
ADD_UP = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
PAIR_UP = ir.FunctionType(ir.VoidType(), [pointer, i64, i64])


def address(name: str, dtype: DType) -> int:
    """Where a function for sums of ``dtype`` begins: "column_sums", "sums_of_pairs", "add_up" or
    "pair_up"."""
    return _code(name, dtype).address(name)


@compile.once
def _code(name: str, dtype: DType) -> compile.Code:
    about, machine = f"{name} {dtype} {compile.sources(FOLDER)}", target.host()
    return compile.load(about, lambda: assembly(name, dtype, machine), machine, compile.Effort.TIDY)


def assembly(name: str, dtype: DType, machine: Target) -> str:
    """A module in LLVM IR with this function."""
    module = ir.Module(name)
    module.triple = target.triple()
    if name == "add_up":
        AddUp(module, machine, dtype)
    elif name == "pair_up":
        PairUp(module, machine)
    else:
        ColumnSums(module, machine, dtype, name == "sums_of_pairs")
    return str(module)


class ColumnSums(Emitter):
    """``column_sums``, called "sums_of_pairs" if numbers are pairs."""

    def __init__(self, module: IR, machine: Target, dtype: DType, pairs: bool = False) -> None:
        name = "sums_of_pairs" if pairs else "column_sums"
        function = ir.Function(module, COLUMN_SUMS, name)
        super().__init__(function, machine, dtype)
        to, source, pitch, count, lanes, add = function.args
        b, most, mask = self.b, 4, self.of.first(lanes)
        zero = self.of.constant(self.element, 0)
        sums = [self.variable(zero.type) for _ in range(most)]
        for total in sums:
            b.store(zero, total)
        whole = b.and_(count, i64(-most))
        for low, high, step in ((i64(0), whole, most), (whole, count, 1)):
            with self.loop(low, high, step) as i:
                for k in range(step):
                    place = self.at(source, b.mul(b.add(i, i64(k)), pitch))
                    found = self._pair(place, mask) if pairs else self.read(place, mask)
                    b.store(b.fadd(b.load(sums[k], typ=zero.type), found), sums[k])
        first, second, third, fourth = (b.load(total, typ=zero.type) for total in sums)
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

    def __init__(self, module: IR, machine: Target, dtype: DType) -> None:
        function = ir.Function(module, ADD_UP, "add_up")
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

    def __init__(self, module: IR, machine: Target) -> None:
        function = ir.Function(module, PAIR_UP, "pair_up")
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
