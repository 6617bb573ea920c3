"""Loop nest of depthwise convolutions and of their dgrad, as machine code.

    first:   weights -> panels[place of the kernel, turn, channel]   unless already in this layout

    second:  for image, for some rows of the result (or for some groups of channels)
               for run of rows that see the same rows of the kernel
                 for block of adjacent pixels                        up to 14 of them
                   for vector of channels
                    for row of the run
                     for place of the kernel that meets the image
                       accumulators[pixels] += source[pixels + place] * panels[place]

Vectors run over channels. Only channels of a small group mix, so a GEMM micro-kernel does not
apply. Each source element is used once per place of the kernel, and loads are the bottleneck.

The innermost four loops are the micro-kernel (``block.py``, ``microkernel.py``). Weights, and the
source data that rows of a run share, stay in L1. Places of the kernel that would meet padding are
skipped: tables (``bounds.py``) have the bounds of every row and every block of pixels.

Convolutions and their dgrad are the sum that ``conv/windows.py`` describes, and share one nest.
Images with non-contiguous channels, or of half precision, are copied for some channels at a time
(``images.py``).
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import padded_input
from fl_jit.kernels.llvm.depthwise import microkernel
from fl_jit.kernels.llvm.depthwise.kernel_args import FIELDS
from fl_jit.kernels.llvm.loop_nest import LoopNestBuilder
from fl_jit.kernels.llvm.padded_input import PixelCopy, TileAxis
from fl_tensor.dtypes import DType

#: Numbers of a table entry. Runs: ``bounds.Run``. Columns: a ``bounds.Stretch`` without its
#: windows, with the address of the code in place of its pixels.
RUN, COLUMN = 6, 5
_EPILOGUE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64])


def assembly(dtype: DType, machine: Target) -> str:
    """The module of ``first`` and ``second``."""
    module = ir.Module("depthwise")
    module.triple = target.triple()
    _First(module, machine, dtype)
    _Second(module, machine, dtype)
    return str(module)


class _First(LoopNestBuilder):
    # An item is some groups.

    def __init__(self, module: IR, machine: Target, dtype: DType) -> None:
        super().__init__(module, "first", FIELDS, machine, dtype)
        b, words = self.b, self.words
        turns = words["target_channels"]
        with self.loop(self.begin, self.end) as item:
            group = b.mul(item, words["pack_step"])
            count = self.minimum(b.sub(words["groups"], group), words["pack_step"])
            with (
                self.loop(i64(0), words["kernel_planes"]) as plane,
                self.loop(i64(0), words["kernel_rows"]) as row,
                self.loop(i64(0), words["source_channels"]) as channel,
                self.loop(i64(0), turns) as turn,
            ):
                feature = b.srem(b.add(channel, turn), turns)
                source = self.sum(
                    words["weights"],
                    (group, words["weights_group"]),
                    (plane, words["weights_plane"]),
                    (row, words["weights_row"]),
                    (feature, words["weights_feature"]),
                    (channel, words["weights_channel"]),
                )
                to = self.sum(
                    words["workspace"],
                    (group, words["packed_group"]),
                    (plane, words["packed_plane"]),
                    (row, words["packed_row"]),
                    (turn, words["packed_inner"]),
                    (channel, words["packed_channel"]),
                )
                self.move(
                    "weights_move",
                    (to, words["packed_column"], words["packed_group"]),
                    (source, words["weights_column"], words["weights_group"]),
                    words["kernel_columns"],
                    count,
                )
        b.ret_void()


class _Second(LoopNestBuilder):
    # An item is an image, some of its rows, or some of its channel groups.

    def __init__(self, module: IR, machine: Target, dtype: DType) -> None:
        super().__init__(module, "second", FIELDS, machine, dtype)
        b, words = self.b, self.words
        direct = b.icmp_signed("!=", words["panels_direct"], i64(0))
        panels = b.select(direct, words["weights"], words["workspace"])
        mine = self.sum(
            words["workspace"], words["workers_at"], (self.worker, words["worker_bytes"])
        )
        self.copies = b.icmp_signed("!=", words["source_move"], i64(0))
        self.buffers = b.icmp_signed("!=", words["target_move"], i64(0))
        self.follows = b.icmp_signed("!=", words["epilogue"], i64(0))
        with self.loop(self.begin, self.end) as item:
            rest, group = b.sdiv(item, words["row_groups"]), b.srem(item, words["row_groups"])
            image, part = b.sdiv(rest, words["slices"]), b.srem(rest, words["slices"])
            self.image = image
            self.group = b.mul(part, words["slice"])
            self.count = self.minimum(words["slice"], b.sub(words["groups"], self.group))
            low = b.mul(group, words["row_step"])
            high = self.minimum(b.add(low, words["row_step"]), words["rows"])
            source = self.sum(
                words["source"],
                (image, words["source_image"]),
                (self.group, words["source_group"]),
            )
            with self.when(self.copies):
                self._copy(mine, source)
            self.source = b.select(self.copies, mine, source)
            there = self.sum(
                words["target"],
                (image, words["target_image"]),
                (self.group, words["target_group"]),
            )
            buffer = b.add(mine, words["buffer_at"])
            self.target = b.select(self.buffers, buffer, there)
            self.panels = self.sum(panels, (self.group, words["packed_group"]))
            first = self.address(words["first_runs"])
            runs = self.entry(first, group), self.entry(first, b.add(group, i64(1)))
            with self.loop(*runs) as run:
                self._run(run)
            with self.when(self.buffers), self.loop(low, high) as row:
                self._put(row, buffer, there)
            with self.when(self.follows):
                self._follow(low, b.sub(high, low))
        b.ret_void()

    def _copy(self, to: IR, source: IR) -> None:
        b, words = self.b, self.words
        planes, rows, columns = (words[f"source_{name}"] for name in ("planes", "rows", "columns"))
        line, pixel, before = words["copied_line"], words["copied_pixel"], words["copied_before"]
        axes = [
            TileAxis(i64(0), planes, planes, words["source_plane"], b.mul(rows, line)),
            TileAxis(i64(0), rows, rows, words["source_row"], line),
            TileAxis(
                b.neg(before), words["copied_columns"], columns, words["source_column"], pixel
            ),
        ]
        image = words["source_column"], words["source_channel"]
        copy = PixelCopy(words["source_move"], (pixel, i64(self.itemsize)), image)
        with padded_input.rows(self, axes, source, to) as row:
            channels = b.mul(self.count, words["source_channels"])
            padded_input.copy_row(self, row, copy, channels)

    def _entries(self, table: str, number: IR, width: int) -> list[IR]:
        first = self.b.mul(number, i64(width))
        at = self.address(self.words[table])
        return [self.entry(at, self.b.add(first, i64(i))) for i in range(width)]

    def _run(self, run: IR) -> None:
        b, words = self.b, self.words
        *places, planes_seen, rows_seen, lines = self._entries("run_table", run, RUN)
        to, source, panels = (
            b.add(base, distance)
            for base, distance in zip((self.target, self.source, self.panels), places, strict=True)
        )
        with self.loop(i64(0), words["columns"]) as column:
            code, *places, columns_seen = self._entries("column_table", column, COLUMN)
            found = [
                self.address(b.add(base, place))
                for base, place in zip((source, panels, to), places, strict=True)
            ]
            seen = planes_seen, rows_seen, columns_seen
            self.call(code, microkernel.SIGNATURE, self.arguments, *found, *seen, self.count, lines)

    def _put(self, row: IR, buffer: IR, there: IR) -> None:
        b, words = self.b, self.words
        line = b.mul(words["line"], words["buffer_pixel"])
        place = self.entry(self.address(words["target_rows"]), row)
        self.move(
            "target_move",
            (b.add(there, place), words["target_column"], words["target_channel"]),
            (b.add(buffer, b.mul(row, line)), words["buffer_pixel"], i64(self.itemsize)),
            words["line"],
            b.mul(self.count, words["target_channels"]),
        )

    def _follow(self, row: IR, rows: IR) -> None:
        b, words = self.b, self.words
        number = b.add(b.mul(self.image, words["rows"]), row)
        self.call(
            words["epilogue"],
            _EPILOGUE,
            self.address(words["epilogue_args"]),
            *(b.mul(each, words["line"]) for each in (number, rows)),
            *(b.mul(each, words["target_channels"]) for each in (self.group, self.count)),
            self.worker,
        )
