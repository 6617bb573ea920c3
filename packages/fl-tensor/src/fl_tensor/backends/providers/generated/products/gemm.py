"""The loop nest of a matrix product C (m x n) = A (m x k) B (k x n), for every size and stride.

    for each item: a batch, a block of columns, a part of the rows (all, or what a thread gets)
      for k0 in blocks of k
        pack B[k0:k1, columns] into panels               stays in L2 or L3; where several threads
        for each tile of rows                              need it, they pack it before, together
          for each panel of columns
            micro-kernel: C[tile, panel] = or += A B     sums stay in registers; meanwhile the next
          after the last block of k:                     tile of A comes into L2
            epilogue of C[tile, columns]

                 n                       k             n
          +---+----+---+             +-------+     +--+----+--+
          |   |####|   |             |  | A  |     |  |    |  |
        m |   +----+   |    +=     m |  +----+     |  +----+  | k   B's block, packed: L2
          |   |tile|   |             |  |tile|     |  |pnl |  |     tile of A: L1, in place
          +---+----+---+             +--+----+     +--+----+--+     panel of B: streams through L1

The method is that of Goto & van de Geijn (2008), with the roles of A and B exchanged, as results
are row-major: theirs keeps a block of A in L2. What is as it should be is not copied: a B of which
few rows of A are read, or that was packed beforehand; an A whose rows or columns are contiguous.
Sums of results that a micro-kernel cannot write (narrow dtypes, elements apart) are kept in memory
of the worker and unpacked after the last block of k.

Nothing depends on who does an item, and blocks of k not on threads: results are the same however
many threads there are. Items are shared out as ``shares.py`` says.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_tensor.backends.providers.generated import FOLDER
from fl_tensor.backends.providers.generated.microkernel import ADD
from fl_tensor.backends.providers.generated.microkernel import SIGNATURE as MICRO
from fl_tensor.backends.providers.generated.products import packing
from fl_tensor.backends.providers.generated.products.shares import Shares
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.emit_block import SIGNATURE as EPILOGUE
from fl_tensor.codegen.vectors import IR, call, i32, i64, pointer

#: What a job says: each a word of 64 bits, distances in bytes.
WORDS = (
    "shares", "share count",
    # what changes from call to call: operands, memory of the workers, words of the epilogue
    "x", "y", "out", "scratch", "epilogue words",
    # a worker's memory: how much, and where in it are a tile of A and sums (packed B is at 0)
    "worker bytes", "tile at", "sums at",
    # sizes and strides
    "m", "k", "itemsize", "out itemsize", "vector bytes",
    "x row", "x k", "y k", "y column", "out row", "out column",
    # the cut: parts of the rows, tiles of rows, of which the first ones have one more
    "row parts", "tiles", "tile rows", "longer tiles",
    # parts of the columns, panels, columns of a panel and of the last one, without and with padding
    "column parts", "panels", "panel columns", "last columns", "last padded",
    "k block",
    # functions: micro-kernels for longer and other tiles, of whole panels and the last one
    "micro longer whole", "micro longer last", "micro other whole", "micro other last",
    "pack", "copy", "unpack", "epilogue",
    # a function that packs y before all else, for all threads; how much memory, before the workers'
    "pack shared", "shared bytes",
    # whether y is packed already, A is copied row by row, the next tile of A is asked for ahead,
    # sums are added to what is there
    "y packed", "copy by rows", "ahead", "accumulate",
    # the offset of the only tap
    "zero",
    # axes of the batch; their sizes and strides of x, y and out follow, slowest first
    "batch axes",
)  # fmt: skip
NUMBER = {name: i for i, name in enumerate(WORDS)}
#: Of the arguments behind the first two, how many change from call to call.
CHANGING = 5
#: Bytes between the rows of a copied tile of A.
GAP = 64
#: Operands of a prefetch: to read, into the second level, data.
_TO_L2 = i32(0), i32(2), i32(1)
#: Words for each axis of the batch.
AXIS = 4


@compile.once
def address() -> int:
    """Where the machine code begins: a function of a pool's jobs."""
    return _code().address("gemm")


@compile.once
def _code() -> compile.Code:
    about = f"gemm {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host())


def packing_address() -> int:
    """Where the function begins that packs a B which several threads read, before ``gemm``: a
    function of a pool's jobs, too, whose items are panels of blocks of k."""
    return _code().address("pack_shared")


def assembly() -> str:
    """A module in LLVM IR with the functions ``gemm`` and ``pack_shared``."""
    module = ir.Module("gemm")
    module.triple = target.triple()
    _Gemm(module)
    _PackShared(module)
    return str(module)


class Block(NamedTuple):
    """What an item computes: rows of tiles ``begin`` to ``end``, panels ``first`` to ``last``; from
    ``column`` on ``columns`` of them; and where the operands of this product of the batch are."""

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


class _Words(Shares):
    # A function whose arguments are ``WORDS``.

    def __init__(self, module: IR, name: str) -> None:
        super().__init__(module, name)
        self.word = {name: self.argument(i) for name, i in NUMBER.items()}

    def packed(self, k0: IR, k: IR, column: IR) -> IR:
        """Where, in a packed B, a block of k has its columns from a panel's first one on."""
        b, w = self.b, self.word
        before = b.mul(b.sub(w["panels"], i64(1)), w["panel columns"])
        padded = b.add(before, w["last padded"])
        return b.mul(b.add(b.mul(k0, padded), b.mul(k, column)), w["itemsize"])

    def shared(self) -> IR:
        """Where a B is that was packed for all threads."""
        return self.b.sub(self.word["scratch"], self.word["shared bytes"])

    def is_set(self, name: str) -> IR:
        return self.b.icmp_signed("!=", self.word[name], i64(0))

    def either(self, condition: IR, yes: IR, no: IR) -> IR:
        return self.b.select(condition, yes, no)

    def pointer(self, address: IR) -> IR:
        return self.b.inttoptr(address, pointer)

    def call(self, signature: IR, address: IR, *given: IR) -> None:
        """Call the function at ``address``."""
        self.b.call(self.b.inttoptr(address, signature.as_pointer()), given)


class _PackShared(_Words):
    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack_shared")
        b, w = self.b, self.word
        with self.loop(self.begin, self.end) as item:
            panel = b.srem(item, w["panels"])
            k0 = b.mul(b.sdiv(item, w["panels"]), w["k block"])
            k = self.minimum(b.sub(w["k"], k0), w["k block"])
            is_last = b.icmp_signed("==", panel, b.sub(w["panels"], i64(1)))
            columns = self.either(is_last, w["last columns"], w["panel columns"])
            column = b.mul(panel, w["panel columns"])
            source = b.add(w["y"], b.mul(k0, w["y k"]))
            source = self.pointer(b.add(source, b.mul(column, w["y column"])))
            to = self.pointer(b.add(self.shared(), self.packed(k0, k, column)))
            given = source, w["y k"], w["y column"], k, columns, w["panel columns"], i64(0), to
            self.call(packing.PACK, w["pack shared"], *given)
        b.ret_void()


class _Gemm(_Words):
    def __init__(self, module: IR) -> None:
        super().__init__(module, "gemm")
        w, b = self.word, self.b
        self.no_offset = b.gep(self.arguments, [i64(NUMBER["zero"])], source_etype=i64)
        self.scratch = b.add(w["scratch"], b.mul(w["worker bytes"], self.worker))
        self.tile_memory = b.add(self.scratch, w["tile at"])
        with self.items() as item:
            self._item(item)
        b.ret_void()

    # items

    def _item(self, item: IR) -> None:
        b, w = self.b, self.word
        block = self._block(item)
        most = self.maximum(w["k"], i64(1))  # a product without k is 0, which has to be written
        with self.loop(i64(0), most, w["k block"]) as k0:
            k = self.minimum(b.sub(w["k"], k0), w["k block"])
            right, panel_bytes = self._right(block, k0, k)
            with self.loop(block.begin, block.end) as tile:
                rows, row = self._rows(tile)
                left, left_pitch = self._left(block, row, rows, k0, k)
                goal = b.add(block.out, b.mul(row, w["out row"]))
                goal = b.add(goal, b.mul(block.column, w["out column"]))
                sums, pitch = self._sums(block, goal, row)
                adds = self.either(self.is_set("unpack"), i64(0), w["accumulate"])
                adds = self.either(b.icmp_signed(">", k0, i64(0)), i64(ADD), adds)
                given = (i64(1), self.no_offset, k, self.pointer(left), left_pitch)
                is_longer = b.icmp_signed("<", tile, w["longer tiles"])
                with self.loop(block.first, block.last) as panel:
                    here = b.sub(panel, block.first)
                    is_last = b.icmp_signed("==", panel, b.sub(w["panels"], i64(1)))
                    longer, other = (
                        self.either(is_last, w[f"micro {which} last"], w[f"micro {which} whole"])
                        for which in ("longer", "other")
                    )
                    micro = self.either(is_longer, longer, other)
                    columns = self.either(is_last, w["last columns"], w["panel columns"])
                    part = b.add(right, b.mul(here, panel_bytes))
                    at = b.mul(b.mul(here, w["panel columns"]), w["out itemsize"])
                    c = self.pointer(b.add(sums, at))
                    self._ask_ahead(block, tile, k0, k, here)
                    self.call(
                        MICRO, micro, *given, self.pointer(part), w["y k"], c, pitch, adds, columns
                    )
                with b.if_then(b.icmp_signed(">=", b.add(k0, k), w["k"])):
                    self._complete(block, row, rows, sums, pitch, goal)

    def _block(self, item: IR) -> Block:
        b, w = self.b, self.word
        part, item = b.srem(item, w["row parts"]), b.sdiv(item, w["row parts"])
        slab, batch = b.srem(item, w["column parts"]), b.sdiv(item, w["column parts"])
        begin, end = self._share(part, w["row parts"], w["tiles"])
        first, last = self._share(slab, w["column parts"], w["panels"])
        column = b.mul(first, w["panel columns"])
        stop = b.mul(last, w["panel columns"])
        missing = b.sub(w["panel columns"], w["last columns"])
        stop = self.either(b.icmp_signed("==", last, w["panels"]), b.sub(stop, missing), stop)
        x, y, out = self._operands(batch)
        row = b.mul(batch, w["m"])
        return Block(begin, end, first, last, column, b.sub(stop, column), x, y, out, row)

    def _share(self, number: IR, parts: IR, total: IR) -> tuple[IR, IR]:
        b = self.b
        ends = b.mul(total, number), b.mul(total, b.add(number, i64(1)))
        return b.sdiv(ends[0], parts), b.sdiv(ends[1], parts)

    def _operands(self, batch: IR) -> list[IR]:
        """Addresses of x, y and out of product ``batch``."""
        b, w = self.b, self.word
        found = [self.variable(i64) for _ in range(3)]
        rest = self.variable(i64)
        b.store(batch, rest)
        for variable, name in zip(found, ("x", "y", "out"), strict=True):
            b.store(w[name], variable)
        with self.loop(i64(0), w["batch axes"]) as number:
            axis = b.sub(b.sub(w["batch axes"], number), i64(1))  # the fastest one first
            place = b.add(i64(len(WORDS)), b.mul(axis, i64(AXIS)))
            size, *strides = (self.argument(b.add(place, i64(i))) for i in range(AXIS))
            left = b.load(rest, typ=i64)
            index = b.srem(left, size)
            b.store(b.sdiv(left, size), rest)
            for variable, stride in zip(found, strides, strict=True):
                moved = b.add(b.load(variable, typ=i64), b.mul(index, stride))
                b.store(moved, variable)
        return [b.load(variable, typ=i64) for variable in found]

    def _rows(self, tile: IR) -> tuple[IR, IR]:
        """How many rows a tile has, and the first one."""
        b, w = self.b, self.word
        is_longer = b.icmp_signed("<", tile, w["longer tiles"])
        before = self.minimum(tile, w["longer tiles"])
        first = b.add(b.mul(tile, w["tile rows"]), before)
        return b.add(w["tile rows"], b.zext(is_longer, i64)), first

    # operands of the micro-kernel

    def _right(self, block: Block, k0: IR, k: IR) -> tuple[IR, IR]:
        """Where B's block is, and how far apart its panels are: packed now, before, or as it is."""
        b, w = self.b, self.word
        panel = b.mul(w["panel columns"], w["itemsize"])
        packed = self.either(self.is_set("pack shared"), self.shared(), block.y)
        packed = b.add(packed, self.packed(k0, k, block.column))
        plain = b.add(block.y, b.mul(k0, w["y k"]))
        plain = b.add(plain, b.mul(block.column, w["y column"]))
        packs = self.is_set("pack")
        with b.if_then(packs):
            strides = w["y k"], w["y column"]
            to = self.pointer(self.scratch)
            given = (
                self.pointer(plain),
                *strides,
                k,
                block.columns,
                w["panel columns"],
                i64(0),
                to,
            )
            self.call(packing.PACK, w["pack"], *given)
        ready = self.is_set("y packed")
        start = self.either(packs, self.scratch, self.either(ready, packed, plain))
        return start, self.either(b.or_(packs, ready), b.mul(panel, k), panel)

    def _left(self, block: Block, row: IR, rows: IR, k0: IR, k: IR) -> tuple[IR, IR]:
        """Where A's tile is, and its pitch."""
        b, w = self.b, self.word
        plain = b.add(block.x, b.mul(row, w["x row"]))
        plain = b.add(plain, b.mul(k0, w["x k"]))
        by_rows = self.is_set("copy by rows")
        copies = self.is_set("copy")
        steps, across = self.either(by_rows, rows, k), self.either(by_rows, k, rows)
        strides = [
            self.either(by_rows, w["x row"], w["x k"]), self.either(by_rows, w["x k"], w["x row"])
        ]  # fmt: skip
        with b.if_then(copies):
            given = (self.pointer(plain), *strides, steps, across, i64(1 << 40), i64(GAP))
            self.call(packing.PACK, w["copy"], *given, self.pointer(self.tile_memory))
        pitch = b.add(self._padded(across), i64(GAP))
        return self.either(copies, self.tile_memory, plain), self.either(copies, pitch, strides[0])

    def _ask_ahead(self, block: Block, tile: IR, k0: IR, k: IR, here: IR) -> None:
        """While a micro-kernel works, a part of the next tile of A comes from memory: each panel of
        the block asks for its share of what is going to be copied."""
        b, w = self.b, self.word
        with b.if_then(self.is_set("ahead")):
            rows, row = self._rows(b.add(tile, i64(1)))
            start = b.add(block.x, b.add(b.mul(row, w["x row"]), b.mul(k0, w["x k"])))
            by_rows = self.is_set("copy by rows")
            steps, across = self.either(by_rows, rows, k), self.either(by_rows, k, rows)
            stride = self.either(by_rows, w["x row"], w["x k"])
            begin, end = self._share(here, b.sub(block.last, block.first), steps)
            with (
                self.loop(begin, end) as step,
                self.loop(i64(0), b.mul(across, w["itemsize"]), 64) as byte,
            ):
                line = b.add(b.add(start, b.mul(step, stride)), byte)
                call(b, "llvm.prefetch.p0", ir.VoidType(), self.pointer(line), *_TO_L2)

    def _sums(self, block: Block, goal: IR, row: IR) -> tuple[IR, IR]:
        """Where sums are kept, and their pitch: in the result, or apart."""
        b, w = self.b, self.word
        pitch = self._padded(block.columns)
        _, first = self._rows(block.begin)
        own = b.add(b.add(self.scratch, w["sums at"]), b.mul(b.sub(row, first), pitch))
        apart = self.is_set("unpack")
        return self.either(apart, own, goal), self.either(apart, pitch, w["out row"])

    def _complete(self, block: Block, row: IR, rows: IR, sums: IR, pitch: IR, goal: IR) -> None:
        b, w = self.b, self.word
        with b.if_then(self.is_set("unpack")):
            strides = w["out row"], w["out column"], w["accumulate"]
            given = (self.pointer(sums), pitch, rows, block.columns, self.pointer(goal), *strides)
            self.call(packing.UNPACK, w["unpack"], *given)
        with b.if_then(self.is_set("epilogue")):
            words = self.pointer(w["epilogue words"])
            place = b.add(block.row, row), rows, block.column, block.columns
            self.call(EPILOGUE, w["epilogue"], words, *place, self.worker)

    # words

    def _padded(self, count: IR) -> IR:
        """Bytes of so many elements, in whole vectors."""
        b, vector = self.b, self.word["vector bytes"]
        nbytes = b.add(b.mul(count, self.word["itemsize"]), b.sub(vector, i64(1)))
        return b.and_(nbytes, b.sub(i64(0), vector))

    def maximum(self, x: IR, y: IR) -> IR:
        return self.b.select(self.b.icmp_signed("<", x, y), y, x)
