"""Work items of a convolution: some panels of features, for some positions of some images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, i1, i64, pointer
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import microkernel, padded_input
from fl_jit.kernels.llvm.conv.kernel_args import PassFunction
from fl_jit.kernels.llvm.padded_input import PixelCopy, TileAxis

#: epilogue(arguments, first row, rows, first column, columns, worker)
EPILOGUE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64])


class _Call(NamedTuple):
    """Arguments of the micro-kernels of one block of kernel positions, from ``position`` to
    ``end``."""

    position: IR
    end: IR
    is_first: IR
    offsets: IR
    b_start: IR
    b_pitch: IR
    columns: IR
    table: IR


class WorkTile(PassFunction):
    """The function of a work item: some panels of features, for some positions of some images."""

    def __init__(self, module: IR) -> None:
        super().__init__(module, "item")
        b = self.b
        segment, tile_row, self.z, block, self.group, chunk = self.split(
            self.number, "segments", "tile_rows", "depth", "image_blocks", "groups"
        )
        self.x, self.pixels = self.part(segment, "segment", "width")
        self.y, self.rows = self.part(tile_row, "rows", "height")
        self.image, self.images = self.part(block, "images", "batch")
        self.panel, self.panels = self.part(chunk, "chunk", "panels_count")
        self.mine = self.scratch()
        self.a = self._a()
        self.indirect = self.is_set("indirect")
        self.target = self.moved(
            b.add(self.job["target"], self.args["target_start"]),
            *((self.group, "target_group"), (self.image, "target_image")),
            *((self.z, "target_plane"), (self.y, "target_row"), (self.x, "target_pixel")),
        )
        panel_target = self.moved(self.target, (self.panel, "c_panel"))
        mine = b.add(self.mine, self.args["c_start"])
        self.c = b.select(self.indirect, mine, panel_target)
        self._cut()
        last = b.add(self.panel, self.panels)
        with self.loop(self.panel, last) as panel:
            self._panel(panel)
        with b.if_then(self.indirect):
            self._copy_out()
        b.ret_void()

    def _a(self) -> IR:
        """The address of A of the first result. Copies the input tiles, if there are any."""
        b, args = self.b, self.args
        source = self.moved(
            self.job["source"], (self.group, "source_group"), (self.image, "source_image")
        )
        first = [
            self.sum(args[f"origin_{axis}"], (index, args[f"step_{axis}"]))
            for axis, index in (("z", self.z), ("y", self.y), ("x", self.x))
        ]
        copied = self.is_set("copied")
        with b.if_then(copied), self.loop(i64(0), self.images) as i:
            self._copy_input(self.moved(source, (i, "source_image")), i, first)
        strides = zip(first, ("source_plane", "source_row", "source_pixel"), strict=True)
        return b.select(copied, self.mine, self.moved(source, *strides))

    def _copy_input(self, image: IR, number: IR, first: Sequence[IR]) -> None:
        """Copy the input tile of an image, from position ``first`` on."""
        b, args = self.b, self.args
        rows, pixels = (
            self.sum((b.sub(n, i64(1)), args[f"step_{axis}"]), args[f"reach_{axis}"])
            for axis, n in (("y", self.rows), ("x", self.pixels))
        )
        each = (
            ("depth", "plane", args["planes"], args["step_plane"]),
            ("height", "row", rows, i64(1)),
            ("width", "pixel", pixels, i64(1)),
        )
        axes = [
            TileAxis(
                *(start, count, args[f"source_{size}"]),
                *(args[f"source_{axis}"], args[f"tile_{axis}"], step),
            )
            for start, (size, axis, count, step) in zip(first, each, strict=True)
        ]
        copy = PixelCopy(
            args["tile_move"],
            (args["tile_pixel"], args["tile_itemsize"]),
            (args["source_pixel"], args["source_channel"]),
            self.is_set("dense"),
        )
        tile, clear = self.moved(self.mine, (number, "tile_image")), self.is_set("clear")
        with padded_input.rows(self, axes, image, tile) as row:
            padded_input.copy_row(self, row, copy, args["source_channels"], clear)

    def _cut(self) -> None:
        """Divide pixels into tiles of sizes as equal as possible. Sets their number, the smaller
        size, and the number of tiles with one more row."""
        b, most = self.b, self.args["most_rows"]
        self.tiles = b.sdiv(b.add(self.pixels, b.sub(most, i64(1))), most)
        self.size = b.sdiv(self.pixels, self.tiles)
        self.longer = b.srem(self.pixels, self.tiles)

    def _panel(self, panel: IR) -> None:
        b = self.b
        _, columns = self.part(panel, "panel_width", "features")
        tables = [self.address(self.args[f"{name}_table"]) for name in ("tail", "full")]
        partial = b.icmp_signed("<", columns, self.args["panel_width"])
        table = b.select(partial, *tables)
        c = self.moved(self.c, (b.sub(panel, self.panel), "c_panel"))
        start = self.panel_at(self.group, panel)
        pitch = b.select(partial, self.args["tail_row"], self.args["panels_row"])
        direct = b.not_(self.indirect)
        positions = self.args["positions"]
        some = b.select(b.icmp_signed("<", positions, i64(1)), i64(1), positions)
        with self.loop(i64(0), some, self.args["position_block"]) as position:
            end = self.minimum(b.add(position, self.args["position_block"]), positions)
            first = b.icmp_signed("==", position, i64(0))
            offsets = self.address(self.args["position_offsets"])
            call = _Call(position, end, first, offsets, start, pitch, columns, table)
            last = b.and_(b.icmp_signed("==", end, positions), direct)
            with (
                self.loop(i64(0), self.images) as i,
                self.loop(i64(0), self.rows) as r,
            ):
                a_line = self.moved(self.a, (i, "a_image"), (r, "a_row"))
                c_line = self.moved(c, (i, "c_image"), (r, "c_row"))
                self._line(a_line, c_line, b.add(self.y, r), call)
                self._epilogue(last, i, r, b.mul(panel, self.args["panel_width"]), columns)

    def _line(self, a: IR, c: IR, y: IR, call: _Call) -> None:
        """Compute the tiles of a row of the input tile. Longer tiles are at both ends, if there are
        two. Padding often makes them as long as the others, so that no more micro-kernels are
        needed."""
        b, args = self.b, self.args
        start = self.variable(i64)
        b.store(i64(0), start)
        y_from, y_to = self._met("y", y)
        z_from, z_to = self._met("z", self.z)
        positions = b.mul(b.sub(y_to, y_from), b.sub(z_to, z_from))
        whole = b.icmp_signed("==", b.mul(positions, args["positions_x"]), args["positions"])
        with self.loop(i64(0), self.tiles) as number:
            place = b.srem(b.add(number, i64(1)), self.tiles)
            rows = b.add(self.size, b.zext(b.icmp_signed("<", place, self.longer), i64))
            low = b.load(start, typ=i64)
            high = b.add(low, rows)
            left = b.icmp_signed(">=", b.add(self.x, low), args["inside_from"])
            right = b.icmp_signed("<=", b.add(self.x, high), args["inside_to"])
            inside = b.and_(whole, b.and_(left, right))
            flags = b.select(call.is_first, i64(0), i64(microkernel.ADD))
            # At the border nothing is accumulated here, but the first block sets C to zero.
            end = b.select(inside, call.end, call.position)
            with b.if_then(b.or_(inside, call.is_first)):
                self._tile(a, c, low, rows, call.position, end, flags, call)
            with b.if_then(b.not_(inside)):
                self._border(a, c, low, high, (y_from, y_to, z_from, z_to), call)
            b.store(high, start)

    def _border(self, a: IR, c: IR, low: IR, high: IR, met: tuple[IR, ...], call: _Call) -> None:
        """Compute the part of a tile that meets the source, one kernel position in x and z at a
        time. Products with padding are not computed."""
        b, args = self.b, self.args
        y_from, y_to, z_from, z_to = met
        with self.loop(i64(0), args["positions_x"]) as x:
            first, last = (b.sub(place, self.x) for place in self._met("x", x))
            first = self.maximum(first, low)
            last = self.minimum(last, high)
            with (
                b.if_then(b.icmp_signed("<", first, last)),
                self.loop(z_from, z_to) as z,
            ):
                base = b.mul(b.add(b.mul(x, args["positions_z"]), z), args["positions_y"])
                position = b.add(base, y_from)
                position = self.maximum(position, call.position)
                end = self.minimum(b.add(base, y_to), call.end)
                with b.if_then(b.icmp_signed("<", position, end)):
                    rows = b.sub(last, first)
                    self._tile(a, c, first, rows, position, end, i64(microkernel.ADD), call)

    def _tile(
        self, a: IR, c: IR, start: IR, rows: IR, position: IR, end: IR, flags: IR, call: _Call
    ) -> None:
        """Compute pixels of a line from ``start`` on, kernel positions from ``position`` to
        ``end``."""
        b, k = self.b, self.args["k"]
        kernel = b.load(b.gep(call.table, [rows], source_etype=pointer), typ=pointer)
        offsets = b.gep(call.offsets, [position], source_etype=i64)
        panel = self.sum(call.b_start, (b.mul(position, k), call.b_pitch))
        arguments = [b.sub(end, position), offsets, k]
        behind = self.moved(a, (b.add(start, rows), "a_pixel"))
        arguments += [self.address(self.moved(a, (start, "a_pixel"))), self.args["a_pixel"]]
        arguments += [self.address(panel), call.b_pitch]
        arguments += [self.address(self.moved(c, (start, "c_pixel"))), self.args["c_pixel"]]
        arguments += [flags, call.columns, self.address(behind), i64(LINE)]
        b.call_at(kernel, microkernel.SIGNATURE_PREFETCH, arguments)

    def _met(self, axis: str, place: IR) -> tuple[IR, IR]:
        """The range of kernel positions along an axis that meet the source, for an output
        position."""
        tables = (self.address(self.args[f"{axis}_{end}"]) for end in ("from", "to"))
        low, high = (self.entry(table, place) for table in tables)
        return low, high

    def _epilogue(self, last: IR, i: IR, r: IR, start: IR, columns: IR) -> None:
        """Run the epilogue on features from ``start`` on of a complete row. Rows of an epilogue are
        positions of all images."""
        b, args = self.b, self.args
        there = self.b.icmp_signed("!=", self.job["epilogue"], i64(0))
        with b.if_then(b.and_(last, there)):
            place = b.add(self.image, i)
            for index, count in (
                (self.z, "depth"), (b.add(self.y, r), "height"), (self.x, "width")
            ):  # fmt: skip
                place = b.add(b.mul(place, args[count]), index)
            column = b.add(b.mul(self.group, args["features"]), start)
            block = self.address(self.job["epilogue_args"])
            rest = place, self.pixels, column, columns, self.worker
            self.call(self.job["epilogue"], EPILOGUE, block, *rest)

    def _copy_out(self) -> None:
        """Copy the worker's block to the target."""
        b, args = self.b, self.args
        start = b.mul(self.panel, args["panel_width"])
        end = self.minimum(
            b.mul(b.add(self.panel, self.panels), args["panel_width"]), args["features"]
        )
        features = b.sub(end, start)
        target = self.moved(self.target, (start, "target_channel"))
        swapped = self.is_set("out_swapped")

        def ordered(one: IR, other: IR) -> tuple[IR, IR]:
            return b.select(swapped, other, one), b.select(swapped, one, other)

        to = ordered(args["target_pixel"], args["target_channel"])
        source = ordered(args["c_pixel"], args["itemsize"])
        counts = ordered(self.pixels, features)
        with self.loop(i64(0), self.images) as i, self.loop(i64(0), self.rows) as r:
            there = self.moved(target, (i, "target_image"), (r, "target_row"))
            here = self.moved(self.c, (i, "c_image"), (r, "c_row"))
            self.move("out_move", (there, *to), (here, *source), *counts)
            self._epilogue(i1(1), i, r, start, features)
