"""The loop nest of convolutions: forward, gradients of data, any number of axes up to three.

    pack:  for group, panel of features, place of the kernel:          in parallel, then a barrier
               a panel of weights, W features wide, into panels

    work:  for chunk of panels, group, images, plane, strip, segment:  an item, by whoever is free
               copy the strip of the source, padded by zeros           -> second-level cache
               for panel:                                              (W features)
                   for block of taps:                                  -> B stays in the cache
                       for image, row of the strip:
                           for tile: micro-kernel                      (<= 14 places) x W

Item by item and tile by tile a convolution is a product of matrices (implicit GEMM: S. Chetlur et
al., "cuDNN", 2014) whose A is the image: rows of A are places of the result, a constant distance
apart in the strip, and k runs over channels at each *tap*, a place of the kernel. Where pixels lie
side by side, a tap is a whole row of the kernel. Nothing is unrolled into columns.

There is one such nest for all shapes and dtypes. What it works on are blocks of words: ``JOB`` for
the call, ``PASS`` for each sum over windows (a convolution is one; see ``windows``).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

from llvmlite import ir

from fl_tensor.backends.providers.generated import microkernel, planes, strips
from fl_tensor.backends.providers.generated.words import Words, call_at, zero
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.loops import Loops
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i8, i64, pointer

#: Of a call: addresses of the operands (``weights``: 0 where ``panels`` holds them packed) and of
#: what is worked in, and what there is to do. ``next`` is the first item that nobody has taken.
JOB = Words(
    "source weights target panels scratch worker_bytes next items packs passes "
    "epilogue epilogue_words"
)

#: Of a sum over windows. Sizes are in elements, everything else in bytes; ``_image`` to ``_pixel``
#: are distances. ``a`` is where the micro-kernel reads (a strip, or the source), ``c`` where it
#: writes (the target, or a block of the worker's own, from which ``out_move`` copies).
PASS = Words(
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
    "weights_group weights_row weights_column pack_move "
    # tiles
    "most_rows full_table tail_table "
    # the result
    "target_start target_group target_image target_plane target_row target_pixel target_channel "
    "indirect c_start c_image c_row c_pixel c_panel out_move out_swapped"
)
#: pack(arguments, first, last + 1, worker), and work alike.
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])
#: epilogue(words, first row, rows, first column, columns, worker)
EPILOGUE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64, i64, i64])
_ITEM = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64, i64])


class Nest(NamedTuple):
    """Addresses of the functions: ``run(arguments)`` does both, one after the other."""

    pack: int
    work: int
    run: int


def nest() -> Nest:
    """The loop nest as machine code."""
    return _code(target.host())[1]


@functools.cache
def _code(machine: Target) -> tuple[object, Nest]:
    about = f"convolutions {compile.sources(Path(__file__).parent)}"
    code = compile.load(about, assembly, machine)
    return code, Nest(*map(code.address, Nest._fields))


def assembly() -> str:
    """A module in LLVM IR with the functions of ``Nest``."""
    module = ir.Module("convolutions")
    module.triple = target.triple()
    pack = _pack(module, _Pack(module).function)
    work = _work(module, _Item(module, strips.define(module)).function)
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "run")
    b = ir.IRBuilder(run.append_basic_block("entry"))
    job = run.args[0]
    b.call(pack, [job, i64(0), JOB.read(b, job, "packs"), i64(0)])
    b.call(work, [job, i64(0), i64(1), i64(0)])
    b.ret_void()
    return str(module)


def _pack(module: IR, one: IR) -> IR:
    """Packs first .. last of all passes."""
    function = ir.Function(module, SIGNATURE, "pack")
    job, first, last, worker = function.args
    nest = _Function(function)
    with nest.loop(first, last) as number:
        nest.dispatch(one, "pack_items", job, number, worker)
    nest.b.ret_void()
    return function


def _work(module: IR, one: IR) -> IR:
    """Items of all passes, one after the other, until all are taken."""
    function = ir.Function(module, SIGNATURE, "work")
    job, _, _, worker = function.args
    nest = _Function(function)
    b = nest.b
    again, take, done = (function.append_basic_block(name) for name in ("again", "take", "done"))
    b.branch(again)
    b.position_at_end(again)
    number = b.atomic_rmw("add", JOB.at(b, job, "next"), i64(1), "monotonic")
    b.cbranch(b.icmp_signed("<", number, JOB.read(b, job, "items")), take, done)
    b.position_at_end(take)
    nest.dispatch(one, "items", job, number, worker)
    b.branch(again)
    b.position_at_end(done)
    b.ret_void()
    return function


class _Function(Loops):
    """A function in the making."""

    def __init__(self, function: IR) -> None:
        function.attributes.add("nounwind")
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

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


class _OfPass(_Function):
    """A function (job, pass, number, worker), with what both kinds of items do."""

    def __init__(self, module: IR, name: str) -> None:
        function = ir.Function(module, _ITEM, name)
        function.linkage = "internal"
        super().__init__(function)
        self.job, self.words, self.number, self.worker = function.args

    def word(self, name: str) -> IR:
        """A word of the pass."""
        return PASS.read(self.b, self.words, name)

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
        start = self.shifted(self.address("panels"), self.word("panels_start"))
        return self.moved(start, (group, "panels_group"), (panel, "panels_panel"))

    def part(self, index: IR, size: str, of: str) -> tuple[IR, IR]:
        """Where part ``index`` of an axis begins, and how much there is of it."""
        start = self.b.mul(index, self.word(size))
        return start, self.minimum(self.word(size), self.b.sub(self.word(of), start))


class _Pack(_OfPass):
    """Packs some rows of one panel at one place of the kernel, or unpacks them."""

    def __init__(self, module: IR) -> None:
        super().__init__(module, "pack_one")
        b = self.b
        part, place, panel, group = self.split(
            self.number, "pack_parts", "pack_places", "panels_count"
        )
        row, rows = self.part(part, "pack_rows", "channels")
        column, columns = self.part(panel, "panel_width", "features")
        partial = b.icmp_signed("<", columns, self.word("panel_width"))
        pitch = b.select(partial, self.word("tail_row"), self.word("panels_row"))
        start = self.moved(
            self.address("weights"),
            *((group, "weights_group"), (row, "weights_row"), (column, "weights_column")),
        )
        self.offsets = PASS.read_address(b, self.words, "place_offsets")
        self.panel, self.row, self.rows, self.columns = (
            self.panel_at(group, panel),
            row,
            rows,
            columns,
        )
        self.pitch, self.partial = pitch, partial
        with b.if_else(b.icmp_signed("==", self.word("woven"), i64(0))) as (plain, woven):
            with plain:
                self._at_place(place, self.shifted(start, self._offset(place)))
            with woven:
                self._woven(start)
        b.ret_void()

    def _offset(self, place: IR) -> IR:
        return self.b.load(self.b.gep(self.offsets, [place], source_etype=i64), typ=i64)

    def _to(self, place: IR) -> IR:
        """The rows of the panel, after which there are zeros where features end."""
        b = self.b
        k = b.add(b.mul(place, self.word("channels")), self.row)
        return self.shifted(self.panel, b.mul(k, self.pitch))

    def _fill(self, to: IR) -> None:
        with self.b.if_then(self.partial):
            zero(self.b, to, self.b.mul(self.rows, self.pitch))

    def _move(self, name: str, *arguments: IR) -> None:
        PASS.call(self.b, self.words, name, planes.SIGNATURE, arguments)

    def _at_place(self, place: IR, weights: IR) -> None:
        b = self.b
        to = self._to(place)
        unpack = self.word("unpack")
        panel_side = to, self.pitch, self.word("itemsize")
        weights_side = weights, self.word("weights_row"), self.word("weights_column")
        swapped = b.icmp_signed("==", unpack, i64(2))
        with b.if_else(b.icmp_signed("==", unpack, i64(0))) as (packing, unpacking):
            with packing:
                self._fill(to)
                self._move("pack_move", *panel_side, *weights_side, self.rows, self.columns)
            with unpacking, b.if_else(swapped) as (turned, straight):
                with turned:
                    (out, *out_steps), (source, *steps) = weights_side, panel_side
                    steps = [*out_steps[::-1], source, *steps[::-1]]
                    self._move("pack_move", out, *steps, self.columns, self.rows)
                with straight:
                    self._move("pack_move", *weights_side, *panel_side, self.rows, self.columns)

    def _woven(self, start: IR) -> None:
        """All places at once, where these are next to one another and channels (1) or features (2)
        as far apart as there are places: neighbours are brought together in the worker's memory,
        then places are told apart."""
        b, word = self.b, self.word
        of_channels = b.icmp_signed("==", word("woven"), i64(1))

        def either(one: IR, other: IR) -> IR:
            return b.select(of_channels, one, other)

        worker = b.mul(self.worker, JOB.read(b, self.job, "worker_bytes"))
        mine = self.shifted(self.address("scratch"), worker)
        step, pitch, itemsize = word("weights_step"), word("woven_row"), word("itemsize")
        near = either(self.rows, self.columns)
        far = either(self.columns, self.rows)
        apart = either(word("weights_column"), word("weights_row"))
        near = b.mul(near, word("places"))
        self._move("woven_move", mine, pitch, itemsize, start, step, apart, near, far)
        wide = b.mul(pitch, word("places"))
        steps = either(wide, itemsize), either(itemsize, wide)
        with self.loop(i64(0), word("places")) as place:
            to = self._to(place)
            self._fill(to)
            source = self.shifted(mine, self._offset(place))
            arguments = to, self.pitch, itemsize, source, *steps, self.rows, self.columns
            self._move("pack_move", *arguments)


class _Call(NamedTuple):
    """What micro-kernels of one block of taps, from ``tap`` to ``end``, are called with."""

    tap: IR
    end: IR
    is_first: IR
    offsets: IR
    b_start: IR
    b_pitch: IR
    columns: IR
    table: IR


class _Item(_OfPass):
    """Some panels of features, for some places of some images."""

    def __init__(self, module: IR, strip: IR) -> None:
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
        worker = b.mul(self.worker, JOB.read(b, self.job, "worker_bytes"))
        self.mine = self.shifted(self.address("scratch"), worker)
        self.a = self._a(strip)
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

    def _a(self, strip: IR) -> IR:
        """Where A of the first result is; its strips are copied, if they are."""
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
            words = PASS.read_address(b, self.words, "strip")
            places = [plane, row, pixel, self.word("planes"), rows, pixels]
            b.call(strip, [words, image, to, *places])
        there = self.moved(
            source, (plane, "source_plane"), (row, "source_row"), (pixel, "source_pixel")
        )
        return b.select(copied, self.mine, there)

    def _cut(self) -> None:
        """Pixels in tiles as equal as possible: how many, the size of one, how many have one
        more."""
        b, most = self.b, self.word("most_rows")
        self.tiles = b.sdiv(b.add(self.pixels, b.sub(most, i64(1))), most)
        self.size = b.sdiv(self.pixels, self.tiles)
        self.longer = b.srem(self.pixels, self.tiles)

    def _panel(self, panel: IR) -> None:
        b = self.b
        _, columns = self.part(panel, "panel_width", "features")
        tables = [PASS.read_address(b, self.words, f"{name}_table") for name in ("tail", "full")]
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
            offsets = PASS.read_address(b, self.words, "tap_offsets")
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
        """A row of the strip: its tiles, the longer ones first."""
        b, word = self.b, self.word
        start = self.variable(i64)
        b.store(i64(0), start)
        y_from, y_to = self._met("y", y)
        z_from, z_to = self._met("z", self.z)
        taps = b.mul(b.sub(y_to, y_from), b.sub(z_to, z_from))
        whole = b.icmp_signed("==", b.mul(taps, word("taps_x")), word("taps"))
        with self.loop(i64(0), self.tiles) as number:
            rows = b.add(self.size, b.zext(b.icmp_signed("<", number, self.longer), i64))
            low = b.load(start, typ=i64)
            high = b.add(low, rows)
            left = b.icmp_signed(">=", b.add(self.x, low), word("inside_from"))
            right = b.icmp_signed("<=", b.add(self.x, high), word("inside_to"))
            with b.if_else(b.and_(whole, b.and_(left, right))) as (inside, outside):
                with inside:
                    flags = b.select(call.is_first, i64(0), i64(microkernel.ADD))
                    self._tile(a, c, low, rows, call.tap, call.end, flags, call)
                with outside:
                    with b.if_then(call.is_first):
                        self._tile(a, c, low, rows, call.tap, call.tap, i64(0), call)
                    self._border(a, c, low, high, (y_from, y_to, z_from, z_to), call)
            b.store(high, start)

    def _border(self, a: IR, c: IR, low: IR, high: IR, met: tuple[IR, ...], call: _Call) -> None:
        """The part of a tile that meets the source, for one place in x and z of the kernel after
        the other: products with padding are not computed."""
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
        """Places of a line from ``start`` on, taps from ``tap`` to ``end``."""
        b, k = self.b, self.word("k")
        kernel = b.load(b.gep(call.table, [rows], source_etype=pointer), typ=pointer)
        offsets = b.gep(call.offsets, [tap], source_etype=i64)
        panel = self.shifted(call.b_start, b.mul(b.mul(tap, k), call.b_pitch))
        arguments = [b.sub(end, tap), offsets, k]
        arguments += [self.moved(a, (start, "a_pixel")), self.word("a_pixel")]
        arguments += [panel, call.b_pitch]
        arguments += [self.moved(c, (start, "c_pixel")), self.word("c_pixel")]
        call_at(b, kernel, microkernel.SIGNATURE, [*arguments, flags, call.columns])

    def _met(self, axis: str, place: IR) -> tuple[IR, IR]:
        """Which taps along an axis meet the source, from a place of the result."""
        return self._entry(f"{axis}_from", place), self._entry(f"{axis}_to", place)

    def _entry(self, table: str, index: IR) -> IR:
        start = PASS.read_address(self.b, self.words, table)
        return self.b.load(self.b.gep(start, [index], source_etype=i64), typ=i64)

    def _epilogue(self, last: IR, i: IR, r: IR, start: IR, columns: IR) -> None:
        """What follows, on features from ``start`` on of a row that is complete. Rows of an
        epilogue are places of all images."""
        b, word = self.b, self.word
        there = b.icmp_signed("!=", JOB.read(b, self.job, "epilogue"), i64(0))
        with b.if_then(b.and_(last, there)):
            place = b.add(self.image, i)
            for index, count in (
                (self.z, "depth"), (b.add(self.y, r), "height"), (self.x, "width")
            ):  # fmt: skip
                place = b.add(b.mul(place, word(count)), index)
            column = b.add(b.mul(self.group, word("features")), start)
            words = self.address("epilogue_words")
            arguments = [words, place, self.pixels, column, columns, self.worker]
            call_at(b, self.address("epilogue"), EPILOGUE, arguments)

    def _copy_out(self) -> None:
        """From the worker's block to where the result belongs."""
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
            PASS.call(b, self.words, "out_move", planes.SIGNATURE, arguments)
            self._epilogue(ir.IntType(1)(1), i, r, start, features)
