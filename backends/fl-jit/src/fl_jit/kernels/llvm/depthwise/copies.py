"""Copy kernel of pixel rows, of a vector of channels each, for the wgrad of depthwise convolutions.

    void copy_plane(ptr to, i64 to_row, ptr source, i64 row, i64 pixel,
                    i64 rows, i64 left, i64 middle, i64 right, i64 lanes)

It copies ``middle`` pixels of each row to vectors; each pixel has ``lanes`` contiguous channels. It
pads each row with ``left`` and ``right`` vectors of zeros. Distances are in bytes.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.loop_nest import Emitter, computed
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, pointer, *[i64] * 7])
NAME = "copy_plane"


def address(given: DType) -> int:
    """Address of the function for images of ``given``."""
    machine = target.host()
    found = compile.addresses(
        {NAME: f"{NAME} {given} {compile.sources(FOLDER)}"},
        lambda names: assembly(given, machine),
        machine,
        compile.Effort.TIDY,
    )
    return found[NAME]


def assembly(given: DType, machine: Target) -> str:
    """A module in LLVM IR with the function."""
    module = ir.Module("copies")
    module.triple = target.triple()
    CopyPlane(module, machine, given)
    return str(module)


class CopyPlane(Emitter):
    """Builder of the function for images of ``given``."""

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        function = ir.Function(module, SIGNATURE, NAME)
        super().__init__(function, machine, computed(given), given)
        b, turn = self.b, 4
        to, to_row, source, row_pitch, pixel_pitch, rows, left, middle, right, lanes = function.args
        mask, zero = self.of.first(lanes), self.of.constant(self.element, 0)
        end = b.add(b.add(left, middle), right)
        turns = b.and_(middle, i64(-turn))
        with self.loop(i64(0), rows) as row:
            line = self.at(to, b.mul(row, to_row))
            there = self.at(source, b.mul(row, row_pitch))
            here = self.at(line, b.mul(left, i64(self.wide)))
            for low, high in ((i64(0), left), (b.add(left, middle), end)):
                with self.loop(low, high) as pixel:
                    self.of.store(zero, self.at(line, b.mul(pixel, i64(self.wide))))
            for low, high, step in ((i64(0), turns, turn), (turns, middle, 1)):
                with self.loop(low, high, step) as pixel:
                    place = self.at(there, b.mul(pixel, pixel_pitch))
                    for k in range(step):  # of the next vector of channels
                        self.of.prefetch(
                            self.at(self.at(place, b.mul(pixel_pitch, i64(k))), self.wide)
                        )
                    found = [
                        self.read(self.at(place, b.mul(pixel_pitch, i64(k))), mask)
                        for k in range(step)
                    ]
                    goal = self.at(here, b.mul(pixel, i64(self.wide)))
                    for k, vector in enumerate(found):
                        self.of.store(vector, self.at(goal, k * self.wide))
        b.ret_void()
