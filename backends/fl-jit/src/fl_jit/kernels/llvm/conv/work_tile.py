"""Work items of a convolution: some panels of features, for some positions of some images."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import microkernel, strided_copy
from fl_jit.kernels.llvm.conv.kernel_args import JOB, PASS, OfPass

#: epilogue(arguments, first row, rows, first column, columns, worker)
EPILOGUE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64])


class _Call(NamedTuple):
    """Arguments of the micro-kernels of one block of taps, from ``tap`` to ``end``."""

    tap: IR
    end: IR
    is_first: IR
    offsets: IR
    b_start: IR
    b_pitch: IR
    columns: IR
    table: IR


class WorkTile(OfPass):
    """The function of a work item: some panels of features, for some positions of some images."""

    def __init__(self, module: IR, input_tile: IR) -> None:
        super().__init__(module, "item")
        b = self.b
        segment, strip_number, self.z, block, self.group, chunk = self.split(
            self.number, "segments", "strips", "depth", "image_blocks", "groups"
        )
        self.x, self.pixels = self.part(segment, "segment", "width")
        self.y, self.rows = self.part(strip_number, "rows", "height")
        self.image, self.images = self.part(block, "images", "batch")
        self.panel, self.panels = self.part(chunk, "chunk", "panels_count")
        b = self.b
        self.mine = self.scratch()
        self.a = self._a(input_tile)
        self.indirect = b.icmp_signed("!=", self.word("indirect"), i64(0))
        self.target = self.moved(
            self.shifted(self.address("target"), self.word("target_start")),
            *((self.group, "target_group"), (self.image, "target_image")),
            *((self.z, "target_plane"), (self.y, "target_row"), (self.x, "target_pixel")),
        )
        panel_target = self.moved(self.target, (self.panel, "c_panel"))
        mine = self.shifted(self.mine, self.word("c_start"))
        self.c = b.select(self.indirect, mine, panel_target)
        self._cut()
        last = b.add(self.panel, self.panels)
        with self.loop(self.panel, last) as panel:
            self._panel(panel)
        with b.if_then(self.indirect):
            self._copy_out()
        b.ret_void()

    def _a(self, input_tile: IR) -> IR:
        """The address of A of the first result. Copies the input tiles, if there are any."""
        b, mul = self.b, self.b.mul
        source = self.moved(
            self.address("source"), (self.group, "source_group"), (self.image, "source_image")
        )
        plane, row, pixel = (
            b.add(self.word(f"origin_{axis}"), mul(index, self.word(f"step_{axis}")))
            for axis, index in (("z", self.z), ("y", self.y), ("x", self.x))
        )
        rows, pixels = (
            b.add(mul(b.sub(n, i64(1)), self.word(f"step_{axis}")), self.word(f"reach_{axis}"))
            for axis, n in (("y", self.rows), ("x", self.pixels))
        )
        copied = b.icmp_signed("!=", self.word("copied"), i64(0))
        with b.if_then(copied), self.loop(i64(0), self.images) as i:
            image = self.moved(source, (i, "source_image"))
            to = self.moved(self.mine, (i, "strip_image"))
            words = PASS.load_pointer(b, self.words, "strip")
            places = [plane, row, pixel, self.word("planes"), rows, pixels]
            b.call(input_tile, [words, image, to, *places])
        there = self.moved(
            source, (plane, "source_plane"), (row, "source_row"), (pixel, "source_pixel")
        )
        return b.select(copied, self.mine, there)

    def _cut(self) -> None:
        """Divide pixels into tiles of sizes as equal as possible. Sets their number, the smaller
        size, and the number of tiles with one more row."""
        b, most = self.b, self.word("most_rows")
        self.tiles = b.sdiv(b.add(self.pixels, b.sub(most, i64(1))), most)
        self.size = b.sdiv(self.pixels, self.tiles)
        self.longer = b.srem(self.pixels, self.tiles)

    def _panel(self, panel: IR) -> None:
        b = self.b
        _, columns = self.part(panel, "panel_width", "features")
        tables = [PASS.load_pointer(b, self.words, f"{name}_table") for name in ("tail", "full")]
        partial = b.icmp_signed("<", columns, self.word("panel_width"))
        table = b.select(partial, *tables)
        c = self.moved(self.c, (b.sub(panel, self.panel), "c_panel"))
        start = self.panel_at(self.group, panel)
        pitch = b.select(partial, self.word("tail_row"), self.word("panels_row"))
        direct = b.not_(self.indirect)
        taps = self.word("taps")
        some = b.select(b.icmp_signed("<", taps, i64(1)), i64(1), taps)
        with self.loop(i64(0), some, self.word("tap_block")) as tap:
            end = self.minimum(b.add(tap, self.word("tap_block")), taps)
            first = b.icmp_signed("==", tap, i64(0))
            offsets = PASS.load_pointer(b, self.words, "tap_offsets")
            call = _Call(tap, end, first, offsets, start, pitch, columns, table)
            last = b.and_(b.icmp_signed("==", end, taps), direct)
            with (
                self.loop(i64(0), self.images) as i,
                self.loop(i64(0), self.rows) as r,
            ):
                a_line = self.moved(self.a, (i, "a_image"), (r, "a_row"))
                c_line = self.moved(c, (i, "c_image"), (r, "c_row"))
                self._line(a_line, c_line, b.add(self.y, r), call)
                self._epilogue(last, i, r, b.mul(panel, self.word("panel_width")), columns)

    def _line(self, a: IR, c: IR, y: IR, call: _Call) -> None:
        """Compute the tiles of a row of the input tile. Longer tiles are at both ends, if there are
        two. Padding often makes them as long as the others, so that no more micro-kernels are
        needed."""
        b, word = self.b, self.word
        start = self.variable(i64)
        b.store(i64(0), start)
        y_from, y_to = self._met("y", y)
        z_from, z_to = self._met("z", self.z)
        taps = b.mul(b.sub(y_to, y_from), b.sub(z_to, z_from))
        whole = b.icmp_signed("==", b.mul(taps, word("taps_x")), word("taps"))
        with self.loop(i64(0), self.tiles) as number:
            place = b.srem(b.add(number, i64(1)), self.tiles)
            rows = b.add(self.size, b.zext(b.icmp_signed("<", place, self.longer), i64))
            low = b.load(start, typ=i64)
            high = b.add(low, rows)
            left = b.icmp_signed(">=", b.add(self.x, low), word("inside_from"))
            right = b.icmp_signed("<=", b.add(self.x, high), word("inside_to"))
            inside = b.and_(whole, b.and_(left, right))
            flags = b.select(call.is_first, i64(0), i64(microkernel.ADD))
            # At the border nothing is accumulated here, but the first block sets C to zero.
            end = b.select(inside, call.end, call.tap)
            with b.if_then(b.or_(inside, call.is_first)):
                self._tile(a, c, low, rows, call.tap, end, flags, call)
            with b.if_then(b.not_(inside)):
                self._border(a, c, low, high, (y_from, y_to, z_from, z_to), call)
            b.store(high, start)

    def _border(self, a: IR, c: IR, low: IR, high: IR, met: tuple[IR, ...], call: _Call) -> None:
        """Compute the part of a tile that meets the source, one kernel position in x and z at a
        time. Products with padding are not computed."""
        b, word = self.b, self.word
        y_from, y_to, z_from, z_to = met
        with self.loop(i64(0), word("taps_x")) as x:
            first, last = (b.sub(self._entry(table, x), self.x) for table in ("x_from", "x_to"))
            first = b.select(b.icmp_signed("<", first, low), low, first)
            last = self.minimum(last, high)
            with (
                b.if_then(b.icmp_signed("<", first, last)),
                self.loop(z_from, z_to) as z,
            ):
                base = b.mul(b.add(b.mul(x, word("taps_z")), z), word("taps_y"))
                tap = b.add(base, y_from)
                tap = b.select(b.icmp_signed("<", tap, call.tap), call.tap, tap)
                end = self.minimum(b.add(base, y_to), call.end)
                with b.if_then(b.icmp_signed("<", tap, end)):
                    rows = b.sub(last, first)
                    self._tile(a, c, first, rows, tap, end, i64(microkernel.ADD), call)

    def _tile(
        self, a: IR, c: IR, start: IR, rows: IR, tap: IR, end: IR, flags: IR, call: _Call
    ) -> None:
        """Compute positions of a line from ``start`` on, taps from ``tap`` to ``end``."""
        b, k = self.b, self.word("k")
        kernel = b.load(b.gep(call.table, [rows], source_etype=pointer), typ=pointer)
        offsets = b.gep(call.offsets, [tap], source_etype=i64)
        panel = self.shifted(call.b_start, b.mul(b.mul(tap, k), call.b_pitch))
        arguments = [b.sub(end, tap), offsets, k]
        arguments += [self.moved(a, (start, "a_pixel")), self.word("a_pixel")]
        arguments += [panel, call.b_pitch]
        arguments += [self.moved(c, (start, "c_pixel")), self.word("c_pixel")]
        arguments += [flags, call.columns]
        arguments += [self.moved(a, (b.add(start, rows), "a_pixel")), i64(microkernel.LINE)]
        b.call_at(kernel, microkernel.SIGNATURE_PREFETCH, arguments)

    def _met(self, axis: str, place: IR) -> tuple[IR, IR]:
        """The range of taps along an axis that meet the source, from an output position."""
        return self._entry(f"{axis}_from", place), self._entry(f"{axis}_to", place)

    def _entry(self, table: str, index: IR) -> IR:
        start = PASS.load_pointer(self.b, self.words, table)
        return self.b.load(self.b.gep(start, [index], source_etype=i64), typ=i64)

    def _epilogue(self, last: IR, i: IR, r: IR, start: IR, columns: IR) -> None:
        """Run the epilogue on features from ``start`` on of a complete row. Rows of an epilogue are
        positions of all images."""
        b, word = self.b, self.word
        there = b.icmp_signed("!=", JOB.load(b, self.job, "epilogue"), i64(0))
        with b.if_then(b.and_(last, there)):
            place = b.add(self.image, i)
            for index, count in (
                (self.z, "depth"), (b.add(self.y, r), "height"), (self.x, "width")
            ):  # fmt: skip
                place = b.add(b.mul(place, word(count)), index)
            column = b.add(b.mul(self.group, word("features")), start)
            words = self.address("epilogue_args")
            arguments = [words, place, self.pixels, column, columns, self.worker]
            b.call_at(self.address("epilogue"), EPILOGUE, arguments)

    def _copy_out(self) -> None:
        """Copy the worker's block to the target."""
        b, word = self.b, self.word
        start = b.mul(self.panel, word("panel_width"))
        end = self.minimum(
            b.mul(b.add(self.panel, self.panels), word("panel_width")), word("features")
        )
        features = b.sub(end, start)
        target = self.moved(self.target, (start, "target_channel"))
        swapped = b.icmp_signed("!=", word("out_swapped"), i64(0))

        def ordered(one: IR, other: IR) -> tuple[IR, IR]:
            return b.select(swapped, other, one), b.select(swapped, one, other)

        to = ordered(word("target_pixel"), word("target_channel"))
        source = ordered(word("c_pixel"), word("itemsize"))
        counts = ordered(self.pixels, features)
        with self.loop(i64(0), self.images) as i, self.loop(i64(0), self.rows) as r:
            there = self.moved(target, (i, "target_image"), (r, "target_row"))
            here = self.moved(self.c, (i, "c_image"), (r, "c_row"))
            arguments = [there, *to, here, *source, *counts]
            PASS.call(b, self.words, "out_move", strided_copy.SIGNATURE, arguments)
            self._epilogue(ir.IntType(1)(1), i, r, start, features)
