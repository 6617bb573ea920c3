"""Kernel arguments of convolutions, and how generated functions read them.

``JOB`` has the fields of a call, ``PASS`` those of a sum over windows. A function of such a pass
does one of its work items. It packs some weights (``packing.py``), or computes a part of the result
(``work_tile.py``).
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.arg_struct import ArgStruct
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import launcher
from fl_jit.kernels.llvm.loop_nest import FunctionBuilder

#: Fields of a call: addresses of operands and workspace, and the amount of work. ``packed``:
#: whether the weights are packed already. The workspace begins with the panels to be packed, if
#: any. The scratch memory of the workers follows, ``scratch_at`` bytes further. ``next`` is the
#: first work item that no worker has taken.
JOB = launcher.arguments(
    "source weights target", "epilogue packed scratch_at worker_bytes next items passes"
)

#: Fields of a sum over windows. Sizes are in elements, everything else in bytes. ``_image`` to
#: ``_pixel`` are strides. The micro-kernel reads ``a``, an input tile or the source. It writes
#: ``c``, the target or a block of the worker, from which ``out_move`` copies.
PASS = ArgStruct(
    # number of work items, slowest axis first, and the part of each axis in one item
    "items groups image_blocks depth tile_rows segments "
    "chunk panels_count images batch rows height segment width "
    # the source, its input tiles, and the strides of windows
    "source_group source_image source_plane source_row source_pixel "
    "copied planes source_depth source_height source_width source_channels source_channel "
    "step_plane tile_image tile_plane tile_row tile_pixel tile_itemsize dense clear tile_move "
    "origin_z step_z origin_y step_y reach_y origin_x step_x reach_x "
    "a_image a_row a_pixel "
    # kernel positions: number, block size, offsets and channels. Their number along x and z, and
    # for one of each along y. The ranges that meet the source.
    "positions position_block position_offsets k positions_x positions_z positions_y "
    "x_from x_to y_from y_to z_from z_to inside_from inside_to "
    # panels of weights
    "features panel_width itemsize panels_start panels_group panels_panel panels_row tail_row "
    "pack_items kernel_size kernel_offsets channels pack_rows pack_parts unpack "
    "pack_positions interleaved interleaved_row interleaved_move weights_step "
    "weights_group weights_row weights_column pack_move odd lone_move "
    # tiles
    "most_rows full_table tail_table "
    # the result
    "target_start target_group target_image target_plane target_row target_pixel target_channel "
    "indirect c_start c_image c_row c_pixel c_panel out_move out_swapped"
)
#: function(arguments, pass, number of the work item, worker)
ITEM = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64])


class Dispatcher(FunctionBuilder):
    """A builder of a function over work items of all passes."""

    def dispatch(self, one: IR, counted: str, job: IR, number: IR, worker: IR) -> None:
        """Call ``one`` for item ``number`` of all passes. The field ``counted`` is the number of
        items of a pass."""
        b = self.b
        passes = JOB.load_pointer(b, job, "passes")
        before = b.block
        look, further, found = (
            self.function.append_basic_block(name) for name in ("look", "further", "found")
        )
        b.branch(look)
        b.position_at_end(look)
        index, left = b.phi(i64), b.phi(i64)
        here = b.load(b.gep(passes, [index], source_etype=pointer), typ=pointer)
        count = PASS.load(b, here, counted)
        b.cbranch(b.icmp_signed("<", left, count), found, further)
        b.position_at_end(further)
        for phi, start, step in (
            (index, i64(0), b.add(index, i64(1))),
            (left, number, b.sub(left, count)),
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(step, further)
        b.branch(look)
        b.position_at_end(found)
        b.call(one, [job, here, left, worker])


class PassFunction(FunctionBuilder):
    """A function (job, pass, number, worker), with helpers for both kinds of work items. ``job``
    has the fields of the call, ``args`` those of the pass."""

    def __init__(self, module: IR, name: str) -> None:
        function = ir.Function(module, ITEM, name)
        function.linkage = "internal"
        super().__init__(function)
        job, block, self.number, self.worker = function.args
        self.job, self.args = JOB.fields(self.b, job), PASS.fields(self.b, block)

    def moved(self, start: IR, *steps: tuple[IR, str]) -> IR:
        """``start``, advanced by index * stride for each (index, name of the stride)."""
        return self.sum(start, *((index, self.args[stride]) for index, stride in steps))

    def split(self, number: IR, *counts: str) -> list[IR]:
        """The mixed-radix digits of ``number``, fastest first: one more than there are counts."""
        found = []
        for count in counts:
            size = self.args[count]
            found.append(self.b.srem(number, size))
            number = self.b.sdiv(number, size)
        return [*found, number]

    def panel_at(self, group: IR, panel: IR) -> IR:
        """The address of a panel of weights."""
        packed = self.b.icmp_signed("!=", self.job["packed"], i64(0))
        panels = self.b.select(packed, self.job["weights"], self.job["workspace"])
        start = self.b.add(panels, self.args["panels_start"])
        return self.moved(start, (group, "panels_group"), (panel, "panels_panel"))

    def scratch(self) -> IR:
        """The address of the worker's scratch memory."""
        mine = self.worker, self.job["worker_bytes"]
        return self.sum(self.job["workspace"], self.job["scratch_at"], mine)

    def part(self, index: IR, size: str, of: str) -> tuple[IR, IR]:
        """The start and the size of part ``index`` of an axis."""
        start = self.b.mul(index, self.args[size])
        return start, self.minimum(self.args[size], self.b.sub(self.args[of], start))
