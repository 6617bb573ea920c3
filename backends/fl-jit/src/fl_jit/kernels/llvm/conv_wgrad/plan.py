"""How the gradient of a convolution's weights is divided: strips, parts, tiles and panels.

Nothing but the problem and the processor decides, so that results do not depend on threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels.codegen import target
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.layout import Shape
from fl_jit.kernels.llvm import caches, tile
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, Range, steps_of, strides
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.tile import Cut, Tile
from fl_tensor.dtypes import HALF, DType, bfloat16

#: Pixels of a strip where there are so many: the sums of a tile are written and read again after
#: each, which takes about as long as three pixels. Twice as many where a step is a pair of pixels.
PIXELS = 512
#: The same where L1 has room for so many of a panel and of a tile: a micro-kernel whose steps take
#: 14 cycles waits for L2 if it reads all from there. Not where a strip is lower than the kernel,
#: whose lines of x would be copied too often, or has less than three quarters of that.
PIXELS_NEAR = 256
#: The same where the kernel is one place: as little as may be is computed with what is read, and L2
#: shall have room for this strip and for the next one.
PIXELS_OF_ONE_PLACE = 256
#: Weights up to which pixels are divided among threads: sums of every part are written and added.
MOST_DIVIDED = 1 << 18
#: Pixels of a part at least, as sums of each are written, read and added, mostly beyond L2, which
#: takes about as long as 40 pixels; and parts at most: a power of two, which threads share equally.
PART_PIXELS, MOST_PARTS = 3072, 16
#: Channels up to which those of neighbouring taps are joined: more fill a tile of their own.
MOST_JOINED = 8
#: Bytes from pixel to pixel below which x, and the gradient, are read where they lie: pixels that
#: are further apart, mostly by a power of two, fall into the same few sets of a cache. From L2,
#: which the next strip is brought to, they may be read nevertheless.
MOST_DIRECT, MOST_DIRECT_AHEAD = 1024, 2048
#: Bytes of a group's channels up to which a copy of a pixel asks for those of the next group.
MOST_PREFETCHED = 256
#: Tiles from which on the gradient is copied nevertheless: so many read the copy.
MANY_TILES = 32
#: What a copy of a strip of the gradient costs, as a part of what a micro-kernel does with it.
COPY = 0.5


class Plan(NamedTuple):
    """How a problem is divided.

    steps            places along each axis of a strip
    strips, parts    of all pixels, of which a part is a number of strips
    joined           whether channels of the taps of a row count as channels
    rows             what tiles are of: channels, of all taps of a row if joined
    cut              of rows into tiles
    vectors          of features in a panel
    x_direct         whether x is read where it lies
    gradient_direct  whether the gradient is
    ahead            whether the next strip is asked for while one is computed
    pairs            whether two pixels at a time are multiplied, as pairs of bfloat16
    ranges           of the pixels of a line: all, and those that some places of the kernel see, if
                     it pays to leave out the others: of each range the gradient is copied
    """

    steps: tuple[int, ...]
    input_tiles: int
    parts: int
    joined: bool
    rows: int
    cut: Cut
    vectors: int
    x_direct: bool
    gradient_direct: bool
    prefetch: bool
    pairs: bool
    ranges: tuple[Range, ...]

    def turns(self, pixels: int) -> int:
        """Steps of a micro-kernel along so many pixels of a line."""
        return -(-pixels // 2) if self.pairs else pixels

    def range_of(self, axis: Axis, tap: int) -> Range:
        """The pixels of a line that are multiplied for a place of the kernel along it."""
        seen = axis.observed_through(tap)
        return seen if seen in self.ranges else self.ranges[0]


def plan(descriptor: ConvWeightGrad, axes: Sequence[Axis], tiles: Tile | None = None) -> Plan:
    """How to divide ``problem``, whose axes are ``axes``, in ``tiles`` if they are given."""
    dtype = descriptor.x.dtype
    converts = dtype in HALF
    channels = descriptor.x.shape[1] // descriptor.groups
    features = descriptor.gradient.shape[1] // descriptor.groups
    pairs = in_pairs(descriptor)
    joined = axes[-1].kernel > 1 and axes[-1].dilation == 1 and channels <= MOST_JOINED
    rows = channels * axes[-1].kernel if joined else channels
    cut, vectors = _tile(rows, features, dtype, tiles)
    pixels = math.prod(axis.size for axis in axes)
    taps = math.prod(axis.kernel for axis in axes)
    few = taps * channels * features <= MOST_DIVIDED
    parts = max(1, min(pixels // PART_PIXELS, MOST_PARTS)) if few else 1
    parts = 1 << (parts.bit_length() - 1)
    steps = _steps(axes, computed(dtype), Tile(tallest(cut), vectors), 1 + pairs, parts)
    input_tiles = math.prod(-(-axis.size // step) for axis, step in zip(axes, steps, strict=True))
    prefetch = input_tiles > 1 and _looks_ahead(descriptor, axes, steps)
    most_direct = MOST_DIRECT_AHEAD if prefetch else MOST_DIRECT
    x_side, gradient_side = (
        (count == 1 or strides(place)[1] == 1) and distance < most_direct and not converts
        for count, place, distance in (
            (channels, descriptor.x, axes[-1].x * axes[-1].stride),
            (features, descriptor.gradient, axes[-1].gradient),
        )
    )
    images, planes, lines, line = steps
    even = lines == 1 or axes[2].gradient == axes[3].gradient * line
    direct = gradient_side and even and images == planes == 1 and cut.parts < MANY_TILES
    ranges = _ranges(axes, cut.parts, direct) if line == axes[3].size and not joined else ()
    return Plan(
        steps,
        input_tiles,
        min(parts, input_tiles),
        joined,
        rows,
        cut,
        vectors,
        x_side and not joined and all(axis.is_inside for axis in axes),
        direct and not ranges,
        prefetch,
        pairs,
        ((0, axes[3].size), *ranges),
    )


def _steps(axes: Sequence[Axis], dtype: DType, of: Tile, factor: int, parts: int) -> Shape:
    # Of a strip, whose pixels are ``factor`` times as many as those of numbers.
    if all(axis.kernel == 1 for axis in axes):
        return steps_of(axes, factor * PIXELS_OF_ONE_PLACE, parts)
    near, lanes = steps_of(axes, factor * PIXELS_NEAR, parts), target.host().lanes(dtype.itemsize)
    nbytes = (of.vectors + -(-of.rows // lanes)) * lanes * dtype.itemsize
    fits = PIXELS_NEAR * nbytes <= caches.level(1) and near[2] >= axes[2].reach
    if fits and 4 * math.prod(near) >= 3 * factor * PIXELS_NEAR:
        return near
    return steps_of(axes, factor * PIXELS, parts)


def _looks_ahead(descriptor: ConvWeightGrad, axes: Sequence[Axis], steps: Sequence[int]) -> bool:
    # Where what strips see lies in one piece, and L2 holds that of this one and of the next.
    item = descriptor.x.dtype.itemsize
    channels, features = (place.shape[1] * item for place in (descriptor.x, descriptor.gradient))
    lies = axes[-1].x == channels and axes[-1].gradient == features
    for outer, inner in itertools.pairwise(axes):
        lies = lies and (outer.extent == 1 or outer.x == inner.x * inner.extent)
        lies = lies and (outer.size == 1 or outer.gradient == inner.gradient * inner.size)
    seen = (min(a.seen(step), a.extent) for a, step in zip(axes, steps, strict=True))
    nbytes = math.prod(seen) * channels + math.prod(steps) * features
    return lies and 2 * nbytes <= caches.level(2)


def _ranges(axes: Sequence[Axis], tiles: int, direct: bool) -> list[Range]:
    # The parts of lines that places of the kernel see, if that saves more than copies of the
    # gradient cost, all in micro-kernels of whole lines; ``direct``: else there would be none.
    *others, along = axes
    whole = 0, along.size
    seen = [along.observed_through(tap) for tap in range(along.kernel)]
    parts = list(dict.fromkeys(each for each in seen if each != whole))
    unseen = sum(along.size - (end - first) for first, end in seen) / along.size
    saved = unseen * math.prod(axis.kernel for axis in others) * tiles
    return parts if saved > COPY * (len(parts) + direct) else []


def in_pairs(descriptor: ConvWeightGrad) -> bool:
    """Whether pairs of pixels are multiplied: of bfloat16, where the processor does that."""
    is_bfloat = descriptor.x.dtype is bfloat16 and descriptor.gradient.dtype is bfloat16
    return is_bfloat and target.host().has_bfloat_products


def tallest(cut: Cut) -> int:
    """Rows of the largest tile."""
    return cut.size + (cut.longer > 0)


def _tile(rows: int, features: int, dtype: DType, tiles: Tile | None) -> tuple[Cut, int]:
    # Rows, in equal tiles, by vectors of features, in equal panels, of which a tile has as many as
    # registers hold: higher ones where there is but one vector, wider ones where rows are few.
    machine = target.host()
    best, needed = tile.best(machine), -(-features // machine.lanes(dtype.itemsize))
    if tiles is not None and needed > 1:
        return tile.balanced(rows, tiles.rows), min(tiles.vectors, needed)
    cut = tile.balanced(rows, best.rows * best.vectors if needed == 1 else best.rows)
    vectors = min(best.vectors, needed)
    while vectors < 4 and tile.fits(Tile(tallest(cut), vectors + 1), machine):
        vectors += 1
    return cut, -(-needed // -(-needed // vectors))
