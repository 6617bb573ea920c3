"""Copies of numbers that lie anywhere into vectors that lie side by side.

    copy_lanes(to, to_pitch, from, count, lanes, pitch, lane_pitch)

    to[i * to_pitch + lane * itemsize] = from[i * pitch + lane * lane_pitch]    lane < lanes
                                       = 0                                    other lanes

for i < count, all distances in bytes. ``lanes`` is at most those of a vector; with 0 of them zeros
are written, and nothing is read. Reads are of the elements that are meant alone, writes are whole
vectors. Images with channels side by side are copied vector by vector; where pixels are side by
side instead (NCHW), squares are transposed in registers. Numbers of half precision become float32.

Pairs of bfloat16 (``microkernel.py``) are int32. ``copy_lanes`` to int32 makes first ones, with a
zero behind each number; ``copy_pairs`` has the same arguments, and ``pitch`` is from pair to pair,
the second of which lies half of it behind the first.

    pair_up(line, nbytes, distance)

gives each first one of a line of so many bytes its second, which is the first one ``distance``
bytes further; what lies behind the line counts as zero.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor import dtypes
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i16, i32, i64, pointer
from fl_tensor.dtypes import DType

_SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, pointer, i64, i64, i64, i64])
#: Vectors per turn of the loop.
_UNROLL = 4


def define(module: IR, machine: Target, dtype: DType, given: DType | None = None) -> IR:
    """The function ``copy_lanes`` in ``module``, from ``given`` to ``dtype``."""
    kind = _CopyFirsts if dtype is dtypes.int32 else _CopyLanes
    return kind(module, machine, dtype, given).function


def define_pairs(module: IR, machine: Target) -> tuple[IR, IR]:
    """The functions ``copy_pairs`` and ``pair_up`` in ``module``."""
    copy = _CopyPairs(module, machine, dtypes.int32, dtypes.bfloat16).function
    return copy, _PairUp(module, machine).function


class _CopyLanes(Emitter):
    name = "copy_lanes"
    #: Elements of the source in one of the copy.
    numbers = 1

    def __init__(self, module: IR, machine: Target, dtype: DType, given: DType | None) -> None:
        function = ir.Function(module, _SIGNATURE, self.name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        super().__init__(function, machine, dtype, given)
        self.to, self.to_pitch, self.source, self.count, self.lanes, pitch, lane_pitch = (
            function.args
        )
        self.pitch, self.lane_pitch = pitch, lane_pitch
        b, one = self.b, i64(self.given.itemsize)
        side_by_side = b.or_(
            b.icmp_signed("==", lane_pitch, one), b.icmp_signed("<=", self.lanes, i64(1))
        )
        dense = b.icmp_signed("==", pitch, i64(self.numbers * self.given.itemsize))
        with b.if_else(side_by_side) as (vectors, others):
            with vectors:
                self._copy()
            with others, b.if_else(dense) as (squares, numbers):
                with squares:
                    self._transpose()
                with numbers:
                    self._gather()
        b.ret_void()

    def _copy(self) -> None:
        b = self.b
        full = b.icmp_signed("==", self.lanes, i64(self.of.lanes))
        with b.if_else(full) as (whole, part):
            with whole:
                self._vectors(None)
            with part:
                self._vectors(self.of.first(self.lanes))

    def _vectors(self, mask: IR) -> None:
        b = self.b
        turns = b.and_(self.count, i64(-_UNROLL))
        for low, high, step in ((i64(0), turns, _UNROLL), (turns, self.count, 1)):
            with self.loop(low, high, step) as i:
                places = [b.add(i, i64(k)) for k in range(step)]
                found = [
                    self.read(self.at(self.source, b.mul(k, self.pitch)), mask) for k in places
                ]
                for k, vector in zip(places, found, strict=True):
                    self.of.store(vector, self.at(self.to, b.mul(k, self.to_pitch)))

    def _transpose(self) -> None:
        b, lanes = self.b, self.of.lanes
        last = b.sub(self.lanes, i64(1))
        with self.loop(i64(0), self.count, lanes) as i:
            left = b.sub(self.count, i)
            here = self.at(self.source, b.mul(i, self.pitch))
            mask = self.of.first(left)
            zero = self.of.constant(self.element, 0)
            square = []
            for lane in range(lanes):
                row = self.minimum(i64(lane), last)
                found = self.read_dense(self.at(here, b.mul(row, self.lane_pitch)), mask)
                square.append(b.select(b.icmp_signed("<", i64(lane), self.lanes), found, zero))
            for k, vector in enumerate(self.of.transposed(square)):
                with self.when(b.icmp_signed("<", i64(k), left)):
                    place = b.mul(b.add(i, i64(k)), self.to_pitch)
                    self.of.store(vector, self.at(self.to, place))

    def _gather(self) -> None:
        b = self.b
        with self.loop(i64(0), self.count) as i:
            here = self.at(self.to, b.mul(i, self.to_pitch))
            there = self.at(self.source, b.mul(i, self.pitch))
            self.of.store(self.of.constant(self.element, 0), here)
            with self.loop(i64(0), self.lanes) as lane:
                found = self.read_one(self.at(there, b.mul(lane, self.lane_pitch)))
                target = self.at(here, b.mul(lane, i64(self.itemsize)))
                b.store(found, target, align=self.itemsize)

    def read_dense(self, address: IR, mask: IR) -> IR:
        """Elements of the copy that lie side by side in the source."""
        return self.read(address, mask)


class _CopyFirsts(_CopyLanes):
    def read(self, address: IR, mask: IR | None = None) -> IR:
        return self.b.zext(self.of.load(i16, address, mask), self.of.of(i32))

    def read_one(self, address: IR) -> IR:
        return self.b.zext(self.b.load(address, typ=i16, align=2), i32)


class _CopyPairs(_CopyFirsts):
    name = "copy_pairs"
    numbers = 2

    def read(self, address: IR, mask: IR | None = None) -> IR:
        first, second = (super(_CopyPairs, self).read(at, mask) for at in self._both(address))
        return self.b.or_(first, self.b.shl(second, self.of.constant(i32, 16)))

    def read_one(self, address: IR) -> IR:
        first, second = (super(_CopyPairs, self).read_one(at) for at in self._both(address))
        return self.b.or_(first, self.b.shl(second, i32(16)))

    def read_dense(self, address: IR, mask: IR) -> IR:
        wide = self.of.of(i32)
        name = f"llvm.masked.load.v{self.of.lanes}i32.p0"
        return self.of.call(name, wide, address, i32(2), mask, self.of.constant(i32, 0))

    def _both(self, address: IR) -> tuple[IR, IR]:
        return address, self.at(address, self.b.ashr(self.pitch, i64(1)))


class _PairUp(Emitter):
    def __init__(self, module: IR, machine: Target) -> None:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, i64, i64]), "pair")
        function.linkage = "internal"
        super().__init__(function, machine, dtypes.int32)
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
