"""The loop nest of the wgrad of a convolution, as machine code.

    for part of the pixels                                divided among threads,
     for panel, for tile: some of each                    and so are these
      for input tile of pixels                            some hundred, of adjacent rows
        copy the input tile of x, a tile's channels contiguous, zeros around the image
        for panel                                         32 features
          copy the input tile of the gradient, 32 features contiguous, each range of its columns
          for tile                                        14 channels
            for tap                                       kernel position
              micro-kernel: accumulators[tap, channels, features] +=
                            x[pixels + tap, channels] * gradient[pixels, features]
            after the last input tile: write the accumulators to the weights, unless in place

Pixels are the reduction axis: the k of the micro-kernel, whose taps are the rows of pixels of the
input tile. A tap only changes the address of x, at no cost, since positions of an input tile have
constant strides. Where there are few channels, those of all adjacent taps of a row are contiguous
in a channels-last image. They count as channels then.

Lines and columns of the gradient that read only padding through a tap are skipped. Lines are the
first or last ones of a copy. For columns there is a copy of each range.

The number of parts depends on the descriptor, not on the number of threads. Parts are added in
order.

In pairs of bfloat16 the k of the micro-kernel are pairs of adjacent pixels. The copy of the
gradient pairs them, the last odd one with zero. The input tile of x has a pair for every pixel:
that pixel, and the one that the next position of the gradient reads. A tap may begin at an odd
pixel, and the micro-kernel reads every second pair.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv_wgrad.epilogue import Bias, Put, Second
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import FIELDS, OF_TAPS
from fl_jit.kernels.llvm.conv_wgrad.prefetch import Prefetch
from fl_jit.kernels.llvm.conv_wgrad.tiles import Tiles
from fl_jit.kernels.llvm.conv_wgrad.vector_loops import COLUMN_SUMS, PAIR_UP
from fl_jit.kernels.llvm.loop_nest import zero
from fl_jit.kernels.llvm.microkernel import LINE, SIGNATURE_PREFETCH
from fl_tensor.dtypes import DType

#: Pixels that are copied at a time.
_TOGETHER = 16


def assembly(dtype: DType, result: DType, machine: Target, pairs: bool = False) -> str:
    """The module of ``first`` and ``second``, with accumulators of ``dtype`` and weights of
    ``result``."""
    module = ir.Module("weights")
    module.triple = target.triple()
    put = Put(module, machine, dtype).function
    bias = Bias(module, machine, result).function
    _First(module, machine, dtype, _Functions(put, bias), pairs)
    Second(module, machine, dtype, put, bias)
    return str(module)


class _Functions(NamedTuple):
    # Functions of the same module.
    put: IR
    bias: IR


class _First(Tiles, Prefetch):
    # A work item is a part of the pixels, for some panels and some tiles of a group.

    def __init__(
        self, module: IR, machine: Target, dtype: DType, own: _Functions, pairs: bool
    ) -> None:
        super().__init__(module, "first", FIELDS, machine, dtype)
        #: Functions of the module; whether pixels are multiplied in pairs.
        self.own, self.pairs = own, pairs
        b, words = self.b, self.words
        mine = b.mul(self.worker, words["worker_bytes"])
        self.input_tile = b.add(words["workspace"], mine)
        self.packed = b.add(self.input_tile, words["gradient_at"])
        local = b.select(self.flag("local"), b.add(self.input_tile, words["sums_at"]), self.shared)
        self.all_accumulators = b.select(self.flag("in_place"), words["out"], local)
        with self.loop(self.begin, self.end) as item:
            rest, tile_split = self.split(item, words["tile_splits"])
            rest, panel_split = self.split(rest, words["panel_splits"])
            self.group, self.part = self.split(rest, words["parts"])
            self.tiles = self.share(tile_split, words["tile_splits"], words["tiles"])
            self.panels = self.share(panel_split, words["panel_splits"], words["panels"])
            is_first = b.icmp_signed("==", tile_split, i64(0))
            self.counts_bias = b.and_(is_first, self.flag("has_bias"))
            input_tiles = self.share(self.part, words["parts"], words["strips"])
            with self.loop(*input_tiles) as input_tile:
                self.adds = b.zext(b.icmp_signed(">", input_tile, input_tiles[0]), i64)
                last = b.icmp_signed("==", b.add(input_tile, i64(1)), input_tiles[1])
                alone = b.icmp_signed("==", words["parts"], i64(1))
                self.is_last = b.and_(last, alone)
                self._input_tile(input_tile)
        b.ret_void()

    def flag(self, name: str) -> IR:
        return self.b.icmp_signed("!=", self.words[name], i64(0))

    def turns(self, pixels: IR) -> IR:
        """Steps of a micro-kernel along a line."""
        return self.b.ashr(self.b.add(pixels, i64(1)), i64(1)) if self.pairs else pixels

    def _input_tile(self, input_tile: IR) -> None:
        b, words = self.b, self.words
        self.prefetch_tile(input_tile, self.packed)
        self.locate(input_tile)
        extents = self.extents
        x_direct, direct = self.flag("x_direct"), self.flag("gradient_direct")
        with self.when(b.not_(x_direct)):
            image = b.add(words["x"], b.mul(self.group, words["x_group"]))
            self.copy_x(image, self.input_tile, self._copy_row)
        self.x_now = b.select(x_direct, self._x_at(self.starts), self.input_tile)
        rows = b.mul(b.mul(extents[0], extents[1]), extents[2])
        whole = b.icmp_signed("==", b.mul(rows, extents[3]), words["strip_pixels"])
        self.steps = self.turns(extents[3])
        self.strip_rows = b.select(whole, words["strip_rows"], words["last_strip_rows"])
        self.planes = b.mul(extents[0], extents[1])
        with self.loop(*self.panels) as panel:
            columns = self.columns_of(panel)
            vectors = b.sdiv(b.add(columns, i64(self.of.lanes - 1)), i64(self.of.lanes))
            packed_pitch = b.mul(vectors, i64(self.wide))
            there = self._gradient_at(panel)
            self._copy_gradient(there, columns, packed_pitch)
            pitch = b.select(direct, words["gradient 3"], packed_pitch)
            self.gradient_now = b.select(direct, there, self.packed)
            with self.when(self.counts_bias):
                self._sum_bias(panel, columns, vectors, pitch, b.mul(rows, self.steps))
            with self.loop(*self.tiles) as tile:
                self._tile(panel, tile, columns, pitch)

    def _x_at(self, starts: list[IR]) -> IR:
        b, words = self.b, self.words
        strided = [b.mul(start, words[f"stride {axis}"]) for axis, start in enumerate(starts)]
        return self.sum(
            words["x"],
            (self.group, words["x_group"]),
            *((start, words[f"x {axis}"]) for axis, start in enumerate(strided)),
        )

    def _gradient_at(self, panel: IR) -> IR:
        words = self.words
        return self.sum(
            words["gradient"],
            (self.group, words["gradient_group"]),
            (self.b.mul(panel, words["width"]), words["gradient_feature"]),
            *((start, words[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )

    def _copy_row(self, to: IR, source: IR, low: IR, high: IR, end: IR) -> None:
        b, words = self.b, self.words
        joined = self.flag("joined")
        # If joined, all channels are copied at once.
        tiles = [b.select(joined, i64(bound), of) for bound, of in enumerate(self.tiles)]
        with self.loop(*tiles) as tile:
            self.clear(b.add(to, b.mul(tile, words["tile_pitch"])), low, high, end)
        # Few pixels at a time, so that x is read sequentially.
        step = b.select(joined, end, i64(_TOGETHER))
        with self.loop(low, high, step) as pixel, self.loop(*tiles) as tile:
            first, rows, _ = self.rows_of(tile)
            self.copy_pixels(
                self.sum(to, (tile, words["tile_pitch"]), (pixel, words["strip 3"])),
                self.sum(source, (first, words["x_channel"]), (b.sub(pixel, low), words["x 3"])),
                b.select(joined, words["channels"], rows),
                self.minimum(b.sub(high, pixel), step),
            )
        if self.pairs:
            # Pair each pixel with the one that the next position of the gradient reads.
            nbytes, distance = (b.mul(words["strip 3"], n) for n in (end, words["stride 3"]))
            with self.loop(*tiles) as tile:
                here = self.address(b.add(to, b.mul(tile, words["tile_pitch"])))
                self.call(words["pair_up"], PAIR_UP, here, nbytes, distance)

    def _copy_gradient(self, source: IR, columns: IR, pitch: IR) -> None:
        # Rows in the order of ``strip_rows``: rows of a position in all images are adjacent.
        b, words = self.b, self.words
        ranges = self.address(words["copy_ranges"])
        partial = b.icmp_signed("<", b.mul(columns, i64(self.itemsize)), pitch)
        with self.loop(i64(0), words["copies"]) as copy:
            first, end = (self.entry(ranges, b.add(b.shl(copy, i64(1)), i64(i))) for i in (0, 1))
            pixels = b.sub(self.minimum(end, self.extents[3]), first)
            row_bytes = b.mul(self.turns(pixels), pitch)
            to = self.variable(i64)
            b.store(self.sum(self.packed, (copy, words["copy_bytes"])), to)
            with (
                self.loop(i64(0), self.extents[2]) as row,
                self.loop(i64(0), self.extents[0]) as n,
                self.loop(i64(0), self.extents[1]) as depth,
            ):
                places = (n, depth, row, first)
                there = self.sum(
                    source, *((i, words[f"gradient {a}"]) for a, i in enumerate(places))
                )
                here = b.load(to, typ=i64)
                with self.when(partial):
                    zero(b, self.address(here), row_bytes)
                self._copy_line((here, pitch), there, pixels, columns)
                b.store(b.add(here, row_bytes), to)

    def _copy_line(self, to: tuple[IR, IR], source: IR, pixels: IR, columns: IR) -> None:
        # A row of the gradient. ``to`` is the target and its pixel stride, ``source`` the address.
        b, (here, pitch), item = self.b, to, i64(self.itemsize)
        pixel, between = self.words["gradient 3"], self.words["gradient_feature"]
        if not self.pairs:
            self.move("gradient_move", (*to, item), (source, pixel, between), pixels, columns)
            return
        pairs, twice = b.ashr(pixels, i64(1)), b.shl(pixel, i64(1))
        self.move("pairs_move", (*to, item), (source, twice, between), pairs, columns)
        last = b.add(here, b.mul(pairs, pitch)), pitch, item
        alone = b.add(source, b.mul(pairs, twice)), pixel, between
        self.move("gradient_move", last, alone, b.and_(pixels, i64(1)), columns)

    def _sum_bias(self, panel: IR, columns: IR, vectors: IR, pitch: IR, steps: IR) -> None:
        b, words = self.b, self.words
        to = self.sum(
            *(self.shared, words["bias_sums_at"]),
            (self.group, words["bias_group_sums"]),
            (self.part, words["bias_part_sums"]),
            (panel, words["panel_pitch"]),
        )
        with self.loop(i64(0), vectors) as j:
            within = b.mul(j, i64(self.wide))
            self.call(
                *(words["column_sums"], COLUMN_SUMS),
                self.address(b.add(to, within)),
                self.address(b.add(self.gradient_now, within)),
                *(pitch, steps, b.sub(columns, b.mul(j, i64(self.of.lanes))), self.adds),
            )
        with self.when(self.is_last):
            self.b.call(self.own.bias, [self.arguments, self.group, panel])

    def _tile(self, panel: IR, tile: IR, columns: IR, pitch: IR) -> None:
        b, words = self.b, self.words
        first, _, longer = self.rows_of(tile)
        whole = b.icmp_signed("==", columns, words["width"])
        kernels = [
            b.select(longer, words[f"long{kind}_kernel"], words[f"short{kind}_kernel"])
            for kind in ("", "_tail")
        ]
        kernel = b.select(whole, *kernels)
        x = self.sum(self.x_now, (tile, words["tile_pitch"]), (first, words["row_pitch"]))
        accumulators = b.add(
            self.all_accumulators, self.sums_of(self.group, self.part, panel, first)
        )
        x_pitch = b.mul(words["strip 3"], words["stride 3"])
        x_pitch = b.shl(x_pitch, i64(1)) if self.pairs else x_pitch
        with self.loop(i64(0), words["taps"]) as tap:
            at = {name: self.entry(self.address(words[name]), tap) for name in OF_TAPS}
            # Rows, and pixels of them, that read only padding are skipped.
            low, high = (
                self.maximum(b.sub(at[name], self.starts[2]), i64(0))
                for name in ("first_row", "end_row")
            )
            high = self.minimum(high, self.extents[2])
            low = b.mul(self.minimum(low, high), self.planes)
            rows = b.sub(b.mul(high, self.planes), low)
            steps = self.minimum(at["tap_steps"], self.steps)
            before = b.add(at["tap_in_copies"], b.mul(low, b.mul(steps, pitch)))
            self.call(
                *(kernel, SIGNATURE_PREFETCH),
                *(rows, self.address(b.add(self.strip_rows, b.mul(low, i64(8)))), steps),
                *(self.address(b.add(x, at["tap_in_strip"])), x_pitch),
                *(self.address(b.add(self.gradient_now, before)), pitch),
                *(self.address(b.add(accumulators, at["tap_in_sums"])), words["row_sums"]),
                *(
                    self.adds,
                    columns,
                    self.address(self.prefetch_line(b.mul(rows, steps))),
                    i64(LINE),
                ),
            )
        with self.when(b.and_(self.is_last, b.not_(self.flag("in_place")))):
            b.call(self.own.put, [self.arguments, self.group, panel, tile, accumulators])
