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

#: Numbers of a table entry. Runs: ``bounds.Run``. Columns: a ``bounds.Segment`` without its
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
        b, args = self.b, self.args
        turns = args["target_channels"]
        with self.loop(self.begin, self.end) as item:
            group = b.mul(item, args["pack_step"])
            count = self.minimum(b.sub(args["groups"], group), args["pack_step"])
            with (
                self.loop(i64(0), args["kernel_planes"]) as plane,
                self.loop(i64(0), args["kernel_rows"]) as row,
                self.loop(i64(0), args["source_channels"]) as channel,
                self.loop(i64(0), turns) as turn,
            ):
                feature = b.srem(b.add(channel, turn), turns)
                source = self.sum(
                    args["weights"],
                    (group, args["weights_group"]),
                    (plane, args["weights_plane"]),
                    (row, args["weights_row"]),
                    (feature, args["weights_feature"]),
                    (channel, args["weights_channel"]),
                )
                to = self.sum(
                    args["workspace"],
                    (group, args["packed_group"]),
                    (plane, args["packed_plane"]),
                    (row, args["packed_row"]),
                    (turn, args["packed_inner"]),
                    (channel, args["packed_channel"]),
                )
                self.move(
                    "weights_move",
                    (to, args["packed_column"], args["packed_group"]),
                    (source, args["weights_column"], args["weights_group"]),
                    args["kernel_columns"],
                    count,
                )
        b.ret_void()


class _Second(LoopNestBuilder):
    # An item is an image, some of its rows, or some of its channel groups.

    def __init__(self, module: IR, machine: Target, dtype: DType) -> None:
        super().__init__(module, "second", FIELDS, machine, dtype)
        b, args = self.b, self.args
        direct = b.icmp_signed("!=", args["panels_direct"], i64(0))
        panels = b.select(direct, args["weights"], args["workspace"])
        mine = self.sum(args["workspace"], args["workers_at"], (self.worker, args["worker_bytes"]))
        self.copies = b.icmp_signed("!=", args["source_move"], i64(0))
        self.buffers = b.icmp_signed("!=", args["target_move"], i64(0))
        self.follows = b.icmp_signed("!=", args["epilogue"], i64(0))
        with self.loop(self.begin, self.end) as item:
            rest, group = b.sdiv(item, args["row_groups"]), b.srem(item, args["row_groups"])
            image, part = b.sdiv(rest, args["slices"]), b.srem(rest, args["slices"])
            self.image = image
            self.group = b.mul(part, args["slice"])
            self.count = self.minimum(args["slice"], b.sub(args["groups"], self.group))
            low = b.mul(group, args["row_step"])
            high = self.minimum(b.add(low, args["row_step"]), args["rows"])
            source = self.sum(
                args["source"],
                (image, args["source_image"]),
                (self.group, args["source_group"]),
            )
            with self.when(self.copies):
                self._copy(mine, source)
            self.source = b.select(self.copies, mine, source)
            there = self.sum(
                args["target"],
                (image, args["target_image"]),
                (self.group, args["target_group"]),
            )
            buffer = b.add(mine, args["buffer_at"])
            self.target = b.select(self.buffers, buffer, there)
            self.panels = self.sum(panels, (self.group, args["packed_group"]))
            first = self.address(args["first_runs"])
            runs = self.entry(first, group), self.entry(first, b.add(group, i64(1)))
            with self.loop(*runs) as run:
                self._run(run)
            with self.when(self.buffers), self.loop(low, high) as row:
                self._put(row, buffer, there)
            with self.when(self.follows):
                self._follow(low, b.sub(high, low))
        b.ret_void()

    def _copy(self, to: IR, source: IR) -> None:
        b, args = self.b, self.args
        planes, rows, columns = (args[f"source_{name}"] for name in ("planes", "rows", "columns"))
        line, pixel, before = args["copied_line"], args["copied_pixel"], args["copied_before"]
        axes = [
            TileAxis(i64(0), planes, planes, args["source_plane"], b.mul(rows, line)),
            TileAxis(i64(0), rows, rows, args["source_row"], line),
            TileAxis(b.neg(before), args["copied_columns"], columns, args["source_column"], pixel),
        ]
        image = args["source_column"], args["source_channel"]
        copy = PixelCopy(args["source_move"], (pixel, i64(self.itemsize)), image)
        with padded_input.rows(self, axes, source, to) as row:
            channels = b.mul(self.count, args["source_channels"])
            padded_input.copy_row(self, row, copy, channels)

    def _entries(self, table: str, number: IR, width: int) -> list[IR]:
        first = self.b.mul(number, i64(width))
        at = self.address(self.args[table])
        return [self.entry(at, self.b.add(first, i64(i))) for i in range(width)]

    def _run(self, run: IR) -> None:
        b, args = self.b, self.args
        *places, planes_seen, rows_seen, lines = self._entries("run_table", run, RUN)
        to, source, panels = (
            b.add(base, distance)
            for base, distance in zip((self.target, self.source, self.panels), places, strict=True)
        )
        with self.loop(i64(0), args["columns"]) as column:
            code, *places, columns_seen = self._entries("column_table", column, COLUMN)
            found = [
                self.address(b.add(base, place))
                for base, place in zip((source, panels, to), places, strict=True)
            ]
            seen = planes_seen, rows_seen, columns_seen
            self.call(code, microkernel.SIGNATURE, self.arguments, *found, *seen, self.count, lines)

    def _put(self, row: IR, buffer: IR, there: IR) -> None:
        b, args = self.b, self.args
        line = b.mul(args["line"], args["buffer_pixel"])
        place = self.entry(self.address(args["target_rows"]), row)
        self.move(
            "target_move",
            (b.add(there, place), args["target_column"], args["target_channel"]),
            (b.add(buffer, b.mul(row, line)), args["buffer_pixel"], i64(self.itemsize)),
            args["line"],
            b.mul(self.count, args["target_channels"]),
        )

    def _follow(self, row: IR, rows: IR) -> None:
        b, args = self.b, self.args
        number = b.add(b.mul(self.image, args["rows"]), row)
        self.call(
            args["epilogue"],
            _EPILOGUE,
            self.address(args["epilogue_args"]),
            *(b.mul(each, args["line"]) for each in (number, rows)),
            *(b.mul(each, args["target_channels"]) for each in (self.group, self.count)),
            self.worker,
        )
