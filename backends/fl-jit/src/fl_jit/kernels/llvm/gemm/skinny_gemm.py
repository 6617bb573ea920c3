"""Skinny GEMMs as dot products: few rows of A times a B whose columns are contiguous.

An example is x @ w.T of a fully connected layer on a small batch. The time is that of one read of
``y`` at memory bandwidth; packing would read and write it once more. Both operands are contiguous
along k. Accumulators are vectors *along k*, one for each element of the result. They are reduced
across lanes at the end:

               k -->                       y: 6 columns, k contiguous
      x  [ . . . . . . . . ]              [ . . . . . . . . ]
    4    [ . . . . . . . . ]      x       [ . . . . . . . . ]     4 x 6 vectors of partial sums,
    rows [ . . . . . . . . ]              [ . . . . . . . . ]     10 loads for 24 multiply-adds
         [ . . . . . . . . ]                    ...

    for each item: some columns
      for each block of k, limited by the share of L2 that x may have
        for 6 columns of these: read from memory here, from cache by all but the first rows
          for 4 rows: a tile, or for a single row a tile of its own
      epilogue of all rows, and the columns of the item
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import compile, target, threads
from fl_jit.kernels.codegen.emit_block import SIGNATURE as EPILOGUE
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import FOLDER, launcher, prefetch_policy, tile, work_stealing
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_jit.kernels.llvm.loop_nest import Emitter, LoopNestBuilder
from fl_tensor.dtypes import DType

#: Sizes, distances in bytes between rows of x, columns of y and rows of the result, and the
#: partition.
ARGUMENTS = launcher.arguments(
    "x y out",
    "queue_count m n k x_row y_column out_row columns k_block accumulate epilogue",
)
#: Maximum rows for which dot products are faster than packing.
MOST_ROWS = 32
#: Approximate floating-point operations of a thread per nanosecond.
_SPEED = 60.0
#: tile(x, x row, y, y column, out, out row, k, rows, columns, add, distance)
_TILE = ir.FunctionType(ir.VoidType(), [pointer, i64, pointer, i64, pointer, i64, *[i64] * 5])


def shape(machine: Target, lanes: int) -> tile.Tile:
    """Rows and columns of a tile. The accumulators, a vector for each row and one for the current
    column must fit the registers, and a row of sums must fit a vector."""
    rows, columns = (4, 6) if machine.registers >= 32 else (2, 4)
    return tile.Tile(rows, min(columns, lanes))


def k_block(m: int, k: int, dtype: DType) -> int:
    """Steps of k in a block: x and the current columns take a quarter of L2."""
    vector = target.host().lanes(dtype.itemsize)
    most = max(cpu.host().l2 // 4 // (max(m, 6) * dtype.itemsize), vector)
    parts = max(-(-k // most), 1)
    return max(-(-k // parts // vector) * vector, vector)


def planned(
    dtype: DType,
    sizes: tuple[int, int, int],
    pitches: tuple[int, int, int],
    accumulate: bool,
    epilogue: Prepared | None,
) -> tuple[Launcher, str]:
    """The launcher of a product of ``sizes`` (m, k, n), and its description. ``pitches`` are bytes
    from row to row of x, from column to column of y, and from row to row of the result."""
    (m, k, n), (x_row, y_column, out_row) = sizes, pitches
    block = k_block(m, k, dtype)
    tile = shape(target.host(), target.host().lanes(dtype.itemsize))
    parts = 4 * threads.limit() if threads.pool() and threads.limit() > 1 else 1
    columns = max(-(-n // (parts * tile.vectors)), 1) * tile.vectors
    fields = {
        "m": m, "n": n, "k": k, "x_row": x_row, "y_column": y_column, "out_row": out_row,
        "columns": columns, "k_block": block, "accumulate": accumulate,
    }  # fmt: skip
    items = -(-n // columns) if m else 0

    def divide(workers: int) -> Division:
        return Division((workers if items else 0,), {}, 0, stolen=items)

    work = 2.0 * m * n * max(k, 1) / _SPEED
    most = max(items, 1)
    run = Launcher(code(dtype), ARGUMENTS, fields, divide, work, epilogue, most, phases=("dots",))
    return run, f"dots {tile.rows}x{tile.vectors} k {block}"


@compile.once
def code(dtype: DType) -> compile.Code:
    """The machine code for ``dtype`` (float32 or float64), with the function ``dots``."""
    about = f"dots {dtype} {compile.sources(FOLDER)}"
    return compile.load(about, lambda: assembly(dtype, target.host()), target.host())


def assembly(dtype: DType, machine: Target) -> str:
    """A module in LLVM IR with the function ``dots``."""
    module = ir.Module("dots")
    module.triple = target.triple()
    lanes = machine.lanes(dtype.itemsize)
    most = shape(machine, lanes)
    many = _Tile(module, "tile", dtype, machine, most)
    one = _Tile(module, "row", dtype, machine, tile.Tile(1, most.vectors))
    _Dots(module, many, one, machine, dtype)
    return str(module)


class _Dots(LoopNestBuilder):
    """The loop nest."""

    def __init__(
        self, module: IR, made: _Tile, single: _Tile, machine: Target, dtype: DType
    ) -> None:
        super().__init__(module, "dots", ARGUMENTS, machine, dtype)
        b, args, size = self.b, self.args, i64(dtype.itemsize)
        with work_stealing.steal(self, self.begin, args["queues"], args["queue_count"]) as item:
            first = b.mul(item, args["columns"])
            last = self.minimum(b.add(first, args["columns"]), args["n"])
            once = self.maximum(args["k"], i64(1))
            with self.loop(i64(0), once, args["k_block"]) as k0:
                k = self.minimum(b.sub(args["k"], k0), args["k_block"])
                adds = b.or_(b.zext(b.icmp_signed(">", k0, i64(0)), i64), args["accumulate"])
                with (
                    self.loop(first, last, made.shape.vectors) as column,
                    self.loop(i64(0), args["m"], made.shape.rows) as row,
                ):
                    x = self.sum(args["x"], (row, args["x_row"]), (k0, size))
                    y = self.sum(args["y"], (column, args["y_column"]), (k0, size))
                    out = self.sum(args["out"], (row, args["out_row"]), (column, size))
                    left = b.sub(args["m"], row), b.sub(last, column)
                    given = [self.address(x), args["x_row"], self.address(y), args["y_column"]]
                    given += [self.address(out), args["out_row"], k]
                    # The columns of the next tile, by the first rows, which wait for memory.
                    following = b.mul(args["y_column"], i64(made.shape.vectors))
                    distance = b.select(b.icmp_signed("==", row, i64(0)), following, i64(0))
                    given += [*left, adds, distance]
                    with b.if_else(b.icmp_signed("==", left[0], i64(1))) as (one, many):
                        with one:
                            b.call(single.function, given)
                        with many:
                            b.call(made.function, given)
            with self.when(self.is_set("epilogue")):
                part = i64(0), args["m"], first, b.sub(last, first)
                block = self.address(args["epilogue_args"])
                self.call(args["epilogue"], EPILOGUE, block, *part, self.worker)
        b.ret_void()


class _Tile(Emitter):
    """One tile of the result. Missing rows and columns read the memory of the last one, and are not
    written."""

    def __init__(
        self, module: IR, name: str, dtype: DType, machine: Target, shape: tile.Tile
    ) -> None:
        super().__init__(ir.Function(module, _TILE, name), machine, dtype)
        self.function.linkage = "internal"
        self.function.attributes.add("noinline")
        x, x_row, y, y_column, out, out_row, k, rows, columns, add, distance = self.function.args
        b, of, self.shape = self.b, self.of, shape
        self.cells = [(i, j) for i in range(shape.rows) for j in range(shape.vectors)]
        self.accumulators = {cell: self.variable(of.of(self.element)) for cell in self.cells}
        for variable in self.accumulators.values():
            b.store(of.constant(self.element, 0), variable)
        self.x = [self._line(x, x_row, i, rows) for i in range(shape.rows)]
        self.y = [self._line(y, y_column, j, columns) for j in range(shape.vectors)]
        self.distance = distance
        whole = b.and_(k, i64(-of.lanes))
        with self.loop(i64(0), whole, of.lanes) as index:
            self._step(index, None)
        with self.loop(whole, k, of.lanes) as index:
            self._step(index, of.first(b.sub(k, index)))
        for i in range(shape.rows):
            with b.if_then(b.icmp_signed("<", i64(i), rows)):
                total = self._across([self._sum(i, j) for j in range(shape.vectors)])
                place = self.at(out, b.mul(out_row, i64(i)))
                mask = of.first(self.minimum(columns, i64(shape.vectors)))
                with b.if_else(b.trunc(add, ir.IntType(1))) as (adding, setting):
                    with adding:
                        before = of.load(self.element, place, mask)
                        of.store(b.fadd(before, total), place, mask)
                    with setting:
                        of.store(total, place, mask)
        b.ret_void()

    def _line(self, start: IR, pitch: IR, number: int, count: IR) -> IR:
        there = self.minimum(i64(number), self.b.sub(count, i64(1)))
        return self.at(start, self.b.mul(pitch, there))

    def _step(self, index: IR, mask: IR | None) -> None:
        b, of = self.b, self.of

        def vector(line: IR) -> IR:
            return of.load(self.element, b.gep(line, [index], source_etype=self.element), mask)

        left = [vector(line) for line in self.x]
        for j, line in enumerate(self.y):
            right = vector(line)
            if mask is None:
                there = b.gep(line, [index], source_etype=self.element)
                of.prefetch(self.at(there, self.distance), prefetch_policy.SKINNY_LEVEL)
            for i, number in enumerate(left):
                b.store(of.fma(number, right, self._sum(i, j)), self.accumulators[i, j])

    def _sum(self, i: int, j: int) -> IR:
        return self.b.load(self.accumulators[i, j], typ=self.of.of(self.element))

    def _across(self, vectors: list[IR]) -> IR:
        """A vector of the sum of each vector's lanes. Each step combines two vectors into one, of
        twice as many groups of half as many lanes. A group of one lane is a sum."""
        lanes, groups = self.of.lanes, 1
        zero = self.of.constant(self.element, 0)
        while groups < lanes:
            if len(vectors) % 2:
                vectors = [*vectors, zero]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self._halved(x, y, groups) for x, y in pairs]
            groups *= 2
        return vectors[0]

    def _halved(self, x: IR, y: IR, groups: int) -> IR:
        lanes = self.of.lanes
        half = lanes // groups // 2
        low = [2 * half * group + lane for group in range(groups) for lane in range(half)]
        low += [lanes + place for place in low]
        lower = self.of.shuffle(x, y, low)
        return self.b.fadd(lower, self.of.shuffle(x, y, [place + half for place in low]))
