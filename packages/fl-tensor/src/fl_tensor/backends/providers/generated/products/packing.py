"""Packing: a block of a matrix copied so that a micro-kernel reads it from one end to the other.

    the matrix                     panels of ``width`` columns, one after the other
    +---------+---------+-----+    +---------+ +---------+ +-----+--+
    | 1 2 3 4 | 5 6 7 8 | 9 a |    | 1 2 3 4 | | 5 6 7 8 | | 9 a |0 |   the last one as wide
    | b c d e | f g h i | j k |    | b c d e | | f g h i | | j k |0 |   as whole vectors need
    +---------+---------+-----+    +---------+ +---------+ +-----+--+

That is the packing of Goto & van de Geijn: a block stays in cache, has no gaps, and few pages.
Every distance of the matrix is a parameter, so packing is where transposes, steps and narrow dtypes
end. A and B are packed by the same three functions

    void pack(ptr from, i64 row_stride, i64 column_stride, i64 rows, i64 columns, i64 width,
              i64 gap, ptr to)

which differ in what they take for granted of the matrix: "rows" has columns side by side,
"columns" has rows side by side (squares of it are transposed in registers), "strided" has neither.
"pairs" is "rows" of bfloat16 of which two at a time become one of pairs (``microkernel.py``):
``rows`` counts pairs, ``row_stride`` is from one to the next, and half of it within them.
Strides are in bytes; ``width`` counts columns, a multiple of the lanes of a vector. Behind each row
of a panel ``gap`` bytes stay as they are: rows that are a power of two apart would fight for a
cache's places.

``unpack`` is the way back, for results that a micro-kernel cannot write itself: rows of sums,
``pitch`` bytes apart, go to any place and dtype, or are added to what is there.

    void unpack(ptr from, i64 pitch, i64 rows, i64 columns, ptr to, i64 row_stride,
                i64 column_stride, i64 add)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llvmlite import ir

from fl_tensor import dtypes
from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.codegen import compile, half, target
from fl_tensor.codegen.loops import Loops
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, Vectors, element_type, i8, i32, i64, memory_type, pointer
from fl_tensor.dtypes import DType

PACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64, i64, pointer])
UNPACK = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, pointer, i64, i64, i64])
KINDS = ("rows", "columns", "strided", "pairs")
#: Rows that are read side by side: enough to follow with few streams of loads, and to write
#: stretches of some cache lines in each panel.
_TOGETHER = 8
#: Vectors in a turn of the loops over a row, of which there are three.
_AT_ONCE = (8, 2, 1)


def computed(dtype: DType) -> DType:
    """What is computed with where operands are of ``dtype``: half precision as float32."""
    return dtypes.float32 if dtype in dtypes.HALF else dtype


def kind_of(row_stride: int, column_stride: int, dtype: DType) -> str:
    """Which packing function a matrix with these strides, in bytes, is for."""
    if column_stride == dtype.itemsize:
        return "rows"
    return "columns" if row_stride == dtype.itemsize else "strided"


@compile.once
def pack(kind: str, dtype: DType) -> int:
    """The address of a packing function, for a matrix of ``dtype``."""
    return _address(f"pack {kind}", dtype)


@compile.once
def unpack(dtype: DType) -> int:
    """The address of ``unpack``, to ``dtype``."""
    return _address("unpack", dtype)


@compile.once
def _code(what: str, dtype: DType) -> compile.Code:
    about = f"{what} {dtype} {compile.sources(FOLDER)}"
    machine = target.host()
    return compile.load(about, lambda: assembly(what, dtype, machine), machine)


def _address(what: str, dtype: DType) -> int:
    return _code(what, dtype).address("move")


def assembly(what: str, dtype: DType, machine: Target) -> str:
    """A module in LLVM IR with the function ``move``: "pack rows", ... or "unpack"."""
    module = ir.Module("packing")
    module.triple = target.triple()
    if what == "unpack":
        _Unpack(module, dtype, machine)
    else:
        _Pack(module, what.removeprefix("pack "), dtype, machine)
    return str(module)


class _Mover(Loops):
    # Moves elements between a matrix of ``dtype`` and rows of what is computed with.

    def __init__(self, module: IR, signature: IR, dtype: DType, machine: Target) -> None:
        self.function = ir.Function(module, signature, "move")
        self.function.attributes.add("nounwind")
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.dtype = dtype
        self.itemsize = computed(dtype).itemsize
        self.lanes = machine.lanes(self.itemsize)
        self.of = Vectors(self.b, machine, self.lanes)
        self.element = element_type(computed(dtype))

    def at(self, base: IR, distance: IR) -> IR:
        return self.b.gep(base, [distance], source_etype=i8)

    def load(self, address: IR, mask: IR | None) -> IR:
        """A vector of neighbours of the matrix, as what is computed with."""
        return self.wide(self.of.load(memory_type(self.dtype), address, mask))

    def wide(self, found: IR) -> IR:
        return half.widen(self.of, self.dtype, found) if self.dtype in dtypes.HALF else found

    def narrow(self, value: IR) -> IR:
        return half.narrow_sums(self.of, self.dtype, value) if self.dtype in dtypes.HALF else value

    def elements(self, stride: IR) -> IR:
        """Bytes as elements of the matrix."""
        return self.b.sdiv(stride, i64(self.dtype.itemsize))

    def whole(self, count: IR) -> IR:
        """Elements of whole vectors among ``count``."""
        return self.b.and_(count, i64(-self.lanes))

    def padded(self, count: IR) -> IR:
        return self.whole(self.b.add(count, i64(self.lanes - 1)))

    def bytes(self, count: IR) -> IR:
        return self.b.mul(count, i64(self.itemsize))


class _Pack(_Mover):
    def __init__(self, module: IR, kind: str, dtype: DType, machine: Target) -> None:
        super().__init__(module, PACK, dtype, machine)
        (
            self.source, self.row_stride, self.column_stride, self.rows, self.columns, self.width,
            self.gap, self.to,
        ) = self.function.args  # fmt: skip
        self.read = self._pairs if kind == "pairs" else self.load
        if kind == "columns":
            with self._panels() as panel:
                self._squares(*panel)
        else:
            self._by_rows(self._gathered if kind == "strided" else self._rows)
        self.b.ret_void()

    @contextmanager
    def _panels(self) -> Iterator[tuple[IR, IR, IR, IR]]:
        """Each panel: where its columns are, how many, where it goes, bytes between its rows."""
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
        with self.loop(i64(0), self.rows, _TOGETHER) as first:
            count = self.minimum(b.sub(self.rows, first), i64(_TOGETHER))
            with self._panels() as (source, columns, to, pitch):
                source = self.at(source, b.mul(first, self.row_stride))
                fill(source, count, columns, self.at(to, b.mul(first, pitch)), pitch)

    def _rows(self, source: IR, rows: IR, columns: IR, to: IR, pitch: IR) -> None:
        b, whole = self.b, self.whole(columns)
        with self.loop(i64(0), rows) as row:
            here, there = (
                self.at(source, b.mul(row, self.row_stride)), self.at(to, b.mul(row, pitch))
            )  # fmt: skip

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
        """Neighbours of two rows, as pairs."""
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
        """Few columns at a time from one end to the other, while the next ones are asked for."""
        b, lanes = self.b, self.lanes
        with self.loop(i64(0), columns, lanes) as column:
            left = b.sub(columns, column)
            here = self.at(source, b.mul(column, self.column_stride))
            there = self.at(to, self.bytes(column))
            is_full = b.icmp_signed(">=", left, i64(lanes))
            whole = b.select(is_full, self.whole(self.rows), i64(0))
            with self.loop(i64(0), whole, lanes) as row:
                start = self.at(here, b.mul(row, i64(self.dtype.itemsize)))
                for i in range(lanes, 2 * lanes):
                    self.of.prefetch(self.at(start, b.mul(self.column_stride, i64(i))))
                self._square(start, None, None, self.at(there, b.mul(row, pitch)), pitch)
            with self.loop(whole, self.rows, lanes) as row:
                start = self.at(here, b.mul(row, i64(self.dtype.itemsize)))
                rows = b.sub(self.rows, row)
                self._square(start, rows, left, self.at(there, b.mul(row, pitch)), pitch)

    def _square(self, source: IR, rows: IR | None, columns: IR | None, to: IR, pitch: IR) -> None:
        """Columns as vectors, which become rows. ``rows`` and ``columns``: how many there are,
        where they may be fewer than lanes."""
        b, of, found = self.b, self.of, []
        mask = None if rows is None else of.first(rows)
        for i in range(self.lanes):
            wanted = mask
            if mask is not None:
                wanted = b.and_(mask, of.splat(b.icmp_signed("<", i64(i), columns)))
            found.append(self.load(self.at(source, b.mul(self.column_stride, i64(i))), wanted))
        for i, row in enumerate(of.transposed(found)):
            address = self.at(to, b.mul(pitch, i64(i)))
            if rows is None:
                of.store(row, address)
            else:
                with b.if_then(b.icmp_signed("<", i64(i), rows)):
                    of.store(row, address)


class _Unpack(_Mover):
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
