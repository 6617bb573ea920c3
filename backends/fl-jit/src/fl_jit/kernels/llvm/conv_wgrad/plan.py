"""Plans of a wgrad: its division into input tiles, parts, tiles and panels.

A plan depends only on the descriptor and the processor. Results therefore do not depend on the
number of threads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.layout import Shape
from fl_jit.kernels.llvm import prefetch_policy, tile
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, Range, steps_of, strides
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.tile import Cut, Tile
from fl_tensor.dtypes import HALF, DType, bfloat16

#: Pixels of an input tile. After each one the accumulators of a tile are written and read again,
#: which takes about as long as three pixels. Twice as many if a step is a pair of pixels.
PIXELS = 512
#: Pixels of an input tile if L1 has room for so many of a panel and of a tile. A micro-kernel whose
#: steps take 14 cycles waits for L2 if it reads all from there. Two input tiles are excluded: one
#: lower than the kernel, whose lines of x would be copied too often, and one with less than three
#: quarters of these pixels.
PIXELS_NEAR = 256
#: Pixels of an input tile of a 1 x 1 kernel. It computes as little as possible with each input
#: element, and L2 must have room for this input tile and for the next one.
PIXELS_OF_ONE_PLACE = 256
#: Weights up to which pixels are divided among threads. Accumulators of every part are written and
#: added.
MOST_DIVIDED = 1 << 18
#: Minimum pixels of a part, and maximum number of parts. Accumulators of each part are written,
#: read and added, mostly beyond L2, which takes about as long as 40 pixels. The number of parts is
#: a power of two, which threads share equally.
PART_PIXELS, MOST_PARTS = 3072, 16
#: Channels up to which those of adjacent positions are joined: more fill a tile of their own.
MOST_JOINED = 8
#: Bytes from pixel to pixel below which x, and the gradient, are read without a copy. Pixels that
#: are further apart, mostly by a power of two, map to the same few cache sets. If the next input
#: tile is prefetched into L2, the limit is the second one.
MOST_DIRECT, MOST_DIRECT_PREFETCHED = 1024, 2048
#: Number of tiles from which on the gradient is always copied, since so many read the copy.
MANY_TILES = 32
#: Cost of a copy of an input tile of the gradient, relative to one micro-kernel call on it.
COPY = 0.5


class Plan(NamedTuple):
    """The division of a descriptor.

    steps            positions along each axis of an input tile
    input_tiles      number of input tiles
    parts            number of parts, each of which is a number of input tiles
    joined           whether channels of the positions of a row count as channels
    rows             rows of all tiles: channels, of all positions of a row if joined
    cut              of rows into tiles
    vectors          of features in a panel
    x_direct         whether x is read without a copy
    gradient_direct  whether the gradient is
    prefetch         whether the next input tile is prefetched while one is computed
    pairs            whether two pixels at a time are multiplied, as pairs of bfloat16
    ranges           of the pixels of a line: all, and those that some kernel positions read, if it
                     is worth it to skip the others; the gradient is copied for each range
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
        """Steps of a micro-kernel along ``pixels`` pixels of a line."""
        return -(-pixels // 2) if self.pairs else pixels

    def range_of(self, axis: Axis, position: int) -> Range:
        """The pixels of a line that are multiplied for a kernel position along it."""
        seen = axis.read_through(position)
        return seen if seen in self.ranges else self.ranges[0]


def plan(descriptor: ConvWeightGrad, axes: Sequence[Axis], tiles: Tile | None = None) -> Plan:
    """The plan of a descriptor with these axes. ``tiles`` overrides the choice of the tile size."""
    dtype = descriptor.x.dtype
    converts = dtype in HALF
    channels = descriptor.x.shape[1] // descriptor.groups
    features = descriptor.gradient.shape[1] // descriptor.groups
    pairs = in_pairs(descriptor)
    joined = axes[-1].kernel > 1 and axes[-1].dilation == 1 and channels <= MOST_JOINED
    rows = channels * axes[-1].kernel if joined else channels
    cut, vectors = _tile(rows, features, dtype, tiles)
    pixels = math.prod(axis.size for axis in axes)
    positions = math.prod(axis.kernel for axis in axes)
    few = positions * channels * features <= MOST_DIVIDED
    parts = max(1, min(pixels // PART_PIXELS, MOST_PARTS)) if few else 1
    parts = 1 << (parts.bit_length() - 1)
    steps = _steps(axes, computed(dtype), Tile(tallest(cut), vectors), 1 + pairs, parts)
    input_tiles = math.prod(-(-axis.size // step) for axis, step in zip(axes, steps, strict=True))
    prefetch = input_tiles > 1 and _prefetches(descriptor, axes, steps)
    most_direct = MOST_DIRECT_PREFETCHED if prefetch else MOST_DIRECT
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
    # Steps of an input tile. It has ``factor`` times as many pixels as one without pairs.
    if all(axis.kernel == 1 for axis in axes):
        return steps_of(axes, factor * PIXELS_OF_ONE_PLACE, parts)
    near, lanes = steps_of(axes, factor * PIXELS_NEAR, parts), target.host().lanes(dtype.itemsize)
    nbytes = (of.vectors + -(-of.rows // lanes)) * lanes * dtype.itemsize
    fits = PIXELS_NEAR * nbytes <= cpu.host().l1 and near[2] >= axes[2].reach
    if fits and 4 * math.prod(near) >= 3 * factor * PIXELS_NEAR:
        return near
    return steps_of(axes, factor * PIXELS, parts)


def _prefetches(descriptor: ConvWeightGrad, axes: Sequence[Axis], steps: Sequence[int]) -> bool:
    # Whether micro-kernels prefetch the next input tile.
    item = descriptor.x.dtype.itemsize
    channels, features = (place.shape[1] * item for place in (descriptor.x, descriptor.gradient))
    lies = axes[-1].x == channels and axes[-1].gradient == features
    for outer, inner in itertools.pairwise(axes):
        lies = lies and (outer.extent == 1 or outer.x == inner.x * inner.extent)
        lies = lies and (outer.size == 1 or outer.gradient == inner.gradient * inner.size)
    seen = (min(a.read_extent(step), a.extent) for a, step in zip(axes, steps, strict=True))
    nbytes = math.prod(seen) * channels + math.prod(steps) * features
    return prefetch_policy.wgrad_prefetches_tile(cpu.host(), lies, nbytes)


def _ranges(axes: Sequence[Axis], tiles: int, direct: bool) -> list[Range]:
    # The ranges of lines that kernel positions read, if they save more than copies of the gradient
    # cost, in units of micro-kernel calls on whole lines. ``direct``: without ranges there would be
    # no copy.
    *others, line = axes
    whole = 0, line.size
    seen = [line.read_through(position) for position in range(line.kernel)]
    parts = list(dict.fromkeys(each for each in seen if each != whole))
    unseen = sum(line.size - (end - first) for first, end in seen) / line.size
    saved = unseen * math.prod(axis.kernel for axis in others) * tiles
    return parts if saved > COPY * (len(parts) + direct) else []


def in_pairs(descriptor: ConvWeightGrad) -> bool:
    """Whether pairs of bfloat16 pixels are multiplied, which needs an instruction of the
    processor."""
    is_bfloat = descriptor.x.dtype is bfloat16 and descriptor.gradient.dtype is bfloat16
    return is_bfloat and target.host().has_bfloat_products


def tallest(cut: Cut) -> int:
    """Rows of the largest tile."""
    return cut.size + (cut.longer > 0)


def _tile(rows: int, features: int, dtype: DType, tiles: Tile | None) -> tuple[Cut, int]:
    # Rows in equal tiles, and vectors of features in equal panels, as many in a tile as registers
    # hold. Tiles are higher if there is but one vector, wider if there are few rows.
    machine = target.host()
    best, needed = tile.best(machine), -(-features // machine.lanes(dtype.itemsize))
    if tiles is not None and needed > 1:
        return tile.balanced(rows, tiles.rows), min(tiles.vectors, needed)
    cut = tile.balanced(rows, best.rows * best.vectors if needed == 1 else best.rows)
    vectors = min(best.vectors, needed)
    while vectors < 4 and tile.fits(Tile(tallest(cut), vectors + 1), machine):
        vectors += 1
    return cut, -(-needed // -(-needed // vectors))
