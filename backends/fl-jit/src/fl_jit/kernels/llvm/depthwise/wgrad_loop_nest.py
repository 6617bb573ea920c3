"""Loop nest of the wgrad of depthwise convolutions and of their biases, as machine code.

    first:   for part of the pixels, for some vectors of channels        distributed to threads
               for tile of pixels                                        of adjacent rows
                 for vector of channels
                   copy the input tile, with zeros around the image      unless x is read in place
                   for image, for plane of the tile, for block of places of the kernel
                     accumulators[places, channels] +=
                         x[pixels + places, channels] * gradient[pixels]

    second:  for vector of channels: add the parts in their order, write in the layout of weights

A vector of channels holds whole groups, and has an accumulator for every turn (``groups.py``).
Contiguous single channels are read in place. The code of the innermost line
(``wgrad_microkernel.py``) knows which columns of the kernel the pixels at the ends of a line see,
and has the row bounds of the image as arguments. Other images are copied.
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.llvm.conv_wgrad import vector_loops
from fl_jit.kernels.llvm.depthwise import wgrad_microkernel as depthwise_taps
from fl_jit.kernels.llvm.depthwise.wgrad_epilogue import Second
from fl_jit.kernels.llvm.depthwise.wgrad_kernel_args import BLOCK, FIELDS
from fl_jit.kernels.llvm.depthwise.wgrad_padded_input import CopiedInputTiles
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import DType

#: Row extent of a copy, which contains every row of the windows.
_ALL = i64(1 << 62)


def assembly(given: DType, result: DType, machine: Target) -> str:
    """The module of ``first`` and ``second``, for images of ``given``, weights of ``result``."""
    module = ir.Module("depthwise_weights")
    module.triple = target.triple()
    _First(module, machine, given)
    Second(module, machine, result)
    return str(module)


class _First(CopiedInputTiles):
    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "first", FIELDS, machine, computed(given), given)
        b, words = self.b, self.words
        shared = b.add(words["workspace"], words["shared_at"])
        self.input_tile_at = b.add(words["workspace"], b.mul(self.worker, words["worker_bytes"]))
        with self.loop(self.begin, self.end) as item:
            part, split = self.split(item, words["splits"])
            vectors = self.share(split, words["splits"], words["vectors"])
            input_tiles = self.share(part, words["parts"], words["strips"])
            self.accumulators = b.add(shared, b.mul(part, words["part_sums"]))
            with self.loop(*input_tiles) as input_tile:
                self.locate(input_tile)
                self.is_later = b.icmp_signed(">", input_tile, input_tiles[0])
                with self.loop(*vectors) as vector:
                    self._vector(vector)
        b.ret_void()

    def _vector(self, vector: IR) -> None:
        b, words = self.b, self.words
        first = b.mul(vector, words["held"])
        self.groups = self.minimum(b.sub(words["groups"], first), words["held"])
        count = b.mul(self.groups, words["channels"])
        self.features = b.mul(self.groups, words["features"])
        channel = b.mul(first, words["channels"])
        image = self.sum(words["x"], (channel, words["x_channel"]))
        x_direct = b.icmp_signed("!=", words["x_direct"], i64(0))
        with self.when(b.not_(x_direct)):
            self.copy_image(image, self.input_tile_at, count)
        before = [
            b.sub(b.mul(start, words[f"stride {axis}"]), words[f"low {axis}"])
            for axis, start in enumerate(self.starts)
        ]
        seen = self.sum(image, *((place, words[f"x {axis}"]) for axis, place in enumerate(before)))
        source = b.select(x_direct, seen, self.input_tile_at)
        self.top = b.select(x_direct, before[2], i64(0))
        self.extent = b.select(x_direct, words["extent 2"], _ALL)
        gradient = self.sum(
            words["gradient"],
            (b.mul(first, words["features"]), words["gradient_channel"]),
            *((start, words[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )
        accumulators = b.add(self.accumulators, b.mul(vector, i64(self.wide)))
        of_bias = self.sum(
            self.accumulators, words["bias_sums"], (b.mul(vector, words["results"]), i64(self.wide))
        )
        direct = b.icmp_signed("!=", words["gradient_direct"], i64(0))
        packed = b.add(self.input_tile_at, words["packed_at"])
        with (
            self.loop(i64(0), self.extents[0]) as n,
            self.loop(i64(0), self.extents[1]) as plane,
        ):
            inner = b.icmp_signed(">", b.add(n, plane), i64(0))
            add = b.zext(b.or_(self.is_later, inner), i64)
            there = self.sum(gradient, (n, words["gradient 0"]), (plane, words["gradient 1"]))
            with self.when(b.not_(direct)):
                self._copy_gradient(packed, there)
            row = b.mul(self.extents[3], words["packed_pixel"])
            here = b.select(direct, there, packed)
            row = b.select(direct, words["gradient 2"], row)
            pixel = b.select(direct, words["gradient 3"], words["packed_pixel"])
            x = self.sum(
                source,
                (n, words["strip 0"]),
                (b.mul(plane, words["stride 1"]), words["strip 1"]),
            )
            self._blocks(x, (here, row, pixel), accumulators, add)
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                self._sum_bias((here, row, pixel), of_bias, add)

    def _copy_gradient(self, to: IR, source: IR) -> None:
        b, words = self.b, self.words
        with self.loop(i64(0), self.extents[2]) as row:
            here = b.add(to, b.mul(b.mul(row, self.extents[3]), words["packed_pixel"]))
            there = b.add(source, b.mul(row, words["gradient 2"]))
            packed = here, words["packed_pixel"], i64(self.itemsize)
            pixels = there, words["gradient 3"], words["gradient_channel"]
            self.move("gradient_move", packed, pixels, self.extents[3], self.features)

    def _blocks(self, x: IR, gradient: tuple[IR, IR, IR], accumulators: IR, add: IR) -> None:
        b, words = self.b, self.words
        table = self.address(words["block_table"])
        tap_row, row = (b.mul(words[f"{by} 2"], words["strip 2"]) for by in ("dilation", "stride"))
        with self.loop(i64(0), words["blocks"]) as block:
            first = b.mul(block, i64(BLOCK))
            code, in_input_tile, down, in_sums = (
                self.entry(table, b.add(first, i64(k))) for k in range(BLOCK)
            )
            self.call(
                code,
                depthwise_taps.SIGNATURE,
                *(self.address(b.add(x, in_input_tile)), tap_row, row, words["strip 3"]),
                *(b.add(self.top, down), self.extent),
                *(self.address(gradient[0]), *gradient[1:], *self.extents[2:]),
                self.address(b.add(accumulators, in_sums)),
                *(words[f"{name}_sums"] for name in ("tap_row", "tap", "turn")),
                *(self.groups, add),
            )

    def _sum_bias(self, gradient: tuple[IR, IR, IR], accumulators: IR, add: IR) -> None:
        b, words = self.b, self.words
        place, row_pitch, pitch = gradient
        with self.loop(i64(0), self.extents[2]) as row, self.loop(i64(0), words["results"]) as v:
            within = b.mul(v, i64(self.wide))
            to = self.address(b.add(accumulators, within))
            line = self.address(self.sum(place, (row, row_pitch), within))
            later = b.or_(add, b.zext(b.icmp_signed(">", row, i64(0)), i64))
            left = b.sub(self.features, b.mul(v, i64(self.of.lanes)))
            sides = to, line, pitch, self.extents[3], left, later
            self.call(words["column_sums"], vector_loops.COLUMN_SUMS, *sides)
