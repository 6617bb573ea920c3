"""What machine code of convolutions is told, and how its functions read it.

``JOB`` are the words of a call, ``PASS`` those of a sum over windows. A function of such a pass
does one of its items: it packs some weights (``packing.py``), or computes some of the
result (``item.py``).
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.loops import Loops
from fl_jit.kernels.codegen.vectors import IR, i8, i64, pointer
from fl_jit.kernels.llvm.kernel_args import ArgStruct

#: Of a call: addresses of the operands (``packed``: whether weights are) and of what is worked in,
#: panels that are packed first and, ``scratch_at`` bytes further, what each worker needs; and what
#: there is to do. ``next`` is the first item that nobody has taken.
JOB = ArgStruct(
    "source weights target workspace epilogue_words epilogue "
    "packed scratch_at worker_bytes next items packs passes"
)

#: Of a sum over windows. Sizes are in elements, everything else in bytes; ``_image`` to ``_pixel``
#: are distances. ``a`` is where the micro-kernel reads (a strip, or the source), ``c`` where it
#: writes (the target, or a block of the worker's own, from which ``out_move`` copies).
PASS = ArgStruct(
    # items, slowest first, and how much of each axis one has
    "items chunks groups image_blocks depth strips segments "
    "chunk panels_count images batch rows height segment width "
    # the source, its strips, and how windows move
    "source_group source_image source_plane source_row source_pixel "
    "copied strip strip_image planes "
    "origin_z step_z origin_y step_y reach_y origin_x step_x reach_x "
    "a_image a_row a_pixel "
    # taps: how many, in what blocks, where, and their channels; how many in x, in z, and for one
    # of each in y, of which ``parts`` are one place; which of them meet the source
    "taps tap_block tap_offsets k taps_x taps_z taps_y parts "
    "x_from x_to y_from y_to z_from z_to inside_from inside_to "
    # panels of weights
    "features panel_width itemsize panels_start panels_group panels_panel panels_row tail_row "
    "pack_items places place_offsets channels pack_rows pack_parts unpack "
    "pack_places woven woven_row woven_move weights_step "
    "weights_group weights_row weights_column pack_move odd lone_move "
    # tiles
    "most_rows full_table tail_table "
    # the result
    "target_start target_group target_image target_plane target_row target_pixel target_channel "
    "indirect c_start c_image c_row c_pixel c_panel out_move out_swapped"
)
#: function(arguments, pass, number of the item, worker)
ITEM = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64])


class Function(Loops):
    """A function in the making."""

    def __init__(self, function: IR) -> None:
        function.attributes.add("nounwind")
        self.function = function
        self.b = Builder(function.append_basic_block("entry"))

    def dispatch(self, one: IR, counted: str, job: IR, number: IR, worker: IR) -> None:
        """Call ``one`` for item ``number`` of all passes, of which each has ``counted``."""
        b = self.b
        passes = JOB.read_address(b, job, "passes")
        before = b.block
        look, further, found = (
            self.function.append_basic_block(name) for name in ("look", "further", "found")
        )
        b.branch(look)
        b.position_at_end(look)
        index, left = b.phi(i64), b.phi(i64)
        here = b.load(b.gep(passes, [index], source_etype=pointer), typ=pointer)
        count = PASS.read(b, here, counted)
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


class OfPass(Function):
    """A function (job, pass, number, worker), with what both kinds of items do."""

    def __init__(self, module: IR, name: str) -> None:
        function = ir.Function(module, ITEM, name)
        function.linkage = "internal"
        super().__init__(function)
        self.job, self.words, self.number, self.worker = function.args
        self._known: dict[str, IR] = {}

    def word(self, name: str) -> IR:
        """A word of the pass, read at the beginning of the function, once."""
        if name not in self._known:
            with self.b.goto_entry_block():
                self._known[name] = PASS.read(self.b, self.words, name)
        return self._known[name]

    def address(self, name: str) -> IR:
        """An address among the words of the call."""
        return JOB.read_address(self.b, self.job, name)

    def moved(self, start: IR, *steps: tuple[IR, str]) -> IR:
        """``start``, further by (index, word of a distance) each."""
        for index, pitch in steps:
            start = self.shifted(start, self.b.mul(index, self.word(pitch)))
        return start

    def shifted(self, start: IR, nbytes: IR) -> IR:
        """``start``, further by bytes."""
        return self.b.gep(start, [nbytes], source_etype=i8)

    def split(self, number: IR, *counts: str) -> list[IR]:
        """The digits of ``number``, fastest first; one more than there are counts."""
        found = []
        for count in counts:
            size = self.word(count)
            found.append(self.b.srem(number, size))
            number = self.b.sdiv(number, size)
        return [*found, number]

    def panel_at(self, group: IR, panel: IR) -> IR:
        """Where a panel of weights begins."""
        packed = self.b.icmp_signed("!=", JOB.read(self.b, self.job, "packed"), i64(0))
        panels = self.b.select(packed, self.address("weights"), self.address("workspace"))
        start = self.shifted(panels, self.word("panels_start"))
        return self.moved(start, (group, "panels_group"), (panel, "panels_panel"))

    def scratch(self) -> IR:
        """Where the memory of the worker begins."""
        b, of_workers = self.b, JOB.read(self.b, self.job, "scratch_at")
        mine = b.mul(self.worker, JOB.read(b, self.job, "worker_bytes"))
        return self.shifted(self.address("workspace"), b.add(of_workers, mine))

    def part(self, index: IR, size: str, of: str) -> tuple[IR, IR]:
        """Where part ``index`` of an axis begins, and how much there is of it."""
        start = self.b.mul(index, self.word(size))
        return start, self.minimum(self.word(size), self.b.sub(self.word(of), start))
