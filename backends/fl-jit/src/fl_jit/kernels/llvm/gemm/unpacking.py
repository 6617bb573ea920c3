"""Unpacking: the reverse of ``packing.py``, for results that a micro-kernel cannot write itself.

Rows of accumulators, ``pitch`` bytes apart, are written with any strides and dtype, or added to the
contents of the result.

    void unpack(ptr from, i64 pitch, i64 rows, i64 columns, ptr to, i64 row_stride,
                i64 column_stride, i64 add)
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, memory_type, pointer
from fl_jit.kernels.llvm.gemm import copy_kernel
from fl_tensor.dtypes import DType

UNPACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, pointer, i64, i64, i64])


def unpack(dtype: DType) -> int:
    """Address of ``unpack`` to ``dtype``."""
    return _code(dtype).address("move")


@compile.once
def _code(dtype: DType) -> compile.Code:
    machine = target.host()
    return copy_kernel.code("unpack", dtype, lambda module: _Unpack(module, dtype, machine))


class _Unpack(copy_kernel.CopyKernelBuilder):
    def __init__(self, module: IR, dtype: DType, machine: Target) -> None:
        super().__init__(module, UNPACK, dtype, machine)
        b = self.b
        (
            self.source, self.pitch, self.rows, self.columns, self.to, self.row_stride,
            self.column_stride, add,
        ) = self.function.args  # fmt: skip
        adds = b.icmp_signed("!=", add, i64(0))
        side_by_side = b.icmp_signed("==", self.column_stride, i64(dtype.itemsize))
        with b.if_else(side_by_side) as (near, far):
            for branch, apart in ((near, False), (far, True)):
                with branch, b.if_else(adds) as (adding, setting):
                    for way, to_add in ((adding, True), (setting, False)):
                        with way:
                            self._move(to_add, apart)
        b.ret_void()

    def _move(self, add: bool, apart: bool) -> None:
        b, of = self.b, self.of
        kind, count = memory_type(self.dtype), self.columns
        distances = of.apart(self.elements(self.column_stride)) if apart else None
        with self.loop(i64(0), self.rows) as row, self.loop(i64(0), count, self.lanes) as column:
            mask = of.first(b.sub(count, column))
            here = self.at(self.source, b.add(b.mul(row, self.pitch), self.bytes(column)))
            there = self.at(self.to, b.mul(row, self.row_stride))
            there = self.at(there, b.mul(column, self.column_stride))
            value = of.load(self.element, here, mask)
            if add:
                if distances is None:
                    old = self.load(there, mask)
                else:
                    old = self.wide(of.gather(kind, there, distances, mask))
                value = b.fadd(value, old)
            if distances is None:
                of.store(self.narrow(value), there, mask)
            else:
                of.scatter(self.narrow(value), there, distances, mask)
