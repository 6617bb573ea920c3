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
    pairs        of bfloat16, in int32: an element and the one half a ``source_row`` further
    abreast      the same, where columns are contiguous on both sides
    apart        the reverse of pairs: the second one goes half a ``target_row`` further
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
KINDS = ("straight", "transposed", "single", "pairs", "abreast", "apart")


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
        prefetch = f"_ahead_{self.prefetch}" * bool(self.prefetch)
        return f"{self.kind}_{self.source}_{self.result}{prefetch}"


def address(which: str, source: DType, result: DType) -> int:
    """Address of the function of a kind, from one dtype to another."""
    (found,) = addresses([Move(which, source, result)])
    return found


def addresses(moves: Sequence[Move]) -> list[int]:
    """Address of each function. Those that are not compiled yet are compiled together."""
    machine, wanted = target.host(), {move.name: move for move in moves}
    found = compile.addresses(
        {name: f"{name} {compile.sources(FOLDER)}" for name in wanted},
        lambda names: assembly([wanted[name] for name in names], machine),
        machine,
        compile.Effort.TIDY,
    )
    return [found[move.name] for move in moves]


def assembly(moves: Iterable[Move], machine: Target) -> str:
    """A module in LLVM IR with a function for each move."""
    module = ir.Module("planes")
    module.triple = target.triple()
    for move in moves:
        _Move(ir.Function(module, SIGNATURE, move.name), move, machine)
    return str(module)


class _Move(OuterLoops):
    def __init__(self, function: IR, move: Move, machine: Target) -> None:
        function.attributes.add("nounwind")
        self.b = Builder(function.append_basic_block("entry"))
        which, source, result, self.prefetch = move
        self.dtypes = source, result
        one = which in ("single", "pairs", "apart")
        lanes = 1 if one else machine.lanes(max(source.itemsize, result.itemsize))
        self.of = Vectors(self.b, machine, lanes)
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
                self._at(row, column, size)
                for row, size in zip((from_row, to_row), sizes, strict=True)
            )
            vectors = range(count)
            found = [self._load(self._near(source, lanes * v * sizes[0]), mask) for v in vectors]
            for v, vector in zip(vectors, found, strict=True):
                self._store(vector, self._near(target, lanes * v * sizes[1]), mask)

        narrow = b.icmp_signed("<=", self.columns, i64(lanes))
        with b.if_then(narrow):
            self._vectors()
        rows = b.select(narrow, i64(0), self.rows)
        with self.loop(i64(0), rows) as row:
            from_row = self._at(self.source, row, self.source_row)
            to_row = self._at(self.target, row, self.target_row)
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
                sources = self._rows(self._at(self.source, row, self.source_row), self.source_row)
                found = []
                for place in itertools.islice(sources, step):
                    found.append(self._load(place, mask))
                    self._prefetch_line(place)
                targets = self._rows(self._at(self.target, row, self.target_row), self.target_row)
                for vector in found:
                    self._store(vector, next(targets), mask)

    def _prefetch_line(self, row: IR) -> None:
        # Every cache line of ``prefetch`` bytes.
        for byte in range(self.prefetch, 2 * self.prefetch, 64):
            self.of.prefetch(self._near(row, byte), 2)

    def _transposed(self) -> None:
        lanes = self.of.lanes
        self.square = self.room(self.of.of(i64), lanes)
        with (
            self.loop(i64(0), self.columns, lanes) as column,
            self.loop(i64(0), self.rows, lanes) as row,
        ):
            self._square(row, column)

    def _square(self, row: IR, column: IR) -> None:
        """Copy a square of as many rows and columns as there are lanes. A partial square at the
        edge is copied to a scratch square, transposed there, and copied to its destination. LLVM
        compiles a transposition slowly, so the code has only one."""
        b, lanes = self.b, self.of.lanes
        rows, columns = (
            self.minimum(b.sub(count, first), i64(lanes))
            for count, first in ((self.rows, row), (self.columns, column))
        )
        is_part = b.icmp_signed("<", self.minimum(rows, columns), i64(lanes))
        (source, given), (target, taken) = (
            (memory_type(dtype), dtype.itemsize) for dtype in self.dtypes
        )
        first = self._at(self._at(self.source, row, given), column, self.source_column)
        goal = self._at(self._at(self.target, row, self.target_row), column, taken)
        with b.if_then(is_part), self.loop(i64(0), columns) as c:
            found = self.of.load(
                source, self._at(first, c, self.source_column), self.of.first(rows)
            )
            self.of.store(found, self._at(self.square, c, lanes * given))
        read, read_pitch, written, written_pitch = (
            b.select(is_part, of_part, other)
            for of_part, other in (
                (self.square, first),
                (i64(lanes * given), self.source_column),
                (self.square, goal),
                (i64(lanes * taken), self.target_row),
            )
        )
        sources = self._rows(read, read_pitch)
        square = [self._load(next(sources)) for _ in range(lanes)]
        targets = self._rows(written, written_pitch)
        for vector in self.of.transposed(square):
            self._store(vector, next(targets))
        with b.if_then(is_part), self.loop(i64(0), rows) as r:
            found = self.of.load(target, self._at(self.square, r, lanes * taken))
            self.of.store(found, self._at(goal, r, self.target_row), self.of.first(columns))

    def _single(self) -> None:
        with self.loop(i64(0), self.rows) as row:
            source = self._at(self.source, row, self.source_row)
            target = self._at(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                found = self._load(self._at(source, column, self.source_column))
                self._store(found, self._at(target, column, self.target_column))

    def _pairs(self) -> None:
        b = self.b
        other = b.sdiv(self.source_row, i64(2))
        with self.loop(i64(0), self.rows) as row:
            source = self._at(self.source, row, self.source_row)
            target = self._at(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                low = self._at(source, column, self.source_column)
                halves = [b.load(at, typ=i16) for at in (low, self._at(low, i64(1), other))]
                first, second = (b.zext(half, i32) for half in halves)
                pair = b.or_(first, b.shl(second, i32(16)))
                b.store(pair, self._at(target, column, self.target_column))

    def _abreast(self) -> None:
        b, of = self.b, self.of
        other = b.sdiv(self.source_row, i64(2))
        with (
            self.loop(i64(0), self.rows) as row,
            self.loop(i64(0), self.columns, of.lanes) as column,
        ):
            mask = of.first(b.sub(self.columns, column))
            low = self._at(self._at(self.source, row, self.source_row), column, 2)
            halves = [of.load(i16, at, mask) for at in (low, self._at(low, i64(1), other))]
            first, second = (b.zext(half, of.of(i32)) for half in halves)
            pair = b.or_(first, b.shl(second, of.constant(i32, 16)))
            to = self._at(self._at(self.target, row, self.target_row), column, 4)
            of.store(pair, to, mask)

    def _apart(self) -> None:
        b = self.b
        other = b.sdiv(self.target_row, i64(2))
        with self.loop(i64(0), self.rows) as row:
            source = self._at(self.source, row, self.source_row)
            target = self._at(self.target, row, self.target_row)
            with self.loop(i64(0), self.columns) as column:
                pair = b.load(self._at(source, column, self.source_column), typ=i32)
                low = self._at(target, column, self.target_column)
                b.store(b.trunc(pair, i16), low)
                b.store(b.trunc(b.lshr(pair, i32(16)), i16), self._at(low, i64(1), other))

    def _rows(self, address: IR, pitch: IR) -> Iterator[IR]:
        """Addresses with a distance of ``pitch``, in sequence."""
        while True:
            yield address
            address = self.b.gep(address, [pitch], source_etype=i8)

    def _near(self, address: IR, nbytes: int) -> IR:
        """A constant distance further, which is part of an instruction."""
        return self.b.gep(address, [i64(nbytes)], source_etype=i8) if nbytes else address

    def _at(self, address: IR, index: IR, pitch: IR | int) -> IR:
        pitch = i64(pitch) if isinstance(pitch, int) else pitch
        return self.b.gep(address, [self.b.mul(index, pitch)], source_etype=i8)

    def _load(self, address: IR, mask: IR | None = None) -> IR:
        dtype = self.dtypes[0]
        found = self.of.load(memory_type(dtype), address, mask)
        if self.dtypes == (int16, int32):
            return self.b.zext(found, self.of.of(i32))
        return half.widen(self.of, dtype, found) if dtype in HALF else found

    def _store(self, vector: IR, address: IR, mask: IR | None = None) -> None:
        dtype = self.dtypes[1]
        found = half.narrow_sums(self.of, dtype, vector) if dtype in HALF else vector
        self.of.store(found, address, mask)
