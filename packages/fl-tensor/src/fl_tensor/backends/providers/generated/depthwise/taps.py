"""The micro-kernel of gradients of depthwise weights: a vector of channels at a block of places of
the kernel, all of whose sums stay in registers.

    for row, for pixel:
        g = gradient[row, pixel]                          a vector of channels
        for i in 0 .. rows of the block, j in 0 .. columns of the block:
            sum[i, j] += g * x[row + i, pixel + j]        an instruction that loads x
    sums[i, j] = sum[i, j], or sums[i, j] += sum[i, j]

As machine code, with distances in bytes:

    void taps(ptr x, i64 x_tap_row, i64 x_tap, i64 x_row, i64 x_pixel,
              ptr gradient, i64 gradient_row, i64 gradient_pixel, i64 rows, i64 pixels,
              ptr sums, i64 sums_tap_row, i64 sums_tap, i64 lanes, i64 add)

x and sums have whole vectors, the gradient has ``lanes`` channels.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.nest import Emitter
from fl_tensor.backends.providers.generated.tile import registers
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import i64, pointer
from fl_tensor.dtypes import DType

SIGNATURE = ir.FunctionType(
    ir.VoidType(),
    [pointer, *[i64] * 4, pointer, *[i64] * 4, pointer, *[i64] * 4],
)


def most(machine: Target) -> int:
    """Places of a block at most: sums, the gradient and a product have registers."""
    return registers(machine) - 4


def address(dtype: DType, rows: int, columns: int) -> int:
    """Where the machine code of a block of so many places begins."""
    return _code(dtype, rows, columns, target.host())[1]


@compile.once
def _code(dtype: DType, rows: int, columns: int, machine: Target) -> tuple[object, int]:
    # The code lives as long as this process: kernels keep its address.
    about = f"taps {dtype} {rows} {columns} {compile.sources(FOLDER)}"
    code = compile.load(about, lambda: assembly(dtype, rows, columns, machine), machine)
    return code, code.address("taps")


def assembly(dtype: DType, rows: int, columns: int, machine: Target) -> str:
    """A module in LLVM IR with the function ``taps``."""
    module = ir.Module("taps")
    module.triple = target.triple()
    _Taps(ir.Function(module, SIGNATURE, "taps"), rows, columns, machine, dtype)
    return str(module)


class _Taps(Emitter):
    def __init__(
        self, function: ir.Function, rows: int, columns: int, machine: Target, dtype: DType
    ) -> None:
        super().__init__(function, machine, dtype)
        b, kind = self.b, self.of.of(self.element)
        x, x_tap_row, x_tap, x_row, x_pixel, gradient, gradient_row, gradient_pixel = function.args[
            :8
        ]
        height, width, sums, sums_tap_row, sums_tap, lanes, add = function.args[8:]
        mask = self.of.first(lanes)
        places = [(i, j) for i in range(rows) for j in range(columns)]
        totals = {place: self.variable(kind) for place in places}
        for total in totals.values():
            b.store(self.of.constant(self.element, 0), total)
        tap_rows = [b.mul(x_tap_row, i64(i)) for i in range(rows)]
        with self.loop(i64(0), height) as row:
            line = self.at(x, b.mul(row, x_row))
            lines = [self.at(line, tap_row) for tap_row in tap_rows]
            source = self.at(gradient, b.mul(row, gradient_row))
            with self.loop(i64(0), width) as pixel:
                place = self.at(source, b.mul(pixel, gradient_pixel))
                factor = self.of.load(self.element, place, mask)
                self.of.prefetch(self.at(place, self.wide))  # the next vector's
                here = b.mul(pixel, x_pixel)
                for i, j in places:
                    there = self.at(self.at(lines[i], here), b.mul(x_tap, i64(j)))
                    found = self.of.load(self.element, there)
                    total = b.load(totals[i, j], typ=kind)
                    b.store(self.of.fma(found, factor, total), totals[i, j])
        adds = b.icmp_signed("!=", add, i64(0))
        for i, j in places:
            place = self.at(sums, self.sum((sums_tap_row, i64(i)), (sums_tap, i64(j))))
            total = b.load(totals[i, j], typ=kind)
            with b.if_else(adds) as (adding, setting):
                with adding:
                    self.of.store(b.fadd(self.of.load(self.element, place), total), place)
                with setting:
                    self.of.store(total, place)
        b.ret_void()
