"""Kernel arguments of a GEMM: ``plan.py`` fills them in, and ``gemm.py`` reads them."""

from __future__ import annotations

from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm.gemm.work_stealing import WorkQueues

#: 64-bit fields, distances in bytes.
FIELDS = (
    "shares", "share count",
    # fields that change from call to call: operands, memory of the workers, arguments of the
    # epilogue
    "x", "y", "out", "scratch", "epilogue words",
    # a worker's memory: size, offsets of a tile of A and of accumulators (packed B is at 0)
    "worker bytes", "tile at", "sums at",
    # sizes and strides
    "m", "k", "itemsize", "out itemsize", "vector bytes",
    "x row", "x k", "y k", "y column", "out row", "out column",
    # the partition: parts of the rows, tiles of rows, of which the first ones have one more
    "row parts", "tiles", "tile rows", "longer tiles",
    # parts of the columns, panels, columns of a panel and of the last one, without and with padding
    "column parts", "panels", "panel columns", "last columns", "last padded",
    "k block",
    # functions: micro-kernels for longer and other tiles, of whole panels and the last one
    "micro longer whole", "micro longer last", "micro other whole", "micro other last",
    "pack", "copy", "unpack", "epilogue",
    # a function that packs y in advance for all threads; bytes of memory before the workers'
    "pack shared", "shared bytes",
    # flags: y is packed; A is copied row by row; prefetch of the next tile of A; prefetch of the
    # next block of B; add to the contents of C; non-temporal stores
    "y packed", "copy by rows", "prefetch", "prefetches y", "accumulate", "streams",
    # the offset of the only tap
    "zero",
    # axes of the batch; their sizes and strides of x, y and out follow, slowest first
    "batch axes",
)  # fmt: skip
NUMBER = {name: i for i, name in enumerate(FIELDS)}
#: Number of arguments, after the first two, that change from call to call.
CHANGING = 5
#: Fields for each batch axis.
AXIS = 4


class GemmArgs(OuterLoops, WorkQueues):
    """Builder of a function with the arguments ``FIELDS``."""

    def __init__(self, module: IR, name: str) -> None:
        super().__init__(module, name)
        self.word = _Words(self)

    def packed(self, k0: IR, k: IR, column: IR) -> IR:
        """Offset, in a packed B, of the columns from ``column`` on of a block of k; ``column`` is
        the first of a panel."""
        b, w = self.b, self.word
        before = b.mul(b.sub(w["panels"], i64(1)), w["panel columns"])
        padded = b.add(before, w["last padded"])
        return b.mul(b.add(b.mul(k0, padded), b.mul(k, column)), w["itemsize"])

    def shared(self) -> IR:
        """Address of a B that was packed for all threads."""
        return self.b.sub(self.word["scratch"], self.word["shared bytes"])

    def is_set(self, name: str) -> IR:
        """Whether a field is not 0."""
        return self.b.icmp_signed("!=", self.word[name], i64(0))

    def either(self, condition: IR, yes: IR, no: IR) -> IR:
        """A select of two values."""
        return self.b.select(condition, yes, no)

    def pointer(self, address: IR) -> IR:
        """An address as a pointer."""
        return self.b.inttoptr(address, pointer)

    def call(self, signature: IR, address: IR, *given: IR) -> None:
        """Call the function at ``address``."""
        self.b.call_at(self.pointer(address), signature, given)


class _Words:
    # The arguments by name. Each is read where it is used, since there are more of them than
    # registers.

    def __init__(self, job: GemmArgs) -> None:
        self._job = job

    def __getitem__(self, name: str) -> IR:
        return self._job.argument(NUMBER[name])
