"""Copies of numbers that lie anywhere into vectors that lie side by side.

    copy_lanes(to, to_pitch, from, count, lanes, pitch, lane_pitch)

    to[i * to_pitch + lane * itemsize] = from[i * pitch + lane * lane_pitch]    lane < lanes
                                       = 0                                    other lanes

Numbers of half precision become float32.
for i < count, all distances in bytes. ``lanes`` is at most those of a vector; with 0 of them zeros
are written, and nothing is read. Reads are of the elements that are meant alone, writes are whole
vectors. Images with channels side by side are copied vector by vector; where pixels are side by
side instead (NCHW), squares are transposed in registers.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64, pointer
from fl_tensor.dtypes import DType

_SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, pointer, i64, i64, i64, i64])
#: Vectors per turn of the loop.
_UNROLL = 4


def define(module: IR, machine: Target, dtype: DType, given: DType | None = None) -> IR:
    """The function ``copy_lanes`` in ``module``, from ``given`` to ``dtype``."""
    return _CopyLanes(module, machine, dtype, given).function


class _CopyLanes(Emitter):
    def __init__(self, module: IR, machine: Target, dtype: DType, given: DType | None) -> None:
        function = ir.Function(module, _SIGNATURE, "copy_lanes")
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
        with b.if_else(side_by_side) as (vectors, others):
            with vectors:
                self._copy()
            with others, b.if_else(b.icmp_signed("==", pitch, one)) as (squares, numbers):
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
            here = self.at(self.source, b.mul(i, i64(self.given.itemsize)))
            mask = self.of.first(left)
            zero = self.of.constant(self.element, 0)
            square = []
            for lane in range(lanes):
                row = self.minimum(i64(lane), last)
                found = self.read(self.at(here, b.mul(row, self.lane_pitch)), mask)
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
