"""bfloat16 micro-kernels for the tile registers of AMX (Sapphire Rapids and later).

AMX has eight tile registers of 16 rows of 64 bytes. One instruction multiplies a tile of A by a
tile of B and accumulates 16 x 16 sums of 32 products each. A kernel of 32 rows and two vectors
holds four tiles of C:

                  B0 (t6)   B1 (t7)          a tile of A: 16 rows of 16 pairs along k
                +---------+---------+        a tile of B: 16 rows of pairs, 16 columns
      A0 (t4)   |   t0    |   t1    |        of C:        16 rows, 16 columns of float32
      A1 (t5)   |   t2    |   t3    |
                +---------+---------+

A, B and C have the memory layout of pairs that ``microkernel.py`` describes. Callers of a
micro-kernel therefore need no code for tiles. The tile shapes are per-thread state. The remainder
of k after whole tiles is a second pass with other shapes. The state is released at the end.

Linux requires a permission before a process may use tiles (``permitted``). Tiles enlarge the saved
state of its threads by 8 KiB.

Reference: Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1, chapter
18.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, call, f32, i8, i16, i64, pointer
from fl_jit.kernels.llvm.microkernel import SIGNATURE, MicroKernel
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import bfloat16

#: The largest micro-kernel that fits the tile registers.
BEST = Tile(32, 2)
#: Rows of a tile, which are also its columns of four bytes.
_SIDE = 16
_ROW = 4 * _SIDE
_A, _B = 4, 6
#: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) on x86-64.
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18


@functools.cache
def permitted() -> bool:
    """Whether this process may use tiles. Requests the permission from Linux once."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    return bool(syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0)


def is_for(machine: Target) -> bool:
    """Whether ``machine`` has AMX tiles, and vectors as wide as a tile's rows."""
    return machine.vector_bits == 8 * _ROW and machine.has("+amx-tile", "+amx-bf16")


def is_usable(machine: Target) -> bool:
    """Whether ``machine`` has AMX tiles and this process may use them."""
    return is_for(machine) and permitted()


def maker(kernel: MicroKernel, machine: Target) -> str | None:
    """The module of ``kernel``, or None. None if the kernel is not one of pairs, if ``machine`` has
    no tiles, or if this process may not use them."""
    return assembly(kernel) if fits(kernel) and is_usable(machine) else None


def fits(kernel: MicroKernel) -> bool:
    """Whether this micro-kernel fits the tile registers."""
    small = kernel.tile.rows <= BEST.rows and kernel.tile.vectors <= BEST.vectors
    lies = (kernel.a, kernel.b, kernel.narrow) == ("rows", "packed", False)
    return kernel.dtype is bfloat16 and lies and small


def assembly(kernel: MicroKernel) -> str:
    """A module in LLVM IR with the function ``micro``."""
    module = ir.Module("micro")
    module.triple = target.triple()
    _Tiled(module, kernel)
    return str(module)


class _Tiled(Loops):
    def __init__(self, module: IR, kernel: MicroKernel) -> None:
        function = ir.Function(module, SIGNATURE, "micro")
        function.attributes.add("nounwind")
        self.b = Builder(function.append_basic_block("entry"))
        self.kernel = kernel
        rows, vectors = kernel.tile
        #: Number of rows of each row of tiles.
        self.heights = [min(rows - first, _SIDE) for first in range(0, rows, _SIDE)]
        self.tiles = [(i, j) for i in range(len(self.heights)) for j in range(vectors)]
        self.row_bytes = vectors * _ROW
        self.taps, self.tap_offsets, self.k, self.a, self.a_pitch, self.in_b, _, c, c_pitch = (
            function.args[:9]
        )
        flags, columns = function.args[9:]
        adding = self.b.trunc(flags, ir.IntType(1))
        # A tile store writes the whole tile. A masked kernel therefore stores to a scratch buffer.
        self.c, self.c_pitch = c, c_pitch
        if kernel.masked:
            self.c, self.c_pitch = self._room(rows * self.row_bytes), i64(self.row_bytes)
        self.shapes = self._room(64)
        whole = self.b.and_(self.k, i64(-_SIDE))
        rest = self.b.sub(self.k, whole)
        self._shape(i64(_SIDE))
        self._begin(None if kernel.masked else adding)
        self._add_up(i64(0), whole)
        self._each(self._store)
        with self.b.if_then(self.b.icmp_signed(">", rest, i64(0))):
            self._shape(rest)
            self._each(self._load)
            self._add_up(whole, self.k)
            self._each(self._store)
        self._call("tilerelease")
        if kernel.masked:
            self._copy(c, c_pitch, adding, columns)
        self.b.ret_void()

    def _room(self, nbytes: int) -> IR:
        room = self.variable(ir.ArrayType(i8, nbytes))
        return self.b.inttoptr(self.b.ptrtoint(room, i64), pointer)

    def _shape(self, pairs: IR) -> None:
        # Configures tiles of A as ``pairs`` wide and tiles of B as ``pairs`` high. Their contents
        # are lost.
        def write(kind: IR, place: int, value: IR) -> None:
            self.b.store(value, self._at(self.shapes, i64(place)), align=1)

        for place in range(0, 64, 8):
            write(i64, place, i64(1 if place == 0 else 0))  # palette 1: eight tile registers
        widths, heights = {}, {}
        for i, height in enumerate(self.heights):
            widths[_A + i], heights[_A + i] = self.b.shl(pairs, i64(2)), i64(height)
        for i, j in self.tiles:
            widths[_B + j], heights[_B + j] = i64(_ROW), pairs
            widths[self._number(i, j)] = i64(_ROW)
            heights[self._number(i, j)] = i64(self.heights[i])
        for number in widths:
            write(i16, 16 + 2 * number, self.b.trunc(widths[number], i16))
            write(i8, 48 + number, self.b.trunc(heights[number], i8))
        self._call("ldtilecfg", self.shapes)

    def _begin(self, adding: IR | None) -> None:
        def zero(i: int, j: int) -> None:
            self._call("tilezero", i8(self._number(i, j)))

        if adding is None:
            self._each(zero)
            return
        with self.b.if_else(adding) as (given, none):
            with given:
                self._each(self._load)
            with none:
                self._each(zero)

    def _add_up(self, low: IR, high: IR) -> None:
        build, row_bytes = self.b, i64(self.row_bytes)
        with self.loop(i64(0), self.taps) as tap:
            offset = build.load(build.gep(self.tap_offsets, [tap], source_etype=i64), typ=i64)
            in_a = self._at(self.a, offset)
            in_b = self._at(self.in_b, build.mul(build.mul(tap, self.k), row_bytes))
            with self.loop(low, high, _SIDE) as k:
                a, b = self._at(in_a, build.shl(k, i64(2))), self._at(in_b, build.mul(k, row_bytes))
                for j in range(self.kernel.tile.vectors):
                    self._call("tileloadd64", i8(_B + j), self._at(b, i64(j * _ROW)), row_bytes)
                for i in range(len(self.heights)):
                    first = self._at(a, build.mul(self.a_pitch, i64(i * _SIDE)))
                    self._call("tileloadd64", i8(_A + i), first, self.a_pitch)
                for i, j in self.tiles:
                    self._call("tdpbf16ps", i8(self._number(i, j)), i8(_A + i), i8(_B + j))

    def _copy(self, c: IR, c_pitch: IR, adding: IR, columns: IR) -> None:
        of = Vectors(self.b, target.host(), _SIDE)
        for j in range(self.kernel.tile.vectors):
            mask = of.first(self.b.sub(columns, i64(j * _SIDE)))
            for i in range(self.kernel.tile.rows):
                total = of.load(f32, self._at(self.c, i64(i * self.row_bytes + j * _ROW)))
                place = self._at(c, self.b.add(self.b.mul(c_pitch, i64(i)), i64(j * _ROW)))
                accumulators = self.b.fadd(of.load(f32, place, mask), total)
                of.store(self.b.select(adding, accumulators, total), place, mask)

    def _each(self, act: IR) -> None:
        for i, j in self.tiles:
            act(i, j)

    def _load(self, i: int, j: int) -> None:
        self._call("tileloadd64", i8(self._number(i, j)), self._of_c(i, j), self.c_pitch)

    def _store(self, i: int, j: int) -> None:
        self._call("tilestored64", i8(self._number(i, j)), self._of_c(i, j), self.c_pitch)

    def _of_c(self, i: int, j: int) -> IR:
        down = self.b.mul(self.c_pitch, i64(i * _SIDE))
        return self._at(self.c, self.b.add(down, i64(j * _ROW)))

    def _number(self, i: int, j: int) -> int:
        return 2 * i + j

    def _at(self, address: IR, distance: IR) -> IR:
        return self.b.gep(address, [distance], source_etype=i8)

    def _call(self, name: str, *operands: IR) -> None:
        call(self.b, f"llvm.x86.{name}", ir.VoidType(), *operands)
