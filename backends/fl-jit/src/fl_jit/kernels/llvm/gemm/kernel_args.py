"""Kernel arguments of a GEMM: ``plan.py`` fills them in, and ``gemm.py`` reads them.

Distances are in bytes.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.arg_struct import ArgStruct
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.loops import OuterLoops
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm import launcher
from fl_jit.kernels.llvm.loop_nest import FunctionBuilder

ARGUMENTS = launcher.arguments(
    "x y out",
    # work stealing
    "queue_count "
    # workspace: packed B for all workers; then for each worker a block of packed B, at the offset
    # 0, a tile of A, and accumulators
    "shared_bytes worker_bytes tile_offset accumulators_offset "
    # sizes and strides
    "m k itemsize out_itemsize vector_bytes "
    "x_row x_k y_k y_column out_row out_column "
    # partition: parts of the rows, tiles of rows, of which the first ones have one more
    "row_parts tiles tile_rows longer_tiles "
    # parts of the columns, panels, columns of a panel and of the last one, without and with padding
    "column_parts panels panel_columns last_columns last_padded "
    "k_block "
    # functions: micro-kernels for longer and other tiles, of whole panels and the last one
    "micro_longer_whole micro_longer_last micro_other_whole micro_other_last "
    "pack copy unpack epilogue "
    # function that packs B in advance for all workers
    "pack_shared "
    # flags: B is packed; A is copied row by row; prefetch of the next tile of A; prefetch of the
    # next block of B; add to the contents of C; non-temporal stores
    "y_packed copy_by_rows prefetch_a prefetch_b accumulate streams "
    # table of the offsets of taps, of which a GEMM has one: 0
    "zero "
    # axes of the batch, and the address of a table of ``BATCH_AXIS``, slowest axis first
    "batch_axes batch_table",
)
#: Size of a batch axis, and its strides in A, B and C.
BATCH_AXIS = ArgStruct("size x y out")


class GemmNest(OuterLoops, FunctionBuilder):
    """Builder of ``name(arguments, begin, end, worker)`` with the fields ``ARGUMENTS``. There are
    more of them than registers, so that each is loaded where it is used."""

    def __init__(self, module: IR, name: str) -> None:
        super().__init__(ir.Function(module, SIGNATURE, name))
        # Fast instruction selection with full register allocation: half the compile time, and as
        # fast. Without register allocation (``Effort.LEAST``) products of few steps of k would be
        # slower.
        for attribute in ("noinline", "optnone"):
            self.function.attributes.add(attribute)
        self.arguments, self.begin, self.end, self.worker = self.function.args
        self.args = ARGUMENTS.fields(self.b, self.arguments, where_used=True)

    def packed_offset(self, k0: IR, k: IR, column: IR) -> IR:
        """Offset, in a packed B, of the columns from ``column`` on of a block of k; ``column`` is
        the first of a panel."""
        b, args = self.b, self.args
        before = b.mul(b.sub(args["panels"], i64(1)), args["panel_columns"])
        padded = b.add(before, args["last_padded"])
        return b.mul(b.add(b.mul(k0, padded), b.mul(k, column)), args["itemsize"])
