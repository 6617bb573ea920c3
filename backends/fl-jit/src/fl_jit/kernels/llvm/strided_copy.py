"""Strided 2-D copy kernels between axis orders. All packing is made of them.

    void copy(ptr target, i64 target_row, i64 target_column,
              ptr source, i64 source_row, i64 source_column, i64 rows, i64 columns)

copies element (r, c) of ``rows x columns`` from ``source + r * source_row + c * source_column`` to
``target + r * target_row + c * target_column``, in bytes. It converts between half precision and
float32, or from int16 to int32 without sign extension. There is one function for each arrangement
of contiguous elements, because a vector holds contiguous elements:

    straight     columns are contiguous on both sides: rows are copied
    transposed   rows are contiguous in the source, columns in the target: squares of as many rows
                 and columns as a vector has lanes are transposed in registers
    single       anything else, element by element
    pairs        pairs of bfloat16, as int32: an element and the one half a ``source_row`` further
    row_pairs    the same, where columns are contiguous on both sides
    unpair       the reverse of pairs: the second one goes half a ``target_row`` further
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import compile, half, target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, Vectors, i8, i16, i32, i64, memory_type, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_tensor.dtypes import HALF, DType, int16, int32

SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, pointer, i64, i64, i64, i64])
#: Vectors per iteration of the loops that copy rows.
_TURN = 4


def kind(target_row: int, target_column: int, source_row: int, source_column: int) -> str:
    """The function for these distances, in elements."""
    if target_column != 1:
        return "single"
    return {1: "straight"}.get(source_column, "transposed" if source_row == 1 else "single")


class Move(NamedTuple):
    """The parameters of a copy function: its kind, source and result dtype, and prefetch distance.
    A "straight" copy prefetches the memory that many bytes after each row, if not 0. A later copy
    then reads it from L2."""

    kind: str
    source: DType
    result: DType
    prefetch: int = 0

    @property
    def name(self) -> str:
        """Name of the function."""
        prefetch = f"_prefetch_{self.prefetch}" * bool(self.prefetch)
        return f"{self.kind}_{self.source}_{self.result}{prefetch}"


def address(which: str, source: DType, result: DType) -> int:
    """Address of the function of a kind, from one dtype to another."""
    (only,) = addresses([Move(which, source, result)])
    return only


def addresses(moves: Sequence[Move]) -> list[int]:
    """Address of each function. Those that are not compiled yet are compiled together."""
    machine, wanted = target.host(), {move.name: move for move in moves}
    compiled = compile.addresses(
        {name: f"{name} {compile.sources(FOLDER)}" for name in wanted},
        lambda names: assembly([wanted[name] for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )
    return [compiled[move.name] for move in moves]


def assembly(moves: Iterable[Move], machine: Target) -> str:
    """A module in LLVM IR with a function for each move."""
    module = ir.Module("strided_copy")
    module.triple = target.triple()
    for move in moves:
        _Move(ir.Function(module, SIGNATURE, move.name), move, machine)
    return str(module)


class CopyBuilder(OuterLoops):
    """Builder of a function that copies elements of the dtype ``source`` to elements of ``result``:
    the same dtype, half precision and float32, or int16 and int32. A vector has ``lanes``."""

    def __init__(
        self, function: IR, machine: Target, source: DType, result: DType, lanes: int
    ) -> None:
        function.attributes.add("nounwind")
        self.function = function
        self.b = Builder(function.append_basic_block("entry"))
        self.dtypes = source, result
        self.lanes = lanes
        self.of = Vectors(self.b, machine, lanes)

    def at(self, address: IR, distance: IR) -> IR:
        """The address ``distance`` bytes after ``address``."""
        return self.b.gep(address, [distance], source_etype=i8)

    def load(self, address: IR, mask: IR | None = None) -> IR:
        """A vector of elements of the source, in the dtype in which they are computed."""
        return self.widened(
            self.dtypes[0], self.of.load(memory_type(self.dtypes[0]), address, mask)
        )

    def widened(self, dtype: DType, vector: IR) -> IR:
        """A vector of elements of ``dtype`` in the dtype in which they are computed."""
        if self.dtypes == (int16, int32):
            return self.b.zext(vector, self.of.of(i32))
        return half.widen(self.of, dtype, vector) if dtype in HALF else vector

    def narrowed(self, vector: IR) -> IR:
        """A vector of computed elements in the dtype of the result."""
        dtype = self.dtypes[1]
        return half.narrow_sums(self.of, dtype, vector) if dtype in HALF else vector

    def store(self, vector: IR, address: IR, mask: IR | None = None) -> None:
        """Store computed elements in the dtype of the result."""
        self.of.store(self.narrowed(vector), address, mask)

    def pairs_of(self, address: IR, distance: IR, mask: IR | None = None) -> IR:
        """A vector of pairs: elements of 16 bits, and those ``distance`` further."""
        b, of = self.b, self.of
        halves = [of.load(i16, at, mask) for at in (address, self.at(address, distance))]
        first, second = (b.zext(half, of.of(i32)) for half in halves)
        return b.or_(first, b.shl(second, of.constant(i32, 16)))

    def square_memory(self) -> None:
        """Reserve the scratch memory of ``transpose_square``."""
        self._square = self.room(self.of.of(i64), self.lanes)

    def transpose_square(
        self, source: tuple[IR, IR], target: tuple[IR, IR], rows: IR, columns: IR, padded: bool
    ) -> None:
        """Load columns as vectors and store them as rows, at most ``lanes`` of each. ``source`` and
        ``target`` are an address and the distance of columns or rows.

        A partial square at the edge is copied to a scratch square, transposed there, and copied to
        its destination; if ``padded``, with zeros up to a whole vector. LLVM compiles a
        transposition slowly, so the code has only one."""
        b, of, lanes = self.b, self.of, self.lanes
        (first, source_pitch), (goal, target_pitch) = source, target
        (source_type, source_bytes), (result_type, result_bytes) = (
            (memory_type(dtype), lanes * dtype.itemsize) for dtype in self.dtypes
        )
        is_part = b.icmp_signed("<", self.minimum(rows, columns), i64(lanes))
        with b.if_then(is_part), self.loop(i64(0), i64(lanes) if padded else columns) as c:
            mask = of.first(rows)
            if padded:
                mask = b.and_(mask, of.splat(b.icmp_signed("<", c, columns)))
            column = of.load(source_type, self._row(first, c, source_pitch), mask)
            of.store(column, self._row(self._square, c, source_bytes))
        read, read_pitch, written, written_pitch = (
            b.select(is_part, of_part, other)
            for of_part, other in (
                (self._square, first),
                (i64(source_bytes), source_pitch),
                (self._square, goal),
                (i64(result_bytes), target_pitch),
            )
        )
        sources = self._rows(read, read_pitch)
        square = [self.load(next(sources)) for _ in range(lanes)]
        targets = self._rows(written, written_pitch)
        for vector in of.transposed(square):
            self.store(vector, next(targets))
        with b.if_then(is_part), self.loop(i64(0), rows) as r:
            row = of.load(result_type, self._row(self._square, r, result_bytes))
            mask = None if padded else of.first(columns)
            of.store(row, self._row(goal, r, target_pitch), mask)

    def _rows(self, address: IR, pitch: IR) -> Iterator[IR]:
        """Addresses with a distance of ``pitch``, in sequence."""
        while True:
            yield address
            address = self.at(address, pitch)

    def _row(self, address: IR, index: IR, pitch: IR | int) -> IR:
        pitch = i64(pitch) if isinstance(pitch, int) else pitch
        return self.at(address, self.b.mul(index, pitch))


class _Move(CopyBuilder):
    def __init__(self, function: IR, move: Move, machine: Target) -> None:
        which, source, result, self.prefetch = move
        one = which in ("single", "pairs", "unpair")
        lanes = 1 if one else machine.lanes(max(source.itemsize, result.itemsize))
        super().__init__(function, machine, source, result, lanes)
        self.target, self.target_row, self.target_column = function.args[:3]
        self.source, self.source_row, self.source_column = function.args[3:6]
        self.rows, self.columns = function.args[6:]
        getattr(self, f"_{which}")()
        self.b.ret_void()

    def _straight(self) -> None:
        b, lanes = self.b, self.of.lanes
        sizes = [dtype.itemsize for dtype in self.dtypes]
        whole = b.and_(self.columns, i64(-lanes))
        many = b.and_(self.columns, i64(-lanes * _TURN))

        def copy(column: IR, count: int, mask: IR | None = None) -> None:
            source, target = (
                self._row(row, column, size)
                for row, size in zip((from_row, to_row), sizes, strict=True)
            )
            loaded = [
                self.load(self._near(source, lanes * v * sizes[0]), mask) for v in range(count)
            ]
            for v, vector in enumerate(loaded):
                self.store(vector, self._near(target, lanes * v * sizes[1]), mask)

        narrow = b.icmp_signed("<=", self.columns, i64(lanes))
        with b.if_then(narrow):
            self._vectors()
        rows = b.select(narrow, i64(0), self.rows)
        with self.loop(i64(0), rows) as row:
            from_row = self._row(self.source, row, self.source_row)
            to_row = self._row(self.target, row, self.target_row)
            self._prefetch_line(from_row)
            with self.loop(i64(0), many, lanes * _TURN) as column:
                copy(column, _TURN)
            with self.loop(many, whole, lanes) as column:
                copy(column, 1)
            with b.if_then(b.icmp_signed("<", whole, self.columns)):
                copy(whole, 1, self.of.first(b.sub(self.columns, whole)))

    def _vectors(self) -> None:
        # Rows of one vector.
        b, mask = self.b, self.of.first(self.columns)
        turns = b.and_(self.rows, i64(-_TURN))
        for low, high, step in ((i64(0), turns, _TURN), (turns, self.rows, 1)):
            with self.loop(low, high, step) as row:
                sources = self._rows(self._row(self.source, row, self.source_row), self.source_row)
                vectors = []
                for source in itertools.islice(sources, step):
                    vectors.append(self.load(source, mask))
                    self._prefetch_line(source)
                targets = self._rows(self._row(self.target, row, self.target_row), self.target_row)
                for vector in vectors:
                    self.store(vector, next(targets), mask)

    def _prefetch_line(self, row: IR) -> None:
        # Every cache line of ``prefetch`` bytes.
        for byte in range(self.prefetch, 2 * self.prefetch, 64):
            self.of.prefetch(self._near(row, byte), 2)

    def _transposed(self) -> None:
        b, lanes = self.b, self.lanes
        source_bytes, result_bytes = (dtype.itemsize for dtype in self.dtypes)
        self.square_memory()
        with (
            self.loop(i64(0), self.columns, lanes) as column,
            self.loop(i64(0), self.rows, lanes) as row,
        ):
            rows, columns = (
                self.minimum(b.sub(count, first), i64(lanes))
                for count, first in ((self.rows, row), (self.columns, column))
            )
            source = self._row(
                self._row(self.source, row, source_bytes), column, self.source_column
            )
            target = self._row(self._row(self.target, row, self.target_row), column, result_bytes)
            sides = (source, self.source_column), (target, self.target_row)
            self.transpose_square(*sides, rows, columns, padded=False)

    def _single(self) -> None:
        with self.loop(i64(0), self.rows) as row:
            source = self._row(self.source, row, self.source_row)
            target = self._row(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                element = self.load(self._row(source, column, self.source_column))
                self.store(element, self._row(target, column, self.target_column))

    def _pairs(self) -> None:
        other = self.b.sdiv(self.source_row, i64(2))
        with self.loop(i64(0), self.rows) as row:
            source = self._row(self.source, row, self.source_row)
            target = self._row(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                pair = self.pairs_of(self._row(source, column, self.source_column), other)
                self.of.store(pair, self._row(target, column, self.target_column))

    def _row_pairs(self) -> None:
        b, lanes = self.b, self.lanes
        other = b.sdiv(self.source_row, i64(2))
        with (
            self.loop(i64(0), self.rows) as row,
            self.loop(i64(0), self.columns, lanes) as column,
        ):
            mask = self.of.first(b.sub(self.columns, column))
            source = self._row(self._row(self.source, row, self.source_row), column, 2)
            target = self._row(self._row(self.target, row, self.target_row), column, 4)
            self.of.store(self.pairs_of(source, other, mask), target, mask)

    def _unpair(self) -> None:
        b = self.b
        other = b.sdiv(self.target_row, i64(2))
        with self.loop(i64(0), self.rows) as row:
            source = self._row(self.source, row, self.source_row)
            target = self._row(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                pair = b.load(self._row(source, column, self.source_column), typ=i32)
                low = self._row(target, column, self.target_column)
                b.store(b.trunc(pair, i16), low)
                b.store(b.trunc(b.lshr(pair, i32(16)), i16), self._row(low, i64(1), other))

    def _near(self, address: IR, nbytes: int) -> IR:
        """A constant distance further, which is part of an instruction."""
        return self.at(address, i64(nbytes)) if nbytes else address
