"""Micro-kernel generator: a register tile of a matrix product.

GEMMs and convolutions spend nine tenths of their time here.

    for t in 0 .. taps - 1:                          taps: 1 in a GEMM, places of the window
        for kk in 0 .. k - 1:                          in a convolution
            b[0 .. vectors-1] = row t*k + kk of B    a load each
            for i in 0 .. rows - 1:
                a = A_t[i, kk]                       one number, in all lanes
                for j in 0 .. vectors - 1:
                    acc[i, j] += a * b[j]            one instruction
    C[i, j] = acc[i, j], or C[i, j] += acc[i, j]

These are the rank-1 updates of Goto & van de Geijn (``tile.py`` has the drawing). As machine code:

    void micro(i64 taps, ptr tap_offsets, i64 k, ptr A, i64 a_pitch, ptr B, i64 b_pitch,
               ptr C, i64 c_pitch, i64 flags, i64 columns)

Distances are in bytes. Element (i, kk) of A_t is at ``A + tap_offsets[t]``

    a == "rows"      + i * a_pitch + kk * itemsize    k contiguous: a row-major A, an image
    a == "columns"   + kk * a_pitch + i * itemsize    rows contiguous: a transposed A

Row r of B has ``vectors * lanes`` numbers. Its address is

    b == "packed"    B + r * (bytes of a row)         contiguous, padded to whole vectors
    b == "rows"      B + r * b_pitch                  a row-major B in place

``flags & ADD`` adds to the contents of C. A ``masked`` kernel accesses the first ``columns`` of a
row of C (and of B, unless packed), other kernels the whole row. No alignment is required beyond
that of the dtype. No shape is a compile-time constant: one kernel serves every problem.

A kernel that ``streams`` never adds to C. ``flags & STREAM`` states that C is too large for the
caches. Each vector of C is then aligned to its size, or to 64 bytes if that is less. The kernel
uses non-temporal stores, unless it is masked, which avoids that C is read first.

A ``prefetch`` kernel has two more arguments, an address and a distance. Each step of k prefetches
the cache line at the address into L2 and advances it by the distance. The lines need not exist.
Between two steps there is time for that. Prefetches in one burst would wait for each other, and the
accumulation for them. A kernel without ``prefetch`` may be called with these arguments.

bfloat16 is multiplied in pairs if the processor has such an instruction
(``Target.has_bfloat_products``). A "number" of A, and of B, is then a pair of elements that are
adjacent along k, in 4 bytes. ``k`` counts pairs, C is float32, and an instruction adds two
products. The memory of A is unchanged if k is contiguous. Row r of a packed B is B[2r, 0], B[2r +
1, 0], B[2r, 1], B[2r + 1, 1], ... A ``narrow`` kernel writes a C of bfloat16, with one rounding per
element, and never adds to C.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.errors import CompileError
from fl_jit.kernels.codegen.half import narrow_sums
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.target import AVX512, Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, element_type, i8, i32, i64, pointer
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import prefetch_policy
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import DType, bfloat16

#: Flags: add to the contents of C; use non-temporal stores.
ADD, STREAM = 1, 2
#: Maximum accumulators for which the loop is unrolled by two steps of k: a step takes less time
#: than the loop counter.
_FEW = 4
#: Unroll factor for tiles of 3 vectors with at least ``_MANY`` accumulators, as nearly all tiles of
#: large GEMMs have. If another thread computes on the same core, the number of instructions is what
#: counts: 2 to 5 % less time. LLVM takes twice as long to compile it, so other tiles are not
#: unrolled.
_STEPS_OF_LONG, _MANY = 4, 27
#: Rows of A per address register. With p and 3p in registers, an address operand reaches a + p, a +
#: 2p and a + 3p, so 14 rows take 6 registers.
_REACH = 4
SIGNATURE = ir.FunctionType(
    ir.VoidType(), [i64, pointer, i64, pointer, i64, pointer, i64, pointer, i64, i64, i64]
)
#: The same for a ``prefetch`` kernel.
SIGNATURE_PREFETCH = ir.FunctionType(ir.VoidType(), [*SIGNATURE.args, pointer, i64])


class MicroKernel(NamedTuple):
    """The parameters of a micro-kernel.

    dtype     of all operands (float32, float64), or of A and B (bfloat16)
    tile      rows and vectors of the register tile
    a, b      memory layout of A and B
    masked    whether there may be fewer columns than the tile has
    narrow    whether C is bfloat16, too
    prefetch  whether it prefetches a line per step of k
    streams   whether it can use non-temporal stores; its stores are then in the code twice
    """

    dtype: DType
    tile: Tile
    a: str = "rows"
    b: str = "packed"
    masked: bool = False
    narrow: bool = False
    prefetch: bool = False
    streams: bool = False


def assembly(kernel: MicroKernel, machine: Target) -> str:
    """A module in LLVM IR with the function ``micro``. Raises as ``assemblies``."""
    return assemblies({"micro": kernel}, machine)


def assemblies(kernels: Mapping[str, MicroKernel], machine: Target) -> str:
    """A module in LLVM IR with a function for each kernel. Raises CompileError for bfloat16 pairs
    if the processor has no instruction for them, since LLVM would abort the process."""
    module = ir.Module("micro")
    module.triple = target.triple()
    for name, kernel in kernels.items():
        if kernel.dtype is bfloat16 and not machine.has_bfloat_products:
            missing = "instruction for products of bfloat16"
            raise CompileError(f"{machine.cpu} has no {missing}: {kernel}")
        signature = SIGNATURE_PREFETCH if kernel.prefetch else SIGNATURE
        _Micro(ir.Function(module, signature, name), kernel, machine)
    return str(module)


class _Micro(Loops):
    # Emits the function. Accumulators and addresses are stack variables, which LLVM promotes to
    # registers.

    def __init__(self, function: IR, kernel: MicroKernel, machine: Target) -> None:
        function.attributes.add("nounwind")
        self.b = Builder(function.append_basic_block("entry"))
        self.of = Vectors(self.b, machine, machine.lanes(kernel.dtype.itemsize))
        self.kernel = kernel
        self.rows, self.vectors = kernel.tile
        self.pairs = kernel.dtype is bfloat16
        self.itemsize = max(kernel.dtype.itemsize, 4)
        self.element = element_type(kernel.dtype)
        self.read = i32 if self.pairs else self.element
        self.vector = self.of.of(self.element)
        self.tiles = [(i, j) for i in range(self.rows) for j in range(self.vectors)]
        taps, tap_offsets, self.k, a, self.a_pitch, b, b_pitch, c, c_pitch, flags, columns = (
            function.args[:11]
        )
        row_bytes = self.vectors * self.of.lanes * self.itemsize
        self.b_pitch = i64(row_bytes) if kernel.b == "packed" else b_pitch
        self.can_stream = kernel.streams and not (kernel.masked or kernel.narrow)
        prefetches_b = prefetch_policy.microkernel_prefetches_b(kernel.tile)
        self.prefetched_bytes = range(0, row_bytes if prefetches_b else 0, LINE)
        prefetch = prefetch_policy.MICROKERNEL_ROWS[kernel.b]
        self.prefetch = (
            i64(prefetch * row_bytes)
            if kernel.b == "packed"
            else self.b.mul(b_pitch, i64(prefetch))
        )
        self.is_long = (
            self.vectors == 3
            and len(self.tiles) >= _MANY
            and (kernel.a, kernel.b) == ("rows", "packed")
            and not (kernel.masked or self.pairs)
            and machine.has(*AVX512)
        )
        self.direct = self._direct(machine)
        self.masks = [self._mask(columns, j) for j in range(self.vectors)]
        self.accumulators = {tile: self.variable(self.vector) for tile in self.tiles}
        self.in_b, self.prefetch_target = self.variable(pointer), self.variable(pointer)
        if kernel.prefetch:
            prefetch_target, self.prefetch_pitch = function.args[11:]
            self.b.store(prefetch_target, self.prefetch_target)
        groups = range(0, self.rows, _REACH) if kernel.a == "rows" else (0,)
        multiples = [self.opaque(self.b.mul(self.a_pitch, i64(i))) for i in (1, 3)]
        self.within = [i64(0), multiples[0], self.b.shl(multiples[0], i64(1)), multiples[1]]
        self.in_a = {i: self.variable(pointer) for i in groups}
        self._prefetch_c(c, c_pitch, flags, row_bytes // (2 if kernel.narrow else 1))
        self._accumulate(taps, tap_offsets, a, b)
        self.c = [self._at(c, self.b.mul(c_pitch, i64(i))) for i in range(self.rows)]
        self._write(flags)
        self.b.ret_void()

    def _prefetch_c(self, c: IR, c_pitch: IR, flags: IR, nbytes: int) -> None:
        """Prefetch C during the accumulation, unless it is written by non-temporal stores."""
        rows = i64(self.rows)
        if self.can_stream:
            rows = self.b.select(self._has(flags, STREAM), i64(0), rows)
        with self.loop(i64(0), rows) as i:
            row = self._at(c, self.b.mul(c_pitch, self.opaque(i)))
            for byte in range(0, nbytes, LINE):
                self._prefetch(self._at(row, i64(byte)))

    def _accumulate(self, taps: IR, tap_offsets: IR, a: IR, b: IR) -> None:
        build = self.b
        for tile in self.tiles:
            build.store(self.of.constant(self.element, 0), self.accumulators[tile])
        build.store(b, self.in_b)
        turn = 2 if len(self.tiles) <= _FEW else _STEPS_OF_LONG if self.is_long else 1
        whole = build.and_(self.k, i64(-turn))
        with self.loop(i64(0), taps) as tap:
            offset = build.load(build.gep(tap_offsets, [tap], source_etype=i64), typ=i64)
            for i, variable in self.in_a.items():
                distance = build.add(offset, build.mul(self.a_pitch, i64(i)))
                build.store(self._at(a, self.opaque(distance)), variable)
            with self.loop(i64(0), whole, turn):
                self._steps(turn)
            if turn > 1:
                with self.loop(whole, self.k):
                    self._steps(1)

    def _steps(self, count: int) -> None:
        build, of = self.b, self.of
        multiply_add = of.pairwise_multiply_add if self.pairs else of.fma
        accumulators = {
            tile: build.load(self.accumulators[tile], typ=self.vector) for tile in self.tiles
        }
        self._prefetch_line(count)
        in_b = self._stepped(self.in_b)
        in_a = {i: self._stepped(variable) for i, variable in self.in_a.items()}
        for step in range(count):
            for byte in self.prefetched_bytes:
                self._prefetch(self._at(self._at(in_b, self.prefetch), i64(byte)), write=False)
            masks = self.masks if self.kernel.b == "rows" else [None] * self.vectors
            row = [of.load(self.read, self._vector(in_b, j), masks[j]) for j in range(self.vectors)]
            for i in range(self.rows):
                for j in range(self.vectors):
                    if j == 0 or i in self.direct:
                        if j > 0:
                            self._barrier()
                        number = of.splat(build.load(self._number(in_a, i, step), typ=self.read))
                    accumulators[i, j] = multiply_add(number, row[j], accumulators[i, j])
            in_b = self._at(in_b, self.b_pitch)
            if self.kernel.a == "columns":
                in_a[0] = self._at(in_a[0], self.a_pitch)
        for tile in self.tiles:
            build.store(accumulators[tile], self.accumulators[tile])
        build.store(in_b, self.in_b)
        for i, variable in self.in_a.items():
            moved = 0 if self.kernel.a == "columns" else count * self.itemsize
            build.store(self._at(in_a[i], i64(moved)), variable)

    def _direct(self, machine: Target) -> set[int]:
        """Rows whose number of A is a memory operand of the multiply-adds.

        That saves an instruction per row and takes more loads, of which a processor does one with
        each multiply-add. Tiles of 2 vectors were 8 % faster on an Emerald Rapids while it ran
        slowly, perhaps because another program shared the core, and as fast elsewhere. For a
        row-major A the rows are those with an address register of their own; others would need the
        instruction again.
        """
        loads = self.rows + self.vectors + len(self.prefetched_bytes) + self.kernel.prefetch
        count = (len(self.tiles) - loads) // max(self.vectors - 1, 1)
        if self.is_long:
            return set(range(0, self.rows, _REACH)[: max(count, 0)])
        is_plain = self.kernel.a == "columns" and not self.pairs
        count *= is_plain and self.vectors > 1 and machine.has(*AVX512)
        return {(2 * i + 1) * self.rows // (2 * count) for i in range(count)}

    def _barrier(self) -> None:
        # Otherwise LLVM would reuse the register and not load again.
        signature = ir.FunctionType(ir.VoidType(), [])
        self.b.asm(signature, "", "~{memory}", [], side_effect=True)

    def _prefetch_line(self, steps: int) -> None:
        if self.kernel.prefetch:
            prefetch_target = self._stepped(self.prefetch_target)
            for _ in range(steps):
                self.of.prefetch(prefetch_target, 2)
                prefetch_target = self._at(prefetch_target, self.prefetch_pitch)
            self.b.store(prefetch_target, self.prefetch_target)

    def _stepped(self, variable: IR) -> IR:
        """The address in a variable, without LLVM's knowledge that the loop advances it."""
        return self.opaque(self.b.load(variable, typ=pointer))

    def _number(self, in_a: dict[int, IR], i: int, step: int) -> IR:
        """Address of A[i, kk + step]."""
        if self.kernel.a == "columns":
            return self._at(in_a[0], i64(i * self.itemsize))
        within = i % _REACH
        row = self._at(in_a[i - within], self.within[within])
        return self._at(row, i64(step * self.itemsize))

    def _write(self, flags: IR) -> None:
        build, kernel = self.b, self.kernel
        accumulators = {
            tile: build.load(self.accumulators[tile], typ=self.vector) for tile in self.tiles
        }
        if kernel.narrow:
            for (i, j), total in accumulators.items():
                place = self._at(self.c[i], i64(j * self.of.lanes * bfloat16.itemsize))
                self.of.store(narrow_sums(self.of, bfloat16, total), place, self.masks[j])
        elif self.can_stream:
            with build.if_else(self._has(flags, STREAM)) as (streaming, storing):
                with streaming:
                    self._store(accumulators, streams=True)
                with storing:
                    self._store(accumulators)
        elif kernel.streams:
            self._store(accumulators)
        else:
            with build.if_else(self._has(flags, ADD)) as (adding, setting):
                with adding:
                    # All loads precede all stores. Rows that are a multiple of 4096 bytes apart
                    # alias, and a load would wait for the store to the row before.
                    self._store(
                        {tile: self._plus_old(tile, accumulators[tile]) for tile in self.tiles}
                    )
                with setting:
                    self._store(accumulators)

    def _store(self, totals: dict[tuple[int, int], IR], streams: bool = False) -> None:
        for (i, j), total in totals.items():
            self.of.store(total, self._vector(self.c[i], j), self.masks[j], streams)

    def _plus_old(self, tile: tuple[int, int], total: IR) -> IR:
        i, j = tile
        old = self.of.load(self.element, self._vector(self.c[i], j), self.masks[j])
        return self.b.fadd(old, total)

    def _has(self, flags: IR, flag: int) -> IR:
        return self.b.icmp_signed("!=", self.b.and_(flags, i64(flag)), i64(0))

    def _mask(self, columns: IR, j: int) -> IR | None:
        if not self.kernel.masked:
            return None
        return self.of.first(self.b.sub(columns, i64(j * self.of.lanes)))

    def _vector(self, row: IR, j: int) -> IR:
        return self._at(row, i64(j * self.of.lanes * self.itemsize))

    def _at(self, address: IR, distance: IR) -> IR:
        if isinstance(distance, ir.Constant) and distance.constant == 0:
            return address
        return self.b.gep(address, [distance], source_etype=i8)

    def _prefetch(self, address: IR, write: bool = True) -> None:
        to_write, all_levels, data = i32(int(write)), i32(3), i32(1)
        self.of.call("llvm.prefetch.p0", ir.VoidType(), address, to_write, all_levels, data)
