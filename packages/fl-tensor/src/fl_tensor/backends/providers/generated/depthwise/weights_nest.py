"""The loop nest of gradients of depthwise weights and of their biases, as machine code.

    first:   for part of the pixels, for some vectors of channels        threads share these
               for strip of pixels                                       of neighbouring rows
                 for vector of channels
                   copy the strip of x, with zeros around the image
                   for image, for plane of the strip, for block of places of the kernel
                     sums[places, channels] += x[pixels + places, channels] * gradient[pixels]

    second:  for vector of channels: add the parts in their order, write them as the weights lie

A vector of channels holds whole groups, and has a vector of sums for every turn (``groups.py``). In
the copy pixels are a vector apart, however many channels the image has: so a strip stays in the
nearest cache, where pixels of the image would fall into the same few sets. The innermost line is
``taps.py``.
"""

from __future__ import annotations

from llvmlite import ir

from fl_tensor.backends.providers.generated.depthwise import copies
from fl_tensor.backends.providers.generated.depthwise import taps as depthwise_taps
from fl_tensor.backends.providers.generated.nest import computed
from fl_tensor.backends.providers.generated.weights import sweeps
from fl_tensor.backends.providers.generated.weights.strips import Strips
from fl_tensor.backends.providers.generated.weights.words import AXES, axes
from fl_tensor.backends.providers.generated.words import zero
from fl_tensor.codegen import target
from fl_tensor.codegen.target import Target
from fl_tensor.codegen.vectors import IR, i64
from fl_tensor.dtypes import DType

WORDS = (
    *("x", "gradient", "bias", "out", "workspace"),
    *("splits", "shared_at", "parts", "strips", "vectors"),
    # groups: all, those of a vector; channels and features of one; vectors of the gradient
    *("groups", "held", "channels", "features", "results"),
    *axes(),
    # distances
    *("x_channel", "gradient_channel", "bias_channel"),
    *("out_group", "out_feature", "out_channel"),
    *("worker_bytes", "packed_at", "packed_pixel"),
    *("part_sums", "tap_row_sums", "tap_sums", "turn_sums", "bias_sums"),
    # blocks of places of the kernel, and all places
    *("blocks", "block_table", "taps"),
    # places of the kernel in the result: planes, rows and columns
    *("out_planes", "out_rows", "out_columns", "out_plane", "out_row", "out_column"),
    # flags
    *("has_bias", "x_direct", "gradient_direct", "dense"),
    # functions of ``planes.py``, of ``copies.py`` and of ``sweeps.py``
    *("x_move", "gradient_move", "out_move", "copy_plane", "column_sums"),
)
#: Numbers of an entry of the table of blocks: the code, where its places begin in the strip of x,
#: at which row, and among the sums.
BLOCK = 4
#: Rows of a copy, in which all that is seen is there.
_ALL = i64(1 << 62)


def assembly(given: DType, result: DType, machine: Target) -> str:
    """The module of ``first`` and ``second``, for images of ``given``, weights of ``result``."""
    module = ir.Module("depthwise_weights")
    module.triple = target.triple()
    _First(module, machine, given)
    _Second(module, machine, result)
    return str(module)


class _First(Strips):
    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "first", WORDS, machine, computed(given), given)
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
        first = b.mul(vector, words["held"])
        self.groups = self.minimum(b.sub(words["groups"], first), words["held"])
        count = b.mul(self.groups, words["channels"])
        self.features = b.mul(self.groups, words["features"])
        channel = b.mul(first, words["channels"])
        image = self.sum(words["x"], (channel, words["x_channel"]))
        x_direct = b.icmp_signed("!=", words["x_direct"], i64(0))
        with self.when(b.not_(x_direct)):
            self._copy_x(image, count)
        before = [
            b.sub(b.mul(start, words[f"stride {axis}"]), words[f"low {axis}"])
            for axis, start in enumerate(self.starts)
        ]
        seen = self.sum(image, *((place, words[f"x {axis}"]) for axis, place in enumerate(before)))
        source = b.select(x_direct, seen, self.strip_at)
        self.top = b.select(x_direct, before[2], i64(0))
        self.extent = b.select(x_direct, words["extent 2"], _ALL)
        gradient = self.sum(
            words["gradient"],
            (b.mul(first, words["features"]), words["gradient_channel"]),
            *((start, words[f"gradient {axis}"]) for axis, start in enumerate(self.starts)),
        )
        sums = b.add(self.sums, b.mul(vector, i64(self.wide)))
        of_bias = self.sum(
            self.sums, words["bias_sums"], (b.mul(vector, words["results"]), i64(self.wide))
        )
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
            self._blocks(x, (here, row, pixel), sums, add)
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                self._sum_bias((here, row, pixel), of_bias, add)

    def _copy_x(self, image: IR, count: IR) -> None:
        # To the strip, so many channels.
        b, words = self.b, self.words
        near = b.icmp_signed("==", words["x_channel"], i64(self.given.itemsize))
        with b.if_else(near) as (planes, rows):
            with planes:
                self._copy_planes(image, self.strip_at, count)
            with rows:
                partial = b.icmp_signed("<", count, i64(self.of.lanes))
                with self.when(partial):
                    zero(b, self.address(self.strip_at), words["packed_at"])
                self.copy_x(
                    image,
                    self.strip_at,
                    lambda to, source, *row: self.copy_channels(to, source, count, *row),
                )

    def _copy_planes(self, image: IR, to: IR, count: IR) -> None:
        # As ``copy_x``, of so many channels that lie side by side.
        b, words = self.b, self.words
        seen, low, high, first = [], [], [], []
        for axis in range(AXES):
            stride = words[f"stride {axis}"]
            more = b.mul(b.sub(self.extents[axis], i64(1)), stride)
            size = b.add(more, words[f"reach {axis}"])
            before = b.sub(b.mul(self.starts[axis], stride), words[f"low {axis}"])
            start = self.minimum(self.maximum(b.neg(before), i64(0)), size)
            end = self.minimum(b.sub(words[f"extent {axis}"], before), size)
            seen.append(size)
            first.append(b.add(before, start))
            low.append(start)
            high.append(self.maximum(end, start))
        line = words["strip 2"]
        lines = b.sub(high[2], low[2])
        with self.loop(i64(0), seen[0]) as n, self.loop(i64(0), seen[1]) as depth:
            plane = self.sum(to, (n, words["strip 0"]), (depth, words["strip 1"]))
            inside = b.and_(b.icmp_signed(">=", depth, low[1]), b.icmp_signed("<", depth, high[1]))
            above, inner = (
                b.select(inside, each, other)
                for each, other in ((low[2], seen[2]), (lines, i64(0)))
            )
            below = b.sub(b.sub(seen[2], above), inner)
            zero(b, self.address(plane), b.mul(above, line))
            source = self.sum(
                image,
                (b.add(self.starts[0], n), words["x 0"]),
                (b.add(first[1], b.sub(depth, low[1])), words["x 1"]),
                (first[2], words["x 2"]),
                (first[3], words["x 3"]),
            )
            here = b.add(plane, b.mul(above, line))
            middle = b.sub(high[3], low[3])
            self.call(
                words["copy_plane"],
                copies.SIGNATURE,
                *(self.address(here), line, self.address(source), words["x 2"], words["x 3"]),
                *(inner, low[3], middle, b.sub(seen[3], high[3]), count),
            )
            zero(b, self.address(b.add(here, b.mul(inner, line))), b.mul(below, line))

    def _copy_gradient(self, to: IR, source: IR) -> None:
        b, words = self.b, self.words
        with self.loop(i64(0), self.extents[2]) as row:
            here = b.add(to, b.mul(b.mul(row, self.extents[3]), words["packed_pixel"]))
            there = b.add(source, b.mul(row, words["gradient 2"]))
            packed = here, words["packed_pixel"], i64(self.itemsize)
            pixels = there, words["gradient 3"], words["gradient_channel"]
            self.move("gradient_move", packed, pixels, self.extents[3], self.features)

    def _blocks(self, x: IR, gradient: tuple[IR, IR, IR], sums: IR, add: IR) -> None:
        b, words = self.b, self.words
        table = self.address(words["block_table"])
        tap_row, row = (b.mul(words[f"{by} 2"], words["strip 2"]) for by in ("dilation", "stride"))
        with self.loop(i64(0), words["blocks"]) as block:
            first = b.mul(block, i64(BLOCK))
            code, in_strip, down, in_sums = (
                self.entry(table, b.add(first, i64(k))) for k in range(BLOCK)
            )
            self.call(
                code,
                depthwise_taps.SIGNATURE,
                *(self.address(b.add(x, in_strip)), tap_row, row, words["strip 3"]),
                *(b.add(self.top, down), self.extent),
                *(self.address(gradient[0]), *gradient[1:], *self.extents[2:]),
                self.address(b.add(sums, in_sums)),
                *(words[f"{name}_sums"] for name in ("tap_row", "tap", "turn")),
                *(self.groups, add),
            )

    def _sum_bias(self, gradient: tuple[IR, IR, IR], sums: IR, add: IR) -> None:
        b, words = self.b, self.words
        place, row_pitch, pitch = gradient
        with self.loop(i64(0), self.extents[2]) as row, self.loop(i64(0), words["results"]) as v:
            within = b.mul(v, i64(self.wide))
            to = self.address(b.add(sums, within))
            line = self.address(self.sum(place, (row, row_pitch), within))
            later = b.or_(add, b.zext(b.icmp_signed(">", row, i64(0)), i64))
            left = b.sub(self.features, b.mul(v, i64(self.of.lanes)))
            sides = to, line, pitch, self.extents[3], left, later
            self.call(words["column_sums"], sweeps.COLUMN_SUMS, *sides)


class _Second(Strips):
    # An item is a vector of channels.

    def __init__(self, module: IR, machine: Target, given: DType) -> None:
        super().__init__(module, "second", WORDS, machine, computed(given), given)
        b, words = self.b, self.words
        shared = b.add(words["workspace"], words["shared_at"])
        channels, features = words["channels"], words["features"]
        with self.loop(self.begin, self.end) as vector:
            first = b.mul(vector, words["held"])
            count = self.minimum(b.sub(words["groups"], first), words["held"])
            sums = b.add(shared, b.mul(vector, i64(self.wide)))
            out = b.add(words["out"], b.mul(first, words["out_group"]))
            with self.loop(i64(0), words["taps"]) as tap, self.loop(i64(0), features) as turn:
                self._add(self.sum(sums, (tap, words["tap_sums"]), (turn, words["turn_sums"])))
            with self.loop(i64(0), channels) as channel, self.loop(i64(0), features) as turn:
                feature = b.srem(b.add(channel, turn), features)
                self._put(
                    self.sum(sums, (turn, words["turn_sums"]), (channel, i64(self.itemsize))),
                    self.sum(out, (feature, words["out_feature"]), (channel, words["out_channel"])),
                    count,
                )
            with self.when(b.icmp_signed("!=", words["has_bias"], i64(0))):
                place = self.sum(
                    *(shared, words["bias_sums"]), (b.mul(vector, words["results"]), i64(self.wide))
                )
                with self.loop(i64(0), words["results"]) as result:
                    self._add(b.add(place, b.mul(result, i64(self.wide))))
                to = self.sum(words["bias"], (b.mul(first, features), words["bias_channel"]))
                with self.loop(i64(0), b.mul(count, features)) as lane:
                    here = self.address(b.add(place, b.mul(lane, i64(self.itemsize))))
                    found = b.load(here, typ=self.element, align=self.itemsize)
                    there = self.sum(to, (lane, words["bias_channel"]))
                    self.write_one(found, self.address(there))
        b.ret_void()

    def _add(self, sums: IR) -> None:
        # All parts of a vector, in their order.
        b, kind = self.b, self.of.of(self.element)
        total = self.variable(kind)
        b.store(self.of.load(self.element, self.address(sums)), total)
        with self.loop(i64(1), self.words["parts"]) as part:
            there = self.address(b.add(sums, b.mul(part, self.words["part_sums"])))
            b.store(b.fadd(b.load(total, typ=kind), self.of.load(self.element, there)), total)
        self.of.store(b.load(total, typ=kind), self.address(sums))

    def _put(self, sums: IR, to: IR, groups: IR) -> None:
        # What a channel has for a feature, of so many groups, at all places of the kernel.
        b, words = self.b, self.words
        with (
            self.loop(i64(0), words["out_planes"]) as plane,
            self.loop(i64(0), words["out_rows"]) as row,
        ):
            before = b.mul(b.add(b.mul(plane, words["out_rows"]), row), words["out_columns"])
            source = self.sum(sums, (before, words["tap_sums"]))
            there = self.sum(to, (plane, words["out_plane"]), (row, words["out_row"]))
            self.move(
                "out_move",
                (there, words["out_group"], words["out_column"]),
                (source, b.mul(words["channels"], i64(self.itemsize)), words["tap_sums"]),
                groups,
                words["out_columns"],
            )
