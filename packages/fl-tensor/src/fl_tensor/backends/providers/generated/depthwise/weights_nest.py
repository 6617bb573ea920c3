"""The loop nest of gradients of depthwise weights and of their biases, as machine code.

    first:   for part of the pixels, for some vectors of channels        threads share these
               for strip of pixels                                       of neighbouring rows
                 for vector of channels
                   copy the strip of x, with zeros around the image
                   for image, for plane of the strip, for block of places of the kernel
                     sums[places, channels] += x[pixels + places, channels] * gradient[pixels]

    second:  for vector of channels: add the parts in their order, write them as the weights lie

In the copy pixels are a vector apart, however many channels the image has: so a strip stays in the
nearest cache, where pixels of the image would fall into the same few sets. The innermost two lines
are ``taps.py``.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated.depthwise import taps as depthwise_taps
from fl_tensor.backends.providers.generated.nest import computed
from fl_tensor.backends.providers.generated.weights.results import ColumnSums
from fl_tensor.backends.providers.generated.weights.strips import CopyPlane, Strips
from fl_tensor.backends.providers.generated.weights.words import axes
from fl_tensor.backends.providers.generated.words import zero
from fl_tensor.codegen import target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64
from fl_tensor.dtypes import DType

WORDS = (
    *("x", "gradient", "bias", "out", "workspace"),
    *("splits", "shared_at", "parts", "strips", "vectors", "channels"),
    *axes(),
    # distances
    *("x_channel", "gradient_channel", "bias_channel", "out_channel"),
    *("worker_bytes", "packed_at", "part_sums", "tap_sums", "tap_row_sums", "bias_sums"),
    # blocks of places of the kernel, and all places
    *("blocks", "block_table", "taps", "tap_in_out"),
    # flags
    *("has_bias", "gradient_direct", "dense"),
    # functions of ``planes.py``
    *("x_move", "gradient_move"),
)
#: Numbers of an entry of the table of blocks: the code, where its places begin in the strip of x
#: and among the sums.
BLOCK = 3


def assembly(given: DType, result: DType, machine: Target) -> str:
    """The module of ``first`` and ``second``, for images of ``given``, weights of ``result``."""
    module = ir.Module("depthwise_weights")
    module.triple = target.triple()
    dtype = computed(given)
    _First(module, machine, given, ColumnSums(module, machine, dtype).function)
    _Second(module, machine, result)
    return str(module)


class _First(Strips):
    def __init__(self, module: IR, machine: Target, given: DType, add_up: IR) -> None:
        super().__init__(module, "first", WORDS, machine, computed(given), given)
        self.add_up = add_up
        self.copy_plane = CopyPlane(module, machine, given).function
        b, words = self.b, self.words
        shared = b.add(words["workspace"], words["shared_at"])
        self.strip_at = b.add(words["workspace"], b.mul(self.worker, words["worker_bytes"]))
        with self.loop(self.begin, self.end) as item:
            part, split = self.split(item, words["splits"])
            vectors = self.share(split, words["splits"], words["vectors"])
            strips = self.share(part, words["parts"], words["strips"])
            self.sums = b.add(shared, b.mul(part, words["part_sums"]))
            with self.loop(*strips) as strip:
                self.locate(strip)
                self.is_later = b.icmp_signed(">", strip, strips[0])
                with self.loop(*vectors) as vector:
                    self._vector(vector)
        b.ret_void()

    def _vector(self, vector: IR) -> None:
        b, words = self.b, self.words
        channel = b.mul(vector, i64(self.of.lanes))
        count = self.minimum(b.sub(words["channels"], channel), i64(self.of.lanes))
        image = self.sum(words["x"], (channel, words["x_channel"]))
        near = b.icmp_signed("==", words["x_channel"], i64(self.given.itemsize))
        with b.if_else(near) as (planes, rows):
            with planes:
                self.copy_planes(image, self.strip_at, count, self.copy_plane)
            with rows:
                partial = b.icmp_signed("<", count, i64(self.of.lanes))
                with self.when(partial):
                    zero(b, self.address(self.strip_at), words["packed_at"])
                self.copy_x(
                    image,
                    self.strip_at,
                    lambda to, source, *row: self.copy_channels(to, source, count, *row),
                )
        gradient = self.sum(
            words["gradient"],
            (channel, words["gradient_channel"]),
            *((start, words[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )
        sums = b.add(self.sums, b.mul(channel, i64(self.itemsize)))
        direct = b.icmp_signed("!=", words["gradient_direct"], i64(0))
        packed = b.add(self.strip_at, words["packed_at"])
        with (
            self.loop(i64(0), self.extents[0]) as n,
            self.loop(i64(0), self.extents[1]) as plane,
        ):
            inner = b.icmp_signed(">", b.add(n, plane), i64(0))
            add = b.zext(b.or_(self.is_later, inner), i64)
            there = self.sum(gradient, (n, words["gradient 0"]), (plane, words["gradient 1"]))
            with self.when(b.not_(direct)):
                self._copy_gradient(packed, there, count)
            row = b.mul(self.extents[3], i64(self.wide))
            here = b.select(direct, there, packed)
            row = b.select(direct, words["gradient 2"], row)
            pixel = b.select(direct, words["gradient 3"], i64(self.wide))
            x = self.sum(
                self.strip_at,
                (n, words["strip 0"]),
                (b.mul(plane, words["stride 1"]), words["strip 1"]),
            )
            self._blocks(x, (here, row, pixel), sums, count, add)
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                self._sum_bias((here, row, pixel), sums, count, add)

    def _copy_gradient(self, to: IR, source: IR, count: IR) -> None:
        b, words = self.b, self.words
        with self.loop(i64(0), self.extents[2]) as row:
            here = b.add(to, b.mul(b.mul(row, self.extents[3]), i64(self.wide)))
            there = b.add(source, b.mul(row, words["gradient 2"]))
            packed = here, i64(self.wide), i64(self.itemsize)
            pixels = there, words["gradient 3"], words["gradient_channel"]
            self.move("gradient_move", packed, pixels, self.extents[3], count)

    def _blocks(self, x: IR, gradient: tuple[IR, IR, IR], sums: IR, count: IR, add: IR) -> None:
        b, words = self.b, self.words
        table = self.address(words["block_table"])
        tap_row, tap = (b.mul(words[f"dilation {axis}"], words[f"strip {axis}"]) for axis in (2, 3))
        row, pixel = (b.mul(words[f"stride {axis}"], words[f"strip {axis}"]) for axis in (2, 3))
        with self.loop(i64(0), words["blocks"]) as block:
            first = b.mul(block, i64(BLOCK))
            code, in_strip, in_sums = (
                self.entry(table, b.add(first, i64(k))) for k in range(BLOCK)
            )
            self.call(
                code,
                depthwise_taps.SIGNATURE,
                *(self.address(b.add(x, in_strip)), tap_row, tap, row, pixel),
                *(self.address(gradient[0]), *gradient[1:], *self.extents[2:]),
                *(self.address(b.add(sums, in_sums)), words["tap_row_sums"], words["tap_sums"]),
                *(count, add),
            )

    def _sum_bias(self, gradient: tuple[IR, IR, IR], sums: IR, count: IR, add: IR) -> None:
        b, words = self.b, self.words
        place, row_pitch, pitch = gradient
        to = self.address(b.add(sums, words["bias_sums"]))
        with self.loop(i64(0), self.extents[2]) as row:
            line = self.address(b.add(place, b.mul(row, row_pitch)))
            later = b.or_(add, b.zext(b.icmp_signed(">", row, i64(0)), i64))
            b.call(self.add_up, [to, line, pitch, self.extents[3], count, later])


class _Second(Strips):
    # An item is a vector of channels.

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "second", WORDS, machine, computed(given), given)
        b, words = self.b, self.words
        shared = b.add(words["workspace"], words["shared_at"])
        table = self.address(words["tap_in_out"])
        with self.loop(self.begin, self.end) as vector:
            channel = b.mul(vector, i64(self.of.lanes))
            self.count = self.minimum(b.sub(words["channels"], channel), i64(self.of.lanes))
            sums = b.add(shared, b.mul(channel, i64(self.itemsize)))
            out = b.add(words["out"], b.mul(channel, words["out_channel"]))
            with self.loop(i64(0), words["taps"]) as tap:
                place = b.add(sums, b.mul(tap, words["tap_sums"]))
                self._write(place, b.add(out, self.entry(table, tap)), words["out_channel"])
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                to = b.add(words["bias"], b.mul(channel, words["bias_channel"]))
                self._write(b.add(sums, words["bias_sums"]), to, words["bias_channel"])
        b.ret_void()

    def _write(self, sums: IR, to: IR, pitch: IR) -> None:
        # All parts of a vector, in their order; then its elements, wherever they go.
        b, kind = self.b, self.of.of(self.element)
        total = self.variable(kind)
        b.store(self.of.load(self.element, self.address(sums)), total)
        with self.loop(i64(1), self.words["parts"]) as part:
            there = self.address(b.add(sums, b.mul(part, self.words["part_sums"])))
            b.store(b.fadd(b.load(total, typ=kind), self.of.load(self.element, there)), total)
        self.of.store(b.load(total, typ=kind), self.address(sums))
        with self.loop(i64(0), self.count) as lane:
            here = self.address(b.add(sums, b.mul(lane, i64(self.itemsize))))
            found = b.load(here, typ=self.element, align=self.itemsize)
            self.write_one(found, self.address(b.add(to, b.mul(lane, pitch))))
