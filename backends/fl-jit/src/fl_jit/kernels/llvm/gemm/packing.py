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

* "straight" has contiguous rows.
* "transposed" has contiguous columns. Squares of it are transposed in registers.
* "single" has neither.
* "pairs" is "straight" of bfloat16. Two rows become one row of pairs (``microkernel.py``). ``rows``
  counts pairs, and ``row_stride`` is the distance from pair to pair, half of it within a pair.

Strides are in bytes. ``width`` counts columns and is a multiple of the lanes of a vector. After
each row of a panel ``gap`` bytes stay unwritten. Rows with a power-of-two pitch would cause cache
conflict misses.

Unpacking is the reverse, for results that a micro-kernel cannot write itself. Rows of accumulators,
``pitch`` bytes apart, are written with any strides and dtype, or added to the contents of the
result:

    void unpack(ptr from, i64 pitch, i64 rows, i64 columns, ptr to, i64 row_stride,
                i64 column_stride, i64 add)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.vectors import IR, element_type, i64, memory_type, pointer
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import FOLDER, strided_copy
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.prefetch_policy import PACKED_ROWS, TRANSPOSED_BYTES
from fl_jit.kernels.llvm.strided_copy import CopyBuilder
from fl_tensor.dtypes import DType

PACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64, i64, pointer])
UNPACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, pointer, i64, i64, i64])
#: Vectors per iteration of the three loops over a row.
_AT_ONCE = (8, 4, 1)


def kind_of(row_stride: int, column_stride: int, dtype: DType) -> str:
    """The packing function for a matrix with these strides, in bytes."""
    return strided_copy.kind(0, 1, row_stride // dtype.itemsize, column_stride // dtype.itemsize)


def pack(kind: str, dtype: DType) -> int:
    """Address of a packing function for a matrix of ``dtype``."""
    return _code(kind, dtype).address("move")


def unpack(dtype: DType) -> int:
    """Address of ``unpack`` to ``dtype``."""
    return _code("unpack", dtype).address("move")


@compile.once
def _code(kind: str, dtype: DType) -> compile.Code:
    def assembly() -> str:
        module = ir.Module("move")
        module.triple = target.triple()
        if kind == "unpack":
            _Unpack(ir.Function(module, UNPACK, "move"), dtype)
        else:
            _Pack(ir.Function(module, PACK, "move"), kind, dtype)
        return str(module)

    about = f"pack {kind} {dtype} {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host(), compile.Effort.TIDY)


class _MatrixCopy(CopyBuilder):
    # A copy between a matrix of ``dtype`` and rows of its compute dtype.

    def __init__(self, function: IR, dtype: DType, source: DType, result: DType) -> None:
        machine, self.dtype, rows = target.host(), dtype, computed(dtype)
        super().__init__(function, machine, source, result, machine.lanes(rows.itemsize))
        self.itemsize = rows.itemsize
        self.element = element_type(rows)

    def elements(self, stride: IR) -> IR:
        """A stride in bytes as a number of elements of the matrix."""
        return self.b.sdiv(stride, i64(self.dtype.itemsize))

    def bytes(self, count: IR) -> IR:
        """Bytes of ``count`` elements of the compute dtype."""
        return self.b.mul(count, i64(self.itemsize))


class _Pack(_MatrixCopy):
    def __init__(self, function: IR, kind: str, dtype: DType) -> None:
        super().__init__(function, dtype, dtype, computed(dtype))
        (
            self.source, self.row_stride, self.column_stride, self.rows, self.columns, self.width,
            self.gap, self.to,
        ) = self.function.args  # fmt: skip
        self.read = self._pairs if kind == "pairs" else self.load
        if kind == "transposed":
            self.square_memory()
            with self._panels() as panel:
                self._squares(*panel)
        else:
            self._by_rows(self._gathered if kind == "single" else self._contiguous)
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

    def _contiguous(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
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
            with self.loop(i64(0), nbytes, LINE) as byte:
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
        return self.pairs_of(address, self.b.sdiv(self.row_stride, i64(2)), mask)

    def _gathered(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        b, distances = self.b, self.of.distances(self.elements(self.column_stride))
        with self.loop(i64(0), rows) as row, self.loop(i64(0), columns, self.lanes) as column:
            here = self.at(source, b.mul(row, self.row_stride))
            here = self.at(here, b.mul(column, self.column_stride))
            mask = self.of.first(b.sub(columns, column))
            found = self.of.gather(memory_type(self.dtype), here, distances, mask)
            there = self.at(to, b.add(b.mul(row, pitch), self.bytes(column)))
            self.of.store(self.widened(self.dtype, found), there)

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
                panel = self.at(there, b.mul(row, pitch)), pitch
                sides = (start, self.column_stride), panel
                self.transpose_square(*sides, rows, left, padded=True)


class _Unpack(_MatrixCopy):
    def __init__(self, function: IR, dtype: DType) -> None:
        super().__init__(function, dtype, computed(dtype), dtype)
        b = self.b
        (
            self.source, self.pitch, self.rows, self.columns, self.to, self.row_stride,
            self.column_stride, add,
        ) = self.function.args  # fmt: skip
        adds = b.icmp_signed("!=", add, i64(0))
        is_contiguous = b.icmp_signed("==", self.column_stride, i64(dtype.itemsize))
        with b.if_else(is_contiguous) as (contiguous, strided):
            for branch, scatters in ((contiguous, False), (strided, True)):
                with branch, b.if_else(adds) as (adding, setting):
                    for case, accumulates in ((adding, True), (setting, False)):
                        with case:
                            self._unpack(accumulates, scatters)
        b.ret_void()

    def _unpack(self, accumulates: bool, scatters: bool) -> None:
        b, of = self.b, self.of
        kind, count = memory_type(self.dtype), self.columns
        distances = of.distances(self.elements(self.column_stride)) if scatters else None
        with self.loop(i64(0), self.rows) as row, self.loop(i64(0), count, self.lanes) as column:
            mask = of.first(b.sub(count, column))
            here = self.at(self.source, b.add(b.mul(row, self.pitch), self.bytes(column)))
            there = self.at(self.to, b.mul(row, self.row_stride))
            there = self.at(there, b.mul(column, self.column_stride))
            value = of.load(self.element, here, mask)
            if accumulates:
                old = (
                    of.gather(kind, there, distances, mask)
                    if scatters
                    else of.load(kind, there, mask)
                )
                value = b.fadd(value, self.widened(self.dtype, old))
            if scatters:
                of.scatter(self.narrowed(value), there, distances, mask)
            else:
                self.store(value, there, mask)
