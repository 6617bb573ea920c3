"""Loop nest of a matrix product C (m x n) = A (m x k) B (k x n), for every size and stride.

    for each item: a batch, a block of columns, a part of the rows (all, or those of a thread)
      for k0 in blocks of k
        pack B[k0:k1, columns] into panels               stays in L2 or L3; threads that share it
        for each tile of rows                              pack it cooperatively in advance
          for each panel of columns
            micro-kernel: C[tile, panel] = or += A B     accumulators stay in registers; prefetch
          after the last block of k:                     the next tile of A into L2
            epilogue of C[tile, columns]

                 n                       k             n
          +---+----+---+             +-------+     +--+----+--+
          |   |####|   |             |  | A  |     |  |    |  |
        m |   +----+   |    +=     m |  +----+     |  +----+  | k   B's block, packed: L2
          |   |tile|   |             |  |tile|     |  |pnl |  |     tile of A: L1, in place
          +---+----+---+             +--+----+     +--+----+--+     panel of B: streams through L1

The method is that of Goto & van de Geijn (2008), with the roles of A and B exchanged, since results
are row-major. Theirs keeps a block of A in L2.

Operands are copied only where necessary. B is not packed if A has few rows, or if it is prepacked.
A is not packed if its rows or columns are contiguous. A large B that is used for few rows of A has
small blocks, and micro-kernels prefetch the next block.

Micro-kernels cannot write some results: narrow dtypes, or non-contiguous elements. Their
accumulators are stored in scratch memory of the worker and unpacked after the last block of k.

Results do not depend on the number of threads. No item depends on the thread that computes it, and
blocks of k do not depend on threads. ``work_stealing.py`` distributes the items.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.emit_block import SIGNATURE as EPILOGUE
from fl_jit.kernels.codegen.vectors import IR, call, i32, i64
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import FOLDER, work_stealing
from fl_jit.kernels.llvm.gemm import packing
from fl_jit.kernels.llvm.gemm.kernel_args import ARGUMENTS, BATCH_AXIS, GemmNest
from fl_jit.kernels.llvm.microkernel import ADD, STREAM
from fl_jit.kernels.llvm.microkernel import SIGNATURE_PREFETCH as MICRO

#: Bytes between the rows of a copied tile of A.
GAP = 64
#: Operands of a prefetch instruction: a read of data into L2.
_TO_L2 = i32(0), i32(2), i32(1)


#: Functions of the two phases.
PHASES = "pack", "gemm"


@compile.once
def code() -> compile.Code:
    """The machine code: ``pack`` packs B for all workers, ``gemm`` is the loop nest."""
    about = f"gemm {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host(), compile.Effort.TIDY)


def assembly() -> str:
    """A module in LLVM IR with the functions ``pack`` and ``gemm``."""
    module = ir.Module("gemm")
    module.triple = target.triple()
    _PackShared(module)
    _Gemm(module)
    return str(module)


class Block(NamedTuple):
    """The work of an item: rows of tiles ``begin`` to ``end``, panels ``first`` to ``last``, which
    are ``columns`` columns from ``column`` on. ``x``, ``y`` and ``out`` are the operands' addresses
    for this product of the batch."""

    begin: IR
    end: IR
    first: IR
    last: IR
    column: IR
    columns: IR
    x: IR
    y: IR
    out: IR
    row: IR  # of the first row of this product, among all of the batch


class _PackShared(GemmNest):
    """Cooperative packing of a B that several threads read. An item is a panel of a block of k."""

    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack")
        b, w = self.b, self.args
        with self.loop(self.begin, self.end) as item:
            panel = b.srem(item, w["panels"])
            k0 = b.mul(b.sdiv(item, w["panels"]), w["k_block"])
            k = self.minimum(b.sub(w["k"], k0), w["k_block"])
            is_last = b.icmp_signed("==", panel, b.sub(w["panels"], i64(1)))
            columns = b.select(is_last, w["last_columns"], w["panel_columns"])
            column = b.mul(panel, w["panel_columns"])
            source = self.address(self.sum(w["y"], (k0, w["y_k"]), (column, w["y_column"])))
            to = self.address(b.add(w["workspace"], self.packed_offset(k0, k, column)))
            given = source, w["y_k"], w["y_column"], k, columns, w["panel_columns"], i64(0), to
            self.call(w["pack_shared"], packing.PACK, *given)
        b.ret_void()


class _Gemm(GemmNest):
    def __init__(self, module: IR) -> None:
        super().__init__(module, "gemm")
        w, b = self.args, self.b
        self.no_offset = ARGUMENTS.at(b, self.arguments, "zero")
        workers = b.add(w["workspace"], w["shared_bytes"])
        self.scratch = b.add(workers, b.mul(w["worker_bytes"], self.worker))
        self.tile_memory = b.add(self.scratch, w["tile_offset"])
        is_aligned = b.icmp_signed("==", b.and_(w["out"], i64(LINE - 1)), i64(0))
        self.streams = b.and_(self.is_set("streams"), is_aligned)
        with work_stealing.steal(self, self.begin, w["queues"], w["queue_count"]) as item:
            self._item(item)
        if target.host().has_fences:
            call(b, "llvm.x86.sse.sfence", ir.VoidType())  # others may read it after this
        b.ret_void()

    # items

    def _item(self, item: IR) -> None:
        b, w = self.b, self.args
        block = self._block(item)
        most = self.maximum(w["k"], i64(1))  # without k the product is 0, and is written
        with self.loop(i64(0), most, w["k_block"]) as k0:
            k = self.minimum(b.sub(w["k"], k0), w["k_block"])
            right, panel_bytes = self._right(block, k0, k)
            flags = b.select(self.is_set("unpack"), i64(0), w["accumulate"])
            flags = b.select(b.icmp_signed(">", k0, i64(0)), i64(ADD), flags)
            flags = b.select(self.streams, i64(STREAM), flags)
            last_panel = b.sub(w["panels"], i64(1))
            with self.loop(block.begin, block.end) as tile:
                rows, row = self._rows(tile)
                left, left_pitch = self._left(block, row, rows, k0, k)
                goal = b.add(block.out, b.mul(row, w["out_row"]))
                goal = b.add(goal, b.mul(block.column, w["out_column"]))
                accumulators, pitch = self._accumulators(block, goal, row)
                given = (i64(1), self.no_offset, k, self.address(left), left_pitch)
                is_longer = b.icmp_signed("<", tile, w["longer_tiles"])
                of_last, of_whole = (
                    b.select(is_longer, w[f"micro_longer_{which}"], w[f"micro_other_{which}"])
                    for which in ("last", "whole")
                )
                with self.loop(block.first, block.last) as panel:
                    here = b.sub(panel, block.first)
                    is_last = b.icmp_signed("==", panel, last_panel)
                    micro = b.select(is_last, of_last, of_whole)
                    columns = b.select(is_last, w["last_columns"], w["panel_columns"])
                    part = b.add(right, b.mul(here, panel_bytes))
                    at = b.mul(b.mul(here, w["panel_columns"]), w["out_itemsize"])
                    c = self.address(b.add(accumulators, at))
                    self._prefetch_next(block, tile, k0, k, here)
                    given_to = (*given, self.address(part), w["y_k"], c, pitch, flags, columns)
                    self.call(
                        micro,
                        MICRO,
                        *given_to,
                        *self._prefetch_target(block, tile, here, k0, right),
                    )
                with b.if_then(b.icmp_signed(">=", b.add(k0, k), w["k"])):
                    self._complete(block, row, rows, accumulators, pitch, goal)

    def _block(self, item: IR) -> Block:
        b, w = self.b, self.args
        part, item = b.srem(item, w["row_parts"]), b.sdiv(item, w["row_parts"])
        slab, batch = b.srem(item, w["column_parts"]), b.sdiv(item, w["column_parts"])
        begin, end = self.share(part, w["row_parts"], w["tiles"])
        first, last = self.share(slab, w["column_parts"], w["panels"])
        column = b.mul(first, w["panel_columns"])
        stop = b.mul(last, w["panel_columns"])
        missing = b.sub(w["panel_columns"], w["last_columns"])
        stop = b.select(b.icmp_signed("==", last, w["panels"]), b.sub(stop, missing), stop)
        x, y, out = self._operands(batch)
        row = b.mul(batch, w["m"])
        return Block(begin, end, first, last, column, b.sub(stop, column), x, y, out, row)

    def _operands(self, batch: IR) -> list[IR]:
        """Addresses of x, y and out of product ``batch``."""
        b, w = self.b, self.args
        found = [self.variable(i64) for _ in range(3)]
        rest = self.variable(i64)
        b.store(batch, rest)
        for variable, name in zip(found, ("x", "y", "out"), strict=True):
            b.store(w[name], variable)
        with self.loop(i64(0), w["batch_axes"]) as number:
            axis = b.sub(b.sub(w["batch_axes"], number), i64(1))  # the fastest axis first
            table = self.at(self.address(w["batch_table"]), b.mul(axis, i64(8 * len(BATCH_AXIS))))
            size, *strides = (BATCH_AXIS.load(b, table, name) for name in BATCH_AXIS.names)
            left = b.load(rest, typ=i64)
            index = b.srem(left, size)
            b.store(b.sdiv(left, size), rest)
            for variable, stride in zip(found, strides, strict=True):
                moved = b.add(b.load(variable, typ=i64), b.mul(index, stride))
                b.store(moved, variable)
        return [b.load(variable, typ=i64) for variable in found]

    def _rows(self, tile: IR) -> tuple[IR, IR]:
        """Number of rows of a tile, and its first row."""
        b, w = self.b, self.args
        is_longer = b.icmp_signed("<", tile, w["longer_tiles"])
        before = self.minimum(tile, w["longer_tiles"])
        first = b.add(b.mul(tile, w["tile_rows"]), before)
        return b.add(w["tile_rows"], b.zext(is_longer, i64)), first

    # operands of the micro-kernel

    def _right(self, block: Block, k0: IR, k: IR) -> tuple[IR, IR]:
        """Address of B's block, and bytes from panel to panel: packed here, packed before, or in
        place."""
        b, w = self.b, self.args
        panel = b.mul(w["panel_columns"], w["itemsize"])
        packed = b.select(self.is_set("pack_shared"), w["workspace"], block.y)
        packed = b.add(packed, self.packed_offset(k0, k, block.column))
        plain = b.add(block.y, b.mul(k0, w["y_k"]))
        plain = b.add(plain, b.mul(block.column, w["y_column"]))
        packs = self.is_set("pack")
        with b.if_then(packs):
            strides = w["y_k"], w["y_column"]
            to = self.address(self.scratch)
            given = (
                self.address(plain),
                *strides,
                k,
                block.columns,
                w["panel_columns"],
                i64(0),
                to,
            )
            self.call(w["pack"], packing.PACK, *given)
        ready = self.is_set("y_packed")
        start = b.select(packs, self.scratch, b.select(ready, packed, plain))
        return start, b.select(b.or_(packs, ready), b.mul(panel, k), panel)

    def _left(self, block: Block, row: IR, rows: IR, k0: IR, k: IR) -> tuple[IR, IR]:
        """Address of A's tile, and its pitch."""
        b, w = self.b, self.args
        plain = b.add(block.x, b.mul(row, w["x_row"]))
        plain = b.add(plain, b.mul(k0, w["x_k"]))
        by_rows = self.is_set("copy_by_rows")
        copies = self.is_set("copy")
        gap = b.select(by_rows, i64(GAP), i64(0))
        steps, across = b.select(by_rows, rows, k), b.select(by_rows, k, rows)
        strides = [
            b.select(by_rows, w["x_row"], w["x_k"]), b.select(by_rows, w["x_k"], w["x_row"])
        ]  # fmt: skip
        with b.if_then(copies):
            given = (self.address(plain), *strides, steps, across, i64(1 << 40), gap)
            self.call(w["copy"], packing.PACK, *given, self.address(self.tile_memory))
        pitch = b.add(self._padded(across), gap)
        return b.select(copies, self.tile_memory, plain), b.select(copies, pitch, strides[0])

    def _prefetch_next(self, block: Block, tile: IR, k0: IR, k: IR, here: IR) -> None:
        """Prefetch a part of the next tile of A. Each panel of the block prefetches its share of
        the tile while its micro-kernel runs. Rows and steps that begin within a cache line end in
        another line, which the previous tile did not read."""
        b, w = self.b, self.args
        with b.if_then(self.is_set("prefetch_a")):
            rows, row = self._rows(b.add(tile, i64(1)))
            start = b.add(block.x, b.add(b.mul(row, w["x_row"]), b.mul(k0, w["x_k"])))
            by_rows = self.is_set("copy_by_rows")
            steps, across = b.select(by_rows, rows, k), b.select(by_rows, k, rows)
            stride = b.select(by_rows, w["x_row"], w["x_k"])
            begin, end = self.share(here, b.sub(block.last, block.first), steps)
            with self.loop(begin, end) as step:
                first = b.add(start, b.mul(step, stride))
                stop = b.add(first, b.mul(across, w["itemsize"]))
                with self.loop(b.and_(first, i64(-LINE)), stop, LINE) as line:
                    call(b, "llvm.prefetch.p0", ir.VoidType(), self.address(line), *_TO_L2)

    def _prefetch_target(
        self, block: Block, tile: IR, here: IR, k0: IR, right: IR
    ) -> tuple[IR, IR]:
        """Prefetch arguments of a micro-kernel: a cache line of each row of the next block of B.
        The next call prefetches the adjacent lines. After the last line, and in the last block, the
        target is memory that is already in cache."""
        b, w = self.b, self.args
        calls = b.mul(b.sub(tile, block.begin), b.sub(block.last, block.first))
        line = b.mul(b.add(calls, here), i64(LINE))
        k1 = b.add(k0, w["k_block"])
        is_there = b.and_(
            b.icmp_signed("<", k1, w["k"]),
            b.icmp_signed("<", line, b.mul(block.columns, w["itemsize"])),
        )
        prefetches = b.and_(self.is_set("prefetch_b"), is_there)
        there = b.add(block.y, b.add(b.mul(k1, w["y_k"]), b.mul(block.column, w["y_column"])))
        there = b.select(prefetches, b.add(there, line), right)
        return self.address(there), b.select(prefetches, w["y_k"], i64(0))

    def _accumulators(self, block: Block, goal: IR, row: IR) -> tuple[IR, IR]:
        """Address of the accumulators and their pitch: in the result, or in scratch memory."""
        b, w = self.b, self.args
        pitch = self._padded(block.columns)
        _, first = self._rows(block.begin)
        own = b.add(b.add(self.scratch, w["accumulators_offset"]), b.mul(b.sub(row, first), pitch))
        apart = self.is_set("unpack")
        return b.select(apart, own, goal), b.select(apart, pitch, w["out_row"])

    def _complete(
        self, block: Block, row: IR, rows: IR, accumulators: IR, pitch: IR, goal: IR
    ) -> None:
        b, w = self.b, self.args
        with b.if_then(self.is_set("unpack")):
            strides = w["out_row"], w["out_column"], w["accumulate"]
            given = (
                self.address(accumulators),
                pitch,
                rows,
                block.columns,
                self.address(goal),
                *strides,
            )
            self.call(w["unpack"], packing.UNPACK, *given)
        with b.if_then(self.is_set("epilogue")):
            arguments = self.address(w["epilogue_args"])
            place = b.add(block.row, row), rows, block.column, block.columns
            self.call(w["epilogue"], EPILOGUE, arguments, *place, self.worker)

    # arguments

    def _padded(self, count: IR) -> IR:
        """Bytes of ``count`` elements, rounded up to whole vectors."""
        b, vector = self.b, self.args["vector_bytes"]
        nbytes = b.add(b.mul(count, self.args["itemsize"]), b.sub(vector, i64(1)))
        return b.and_(nbytes, b.sub(i64(0), vector))
