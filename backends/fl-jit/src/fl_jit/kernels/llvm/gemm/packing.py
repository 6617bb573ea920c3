"""Packing of a matrix block into panels that a micro-kernel reads sequentially.

    the matrix                     panels of ``width`` columns, one after the other
    +---------+---------+-----+    +---------+ +---------+ +-----+--+
    | 1 2 3 4 | 5 6 7 8 | 9 a |    | 1 2 3 4 | | 5 6 7 8 | | 9 a |0 |   the last one padded to
    | b c d e | f g h i | j k |    | b c d e | | f g h i | | j k |0 |   whole vectors
    +---------+---------+-----+    +---------+ +---------+ +-----+--+

This is the packing of Goto & van de Geijn: a block stays in cache, is contiguous, and has few
pages. All strides of the matrix are parameters. Packing therefore removes transposes, steps and
narrow dtypes. A and B have the same packing functions:

    void pack(ptr from, i64 row_stride, i64 column_stride, i64 rows, i64 columns, i64 width,
              i64 gap, ptr to)

The functions differ in their assumptions about the matrix:

* "rows" has contiguous rows.
* "columns" has contiguous columns. Squares of it are transposed in registers.
* "strided" has neither.
* "pairs" is "rows" of bfloat16. Two rows become one row of pairs (``microkernel.py``). ``rows``
  counts pairs, and ``row_stride`` is the distance from pair to pair, half of it within a pair.

Strides are in bytes. ``width`` counts columns and is a multiple of the lanes of a vector. After
each row of a panel ``gap`` bytes stay unwritten. Rows with a power-of-two pitch would cause cache
conflict misses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i32, i64, memory_type, pointer
from fl_jit.kernels.llvm.gemm import copy_kernel
from fl_jit.kernels.llvm.prefetch_policy import PACKED_ROWS, TRANSPOSED_BYTES
from fl_tensor.dtypes import DType

PACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64, i64, pointer])
KINDS = ("rows", "columns", "strided", "pairs")
#: Vectors per iteration of the three loops over a row.
_AT_ONCE = (8, 4, 1)
_LINE = 64


def kind_of(row_stride: int, column_stride: int, dtype: DType) -> str:
    """The packing function for a matrix with these strides, in bytes."""
    if column_stride == dtype.itemsize:
        return "rows"
    return "columns" if row_stride == dtype.itemsize else "strided"


def pack(kind: str, dtype: DType) -> int:
    """Address of a packing function for a matrix of ``dtype``."""
    return _code(kind, dtype).address("move")


@compile.once
def _code(kind: str, dtype: DType) -> compile.Code:
    machine = target.host()
    return copy_kernel.code(
        f"pack {kind}", dtype, lambda module: _Pack(module, kind, dtype, machine)
    )


class _Pack(copy_kernel.CopyKernelBuilder):
    def __init__(self, module: IR, kind: str, dtype: DType, machine: Target) -> None:
        super().__init__(module, PACK, dtype, machine)
        (
            self.source, self.row_stride, self.column_stride, self.rows, self.columns, self.width,
            self.gap, self.to,
        ) = self.function.args  # fmt: skip
        self.read = self._pairs if kind == "pairs" else self.load
        if kind == "columns":
            self.aside = self.room(self.of.of(self.element), self.lanes)
            with self._panels() as panel:
                self._squares(*panel)
        else:
            self._by_rows(self._gathered if kind == "strided" else self._rows)
        self.b.ret_void()

    def whole(self, count: IR) -> IR:
        """Elements of the whole vectors among ``count``."""
        return self.b.and_(count, i64(-self.lanes))

    def padded(self, count: IR) -> IR:
        """``count`` rounded up to whole vectors."""
        return self.whole(self.b.add(count, i64(self.lanes - 1)))

    @contextmanager
    def _panels(self) -> Iterator[tuple[IR, IR, IR, IR]]:
        """Each panel: address and number of its columns, its target address, and its pitch in
        bytes."""
        b = self.b
        with self.loop(i64(0), self.columns, self.width) as begin:
            columns = self.minimum(b.sub(self.columns, begin), self.width)
            pitch = b.add(self.bytes(self.padded(columns)), self.gap)
            before = b.mul(b.sdiv(begin, self.width), self.gap)
            place = b.mul(b.add(self.bytes(begin), before), self.rows)
            source = self.at(self.source, b.mul(begin, self.column_stride))
            yield source, columns, self.at(self.to, place), pitch

    def _by_rows(self, fill: Callable[[IR, IR, IR, IR, IR], None]) -> None:
        b = self.b
        with self.loop(i64(0), self.rows, PACKED_ROWS) as first:
            count = self.minimum(b.sub(self.rows, first), i64(PACKED_ROWS))
            with self._panels() as (source, columns, to, pitch):
                source = self.at(source, b.mul(first, self.row_stride))
                fill(source, count, columns, self.at(to, b.mul(first, pitch)), pitch)

    def _rows(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        b = self.b
        is_narrow = b.icmp_signed("<", columns, i64(self.lanes))
        with b.if_else(is_narrow) as (narrow, wide):
            with narrow:
                self._narrow_rows(source, rows, columns, to, pitch)
            with wide:
                self._wide_rows(source, rows, columns, to, pitch)

    def _narrow_rows(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        """Rows of less than a vector. Tiles of a column-major A have hundreds of them."""
        b, mask = self.b, self.of.first(columns)
        last = b.sub(b.mul(columns, i64(self.dtype.itemsize)), i64(1))
        prefetch = b.add(b.mul(self.row_stride, i64(PACKED_ROWS)), last)
        with self.loop(i64(0), rows) as row:
            here = self.at(source, b.mul(row, self.row_stride))
            self.of.prefetch(self.at(here, prefetch), 2)
            self.of.store(self.read(here, mask), self.at(to, b.mul(row, pitch)))

    def _wide_rows(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        b, whole = self.b, self.whole(columns)
        with self.loop(i64(0), rows) as row:
            here, there = (
                self.at(source, b.mul(row, self.row_stride)), self.at(to, b.mul(row, pitch))
            )  # fmt: skip
            below = self.at(here, b.mul(self.row_stride, i64(PACKED_ROWS)))
            nbytes = b.mul(columns, i64(self.dtype.itemsize))
            with self.loop(i64(0), nbytes, _LINE) as byte:
                self.of.prefetch(self.at(below, byte), 2)

            def move(column: IR, mask: IR | None) -> None:
                found = self.read(self.at(here, b.mul(column, i64(self.dtype.itemsize))), mask)
                self.of.store(found, self.at(there, self.bytes(column)))

            start: IR = i64(0)
            for vectors in _AT_ONCE:
                step = vectors * self.lanes
                end = b.add(start, b.and_(b.sub(whole, start), i64(-step)))
                with self.loop(start, end, step) as column:
                    for i in range(vectors):
                        move(b.add(column, i64(i * self.lanes)), None)
                start = end
            with self.loop(whole, columns, self.lanes) as column:
                move(column, self.of.first(b.sub(columns, column)))

    def _pairs(self, address: IR, mask: IR | None) -> IR:
        """Contiguous elements of two rows, as pairs."""
        b, of = self.b, self.of
        below = self.at(address, b.sdiv(self.row_stride, i64(2)))
        low, high = (of.load(memory_type(self.dtype), at, mask) for at in (address, below))
        low, high = (b.zext(half, of.of(i32)) for half in (low, high))
        return b.or_(low, b.shl(high, of.constant(i32, 16)))

    def _gathered(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        b, apart = self.b, self.of.apart(self.elements(self.column_stride))
        with self.loop(i64(0), rows) as row, self.loop(i64(0), columns, self.lanes) as column:
            here = self.at(source, b.mul(row, self.row_stride))
            here = self.at(here, b.mul(column, self.column_stride))
            mask = self.of.first(b.sub(columns, column))
            found = self.of.gather(memory_type(self.dtype), here, apart, mask)
            there = self.at(to, b.add(b.mul(row, pitch), self.bytes(column)))
            self.of.store(self.wide(found), there)

    def _squares(self, source: IR, columns: IR, to: IR, pitch: IR) -> None:
        """Transpose one vector's width of columns at a time over all rows, and prefetch the next
        columns. The next columns go into L2, as L1 has no room for them. From there the prefetch of
        the next rows is in time."""
        b, lanes = self.b, self.lanes
        with self.loop(i64(0), columns, lanes) as column:
            left = self.minimum(b.sub(columns, column), i64(lanes))
            here = self.at(source, b.mul(column, self.column_stride))
            there = self.at(to, self.bytes(column))
            with self.loop(i64(0), self.rows, lanes) as row:
                start = self.at(here, b.mul(row, i64(self.dtype.itemsize)))
                for i in range(lanes):
                    line = self.at(start, b.mul(self.column_stride, i64(i)))
                    self.of.prefetch(self.at(line, b.mul(self.column_stride, i64(lanes))), 2)
                    self.of.prefetch(self.at(line, i64(TRANSPOSED_BYTES)))
                rows = self.minimum(b.sub(self.rows, row), i64(lanes))
                self._square(start, rows, left, self.at(there, b.mul(row, pitch)), pitch)

    def _square(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        """Load columns as vectors and store them as rows. A partial square at the edge goes through
        a scratch square: LLVM compiles a transposition slowly, so the code has only one."""
        b, of, lanes = self.b, self.of, i64(self.lanes)
        given = memory_type(self.dtype)
        given_bytes, taken_bytes = i64(self.lanes * self.dtype.itemsize), self.bytes(lanes)
        is_part = b.icmp_signed("<", self.minimum(rows, columns), lanes)
        with b.if_then(is_part), self.loop(i64(0), lanes) as i:
            mask = b.and_(of.first(rows), of.splat(b.icmp_signed("<", i, columns)))
            found = of.load(given, self.at(source, b.mul(self.column_stride, i)), mask)
            of.store(found, self.at(self.aside, b.mul(given_bytes, i)))
        read, read_pitch, written, written_pitch = (
            b.select(is_part, part, whole)
            for part, whole in (
                (self.aside, source),
                (given_bytes, self.column_stride),
                (self.aside, to),
                (taken_bytes, pitch),
            )
        )
        places = range(self.lanes)
        square = [self.load(self.at(read, b.mul(read_pitch, i64(i))), None) for i in places]
        for i, row in enumerate(of.transposed(square)):
            of.store(row, self.at(written, b.mul(written_pitch, i64(i))))
        with b.if_then(is_part), self.loop(i64(0), rows) as i:
            row = of.load(self.element, self.at(self.aside, b.mul(taken_bytes, i)))
            of.store(row, self.at(to, b.mul(pitch, i)))
