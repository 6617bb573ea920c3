"""The loop nest of the wgrad of a convolution, as machine code.

    for part of the pixels                                divided among threads,
     for panel, for tile: some of each                    and so are these
      for input tile of pixels                            some hundred, of adjacent rows
        copy the input tile of x, a tile's channels contiguous, zeros around the image
        for panel                                         32 features
          copy the input tile of the gradient, 32 features contiguous, each range of its columns
          for tile                                        14 channels
            for position                                       kernel position
              micro-kernel: accumulators[position, channels, features] +=
                            x[pixels + position, channels] * gradient[pixels, features]
            after the last input tile: write the accumulators to the weights, unless in place

Pixels are the reduction axis: the k of the micro-kernel, in the rows of pixels of the input tile. A
kernel position only changes the address of x, at no cost, since pixels of an input tile have
constant strides. Where there are few channels, those of all adjacent positions of a row are
contiguous in a channels-last image. They count as channels then.

Lines and columns of the gradient that read only padding at a kernel position are skipped. Lines are
the first or last ones of a copy. For columns there is a copy of each range.

The number of parts depends on the descriptor, not on the number of threads. Parts are added in
order.

``LoopNest`` has the loops and the copies of the gradient. ``GemmLoopNest`` multiplies by GEMM
micro-kernels. ``depthwise/wgrad.py`` has another one, for small groups.

In pairs of bfloat16 the k of the micro-kernel are pairs of adjacent pixels. The copy of the
gradient pairs them, the last odd one with zero. The input tile of x has a pair for every pixel:
that pixel, and the one that the next position of the gradient reads. A kernel position may begin at
an odd pixel, and the micro-kernel reads every second pair.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.cpu import LINE
from fl_jit.kernels.llvm import padded_input
from fl_jit.kernels.llvm.conv_wgrad.epilogue import Bias, Put, Second
from fl_jit.kernels.llvm.conv_wgrad.kernel_args import (
    FIELDS,
    OF_POSITIONS,
    InputTiles,
    WgradFunction,
)
from fl_jit.kernels.llvm.conv_wgrad.prefetch import Prefetch
from fl_jit.kernels.llvm.conv_wgrad.vector_loops import COLUMN_SUMS, PAIR_UP
from fl_jit.kernels.llvm.loop_nest import zero
from fl_jit.kernels.llvm.microkernel import SIGNATURE_PREFETCH
from fl_jit.kernels.llvm.padded_input import PixelCopy
from fl_tensor.dtypes import DType

#: Pixels that are copied at a time.
_TOGETHER = 16


def assembly(
    nest: type[LoopNest], dtype: DType, result: DType, machine: Target, pairs: bool = False
) -> str:
    """The module of ``first``, which is a ``nest``, and ``second``, with accumulators of ``dtype``
    and weights of ``result``. ``pairs``: pixels are multiplied in pairs."""
    module = ir.Module("wgrad")
    module.triple = target.triple()
    put = Put(module, machine, dtype).function
    bias = Bias(module, machine, result).function
    nest(module, machine, dtype, _Functions(put, bias), pairs)
    Second(module, machine, dtype, put, bias)
    return str(module)


class _Functions(NamedTuple):
    # Functions of the same module.
    put: IR
    bias: IR


class Gradient(NamedTuple):
    """The gradient that a panel is computed from: its address, the distance of pixels, and the
    number of features."""

    start: IR
    pixel: IR
    features: IR


class LoopNest(WgradFunction, InputTiles):
    """first(arguments, first item, last item + 1, worker). A work item is a part of the pixels, for
    some panels and some tiles of a group."""

    def __init__(
        self, module: IR, machine: Target, dtype: DType, own: _Functions, pairs: bool
    ) -> None:
        super().__init__(module, "first", FIELDS, machine, dtype)
        #: Functions of the module; whether pixels are multiplied in pairs.
        self.own, self.pairs = own, pairs
        b, args = self.b, self.args
        mine = b.mul(self.worker, args["worker_bytes"])
        self.input_tile = b.add(args["workspace"], mine)
        self.packed = b.add(self.input_tile, args["gradient_at"])
        local = b.select(self.is_set("local"), b.add(self.input_tile, args["acc_at"]), self.shared)
        self.all_accumulators = b.select(self.is_set("in_place"), args["out"], local)
        with self.loop(self.begin, self.end) as item:
            rest, tile_split = self.split(item, args["tile_splits"])
            rest, panel_split = self.split(rest, args["panel_splits"])
            self.group, self.part = self.split(rest, args["parts"])
            self.tiles = self.share(tile_split, args["tile_splits"], args["tiles"])
            self.panels = self.share(panel_split, args["panel_splits"], args["panels"])
            is_first = b.icmp_signed("==", tile_split, i64(0))
            self.counts_bias = b.and_(is_first, self.is_set("has_bias"))
            input_tiles = self.share(self.part, args["parts"], args["input_tiles"])
            with self.loop(*input_tiles) as input_tile:
                self.adds = b.zext(b.icmp_signed(">", input_tile, input_tiles[0]), i64)
                last = b.icmp_signed("==", b.add(input_tile, i64(1)), input_tiles[1])
                alone = b.icmp_signed("==", args["parts"], i64(1))
                self.is_last = b.and_(last, alone)
                self.begin_tile(input_tile)
                with self.loop(*self.panels) as panel:
                    self._panel(panel)
        b.ret_void()

    def begin_tile(self, input_tile: IR) -> None:
        """Locate an input tile, and copy it if all panels read the same."""
        self.locate(input_tile)

    def compute(self, panel: IR, gradient: Gradient) -> None:
        """Add the current input tile to the accumulators of a panel, and to those of its bias."""
        raise NotImplementedError

    def turns(self, pixels: IR) -> IR:
        """Steps of a micro-kernel along a line."""
        return self.b.ashr(self.b.add(pixels, i64(1)), i64(1)) if self.pairs else pixels

    def pixel_copy(self) -> PixelCopy:
        """The copy of pixels of x."""
        args = self.args
        tile = args["input 3"], i64(self.itemsize)
        return PixelCopy(
            args["x_move"], tile, (args["x 3"], args["x_channel"]), self.is_set("dense")
        )

    def _panel(self, panel: IR) -> None:
        b, args = self.b, self.args
        features = self.features_of(self.columns_of(panel))
        pitch = b.mul(self.vectors_of(features), i64(self.wide))
        source = self.sum(
            args["gradient"],
            *((self.group, args["gradient_group"]), (panel, args["gradient_panel"])),
            *((start, args[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )
        self._copy_gradient(source, features, pitch)
        direct = self.is_set("gradient_direct")
        start, pixel = (
            b.select(direct, *each) for each in ((source, self.packed), (args["gradient 3"], pitch))
        )
        self.compute(panel, Gradient(start, pixel, features))
        with self.when(b.and_(self.is_last, self.counts_bias)):
            b.call(self.own.bias, [self.arguments, self.group, panel])

    def vectors_of(self, features: IR) -> IR:
        """The number of vectors that so many features have."""
        return self.b.sdiv(self.b.add(features, i64(self.of.lanes - 1)), i64(self.of.lanes))

    def _copy_gradient(self, source: IR, features: IR, pitch: IR) -> None:
        # Rows in the order of ``input_rows``: rows of a position in all images are adjacent.
        b, args = self.b, self.args
        ranges = self.address(args["copy_ranges"])
        partial = b.icmp_signed("<", b.mul(features, i64(self.itemsize)), pitch)
        with self.loop(i64(0), args["copies"]) as copy:
            first, end = (self.entry(ranges, b.add(b.shl(copy, i64(1)), i64(i))) for i in (0, 1))
            pixels = b.sub(self.minimum(end, self.extents[3]), first)
            row_bytes = b.mul(self.turns(pixels), pitch)
            to = self.variable(i64)
            b.store(self.sum(self.packed, (copy, args["copy_bytes"])), to)
            with (
                self.loop(i64(0), self.extents[2]) as row,
                self.loop(i64(0), self.extents[0]) as n,
                self.loop(i64(0), self.extents[1]) as depth,
            ):
                places = (n, depth, row, first)
                there = self.sum(
                    source, *((i, args[f"gradient {a}"]) for a, i in enumerate(places))
                )
                here = b.load(to, typ=i64)
                with self.when(partial):
                    zero(b, self.address(here), row_bytes)
                self._copy_line((here, pitch), there, pixels, features)
                b.store(b.add(here, row_bytes), to)

    def _copy_line(self, to: tuple[IR, IR], source: IR, pixels: IR, features: IR) -> None:
        # A row of the gradient. ``to`` is the target and its pixel stride, ``source`` the address.
        b, (here, pitch), item = self.b, to, i64(self.itemsize)
        pixel, between = self.args["gradient 3"], self.args["gradient_feature"]
        if not self.pairs:
            self.move("gradient_move", (*to, item), (source, pixel, between), pixels, features)
            return
        pairs, twice = b.ashr(pixels, i64(1)), b.shl(pixel, i64(1))
        self.move("pairs_move", (*to, item), (source, twice, between), pairs, features)
        last = b.add(here, b.mul(pairs, pitch)), pitch, item
        alone = b.add(source, b.mul(pairs, twice)), pixel, between
        self.move("gradient_move", last, alone, b.and_(pixels, i64(1)), features)

    def sum_bias(self, panel: IR, gradient: Gradient, pixels: IR, add: IR) -> None:
        """Add ``pixels`` adjacent pixels, or pairs, to the accumulators of a panel's bias. ``add``
        is 0 for the first ones."""
        b, args = self.b, self.args
        to = self.sum(
            *(self.shared, args["bias_acc_at"]),
            *((self.group, args["bias_acc_group"]), (self.part, args["bias_acc_part"])),
            (panel, args["bias_acc_panel"]),
        )
        with self.loop(i64(0), self.vectors_of(gradient.features)) as vector:
            within = b.mul(vector, i64(self.wide))
            left = b.sub(gradient.features, b.mul(vector, i64(self.of.lanes)))
            sides = (self.address(b.add(start, within)) for start in (to, gradient.start))
            rest = gradient.pixel, pixels, left, add
            self.call(args["column_sums"], COLUMN_SUMS, *sides, *rest)

    def put(self, panel: IR, tile: IR, accumulators: IR) -> None:
        """Write complete accumulators of a tile to the result, unless they are there."""
        b = self.b
        with self.when(b.and_(self.is_last, b.not_(self.is_set("in_place")))):
            b.call(self.own.put, [self.arguments, self.group, panel, tile, accumulators])


class GemmLoopNest(LoopNest, Prefetch):
    """The loop nest whose micro-kernels are those of GEMM."""

    def begin_tile(self, input_tile: IR) -> None:
        b, args = self.b, self.args
        self.prefetch_tile(input_tile, self.packed)
        self.locate(input_tile)
        x_direct, extents = self.is_set("x_direct"), self.extents
        with self.when(b.not_(x_direct)):
            self._copy_x()
        strided = [b.mul(start, args[f"stride {axis}"]) for axis, start in enumerate(self.starts)]
        of_group = self.sum(args["x"], (self.group, args["x_group"]))
        x = self.sum(of_group, *((i, args[f"x {axis}"]) for axis, i in enumerate(strided)))
        self.x_now = b.select(x_direct, x, self.input_tile)
        self.planes = b.mul(extents[0], extents[1])
        self.rows = b.mul(self.planes, extents[2])
        whole = b.icmp_signed("==", b.mul(self.rows, extents[3]), args["input_pixels"])
        self.steps = self.turns(extents[3])
        self.input_rows = b.select(whole, args["input_rows"], args["last_input_rows"])

    def _copy_x(self) -> None:
        b, args, copy = self.b, self.args, self.pixel_copy()
        joined = self.is_set("joined")
        image = self.sum(args["x"], (self.group, args["x_group"]))
        # If joined, all channels are copied at once.
        tiles = [b.select(joined, i64(bound), of) for bound, of in enumerate(self.tiles)]
        with padded_input.rows(self, self.tile_axes(), image, self.input_tile) as row:
            with self.loop(*tiles) as tile:
                to = self.sum(row.tile, (tile, args["tile_pitch"]))
                padded_input.fill(self, row._replace(tile=to), args["input 3"])
            # Few pixels at a time, so that x is read sequentially.
            step = b.select(joined, row.end, i64(_TOGETHER))
            with self.loop(row.low, row.high, step) as pixel, self.loop(*tiles) as tile:
                first, rows, _ = self.rows_of(tile)
                within = b.sub(pixel, row.low)
                padded_input.copy_pixels(
                    self,
                    self.sum(row.tile, (tile, args["tile_pitch"]), (pixel, args["input 3"])),
                    self.sum(row.image, (first, args["x_channel"]), (within, args["x 3"])),
                    copy,
                    self.minimum(b.sub(row.high, pixel), step),
                    b.select(joined, args["channels"], rows),
                )
            if self.pairs:
                # Pair each pixel with the one that the next position of the gradient reads.
                pitch = args["input 3"]
                nbytes, distance = (b.mul(pitch, n) for n in (row.end, args["stride 3"]))
                with self.loop(*tiles) as tile:
                    here = self.address(self.sum(row.tile, (tile, args["tile_pitch"])))
                    self.call(args["pair_up"], PAIR_UP, here, nbytes, distance)

    def compute(self, panel: IR, gradient: Gradient) -> None:
        with self.when(self.counts_bias):
            self.sum_bias(panel, gradient, self.b.mul(self.rows, self.steps), self.adds)
        with self.loop(*self.tiles) as tile:
            self._tile(panel, tile, gradient)

    def _tile(self, panel: IR, tile: IR, gradient: Gradient) -> None:
        b, args = self.b, self.args
        first, _, longer = self.rows_of(tile)
        whole = b.icmp_signed("==", gradient.features, args["width"])
        kernels = [
            b.select(longer, args[f"long{kind}_kernel"], args[f"short{kind}_kernel"])
            for kind in ("", "_tail")
        ]
        kernel = b.select(whole, *kernels)
        x = self.sum(self.x_now, (tile, args["tile_pitch"]), (first, args["row_pitch"]))
        accumulators = b.add(
            self.all_accumulators, self.accumulators_of(self.group, self.part, panel, first)
        )
        x_pitch = b.mul(args["input 3"], args["stride 3"])
        x_pitch = b.shl(x_pitch, i64(1)) if self.pairs else x_pitch
        with self.loop(i64(0), args["positions"]) as position:
            at = {name: self.entry(self.address(args[name]), position) for name in OF_POSITIONS}
            # Rows, and pixels of them, that read only padding are skipped.
            low, high = (
                self.maximum(b.sub(at[name], self.starts[2]), i64(0))
                for name in ("first_row", "end_row")
            )
            high = self.minimum(high, self.extents[2])
            low = b.mul(self.minimum(low, high), self.planes)
            rows = b.sub(b.mul(high, self.planes), low)
            steps = self.minimum(at["position_steps"], self.steps)
            before = b.add(at["position_in_copies"], b.mul(low, b.mul(steps, gradient.pixel)))
            prefetched = self.prefetch_line(b.mul(rows, steps))
            self.call(
                *(kernel, SIGNATURE_PREFETCH),
                *(rows, self.address(b.add(self.input_rows, b.mul(low, i64(8)))), steps),
                *(self.address(b.add(x, at["position_in_input"])), x_pitch),
                *(self.address(b.add(gradient.start, before)), gradient.pixel),
                *(self.address(b.add(accumulators, at["position_in_acc"])), args["acc_row"]),
                *(self.adds, gradient.features, self.address(prefetched), i64(LINE)),
            )
        self.put(panel, tile, accumulators)
