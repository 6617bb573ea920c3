"""The words of a product's job: what ``plan.py`` says, and ``gemm.py`` reads."""

from __future__ import annotations

from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm.gemm.work_stealing import WorkQueues

#: Each a word of 64 bits, distances in bytes.
FIELDS = (
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
    # whether y is packed already, A is copied row by row, the next tile of A is asked for ahead, or
    # the next block of B, sums are added to what is there, results are too large for the caches
    "y packed", "copy by rows", "prefetch", "prefetches y", "accumulate", "streams",
    # the offset of the only tap
    "zero",
    # axes of the batch; their sizes and strides of x, y and out follow, slowest first
    "batch axes",
)  # fmt: skip
NUMBER = {name: i for i, name in enumerate(FIELDS)}
#: Of the arguments behind the first two, how many change from call to call.
CHANGING = 5
#: Words for each axis of the batch.
AXIS = 4


class GemmArgs(OuterLoops, WorkQueues):
    """A function in the making whose arguments are ``WORDS``."""

    def __init__(self, module: IR, name: str) -> None:
        super().__init__(module, name)
        self.word = _Words(self)

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
        """Whether a word is not 0."""
        return self.b.icmp_signed("!=", self.word[name], i64(0))

    def either(self, condition: IR, yes: IR, no: IR) -> IR:
        """One of two values."""
        return self.b.select(condition, yes, no)

    def pointer(self, address: IR) -> IR:
        """An address as a pointer."""
        return self.b.inttoptr(address, pointer)

    def call(self, signature: IR, address: IR, *given: IR) -> None:
        """Call the function at ``address``."""
        self.b.call_at(self.pointer(address), signature, given)


class _Words:
    # The arguments by name, each read where it is used: there are more of them than registers.

    def __init__(self, job: GemmArgs) -> None:
        self._job = job

    def __getitem__(self, name: str) -> IR:
        return self._job.argument(NUMBER[name])
