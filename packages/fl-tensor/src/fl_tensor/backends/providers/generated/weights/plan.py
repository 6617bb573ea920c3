"""How the gradient of a convolution's weights is divided: axes, strips, parts, tiles and panels.

Nothing but the problem and the processor decides, so that results do not depend on threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_tensor.backends.providers.generated import tile
from fl_tensor.backends.providers.generated.tile import Cut, Tile
from fl_tensor.backends.providers.generated.weights.words import AXES
from fl_tensor.backends.providers.layout import Layout, Placement, Shape
from fl_tensor.backends.providers.problems import ConvolutionWeights
from fl_tensor.codegen import target
from fl_tensor.dtypes import HALF, DType, bfloat16

#: Pixels of a strip where there are so many: the sums of a tile are written and read again after
#: each, which takes about as long as three pixels.
PIXELS = 512
#: The same where a step is a pair of pixels.
PIXELS_OF_PAIRS = 1024
#: Weights up to which pixels are divided among threads: sums of every part are written and added.
MOST_DIVIDED = 1 << 18
#: Pixels of a part at least, and parts at most.
PART_PIXELS, MOST_PARTS = 1024, 16
#: Channels up to which those of neighbouring taps are joined: more fill a tile of their own.
MOST_JOINED = 8
#: Bytes from pixel to pixel of x below which it is read where it lies: pixels that are further
#: apart, mostly by a power of two, fall into the same few sets of a cache.
MOST_DIRECT = 1024


class Axis(NamedTuple):
    """An axis that is summed over, the batch or one of space. Distances are in bytes.

    size      of the gradient
    extent    of x
    kernel    of the weights, and what belongs to them
    """

    size: int
    extent: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    low: int = 0
    x: int = 0
    gradient: int = 0
    out: int = 0

    @property
    def reach(self) -> int:
        """Places of x that a place of the gradient sees, and those between."""
        return (self.kernel - 1) * self.dilation + 1

    def seen(self, size: int) -> int:
        """Places of x that so many places of the gradient see, and those between."""
        return (size - 1) * self.stride + self.reach

    @property
    def is_plain(self) -> bool:
        """Whether place i of the gradient sees place i of x, and no other."""
        return self.kernel == self.stride == 1 and not self.low and self.size == self.extent

    @property
    def is_inside(self) -> bool:
        """Whether all that is seen is there."""
        return not self.low and self.seen(self.size) <= self.extent

    def rows(self, tap: int) -> tuple[int, int]:
        """Places of the gradient that see what is there through a place of the kernel: the first,
        and one more than the last."""
        before = self.low - tap * self.dilation
        first = max(-(-before // self.stride), 0)
        return first, max((self.extent - 1 + before) // self.stride + 1, first)


def strides(place: Placement) -> Shape:
    """In elements."""
    assert isinstance(place, Layout) and place.strides is not None
    return place.strides


def axes_of(problem: ConvolutionWeights) -> list[Axis]:
    """``AXES`` of them: the batch and those of space, merged where that changes nothing."""
    x, gradient, out = problem.x, problem.gradient, problem.out
    each = list(zip(x.shape, gradient.shape, strides(x), strides(gradient), strict=True))
    item = x.dtype.itemsize
    (extent, size, along_x, along_gradient), _, *space = each
    found = [Axis(size, extent, x=along_x * item, gradient=along_gradient * item)]
    first = len(out.shape) - len(space)
    for i, (extent, size, along_x, along_gradient) in enumerate(space):
        axis = Axis(
            *(size, extent, out.shape[first + i], problem.stride[i], problem.dilation[i]),
            *(problem.padding[i][0], along_x * item, along_gradient * item),
            strides(out)[first + i] * out.dtype.itemsize,
        )
        if axis.kernel == 1 and axis.is_inside:  # places between are never looked at
            axis = axis._replace(extent=axis.size, x=axis.x * axis.stride, stride=1)
        outer = found[-1]
        follows = all(
            a == b * size for a, b in ((outer.x, axis.x), (outer.gradient, axis.gradient))
        )
        if outer.is_plain and axis.is_plain and (follows or outer.size == 1):
            found[-1] = axis._replace(size=outer.size * size, extent=outer.size * size)
        else:
            found.append(axis)
    return [Axis(1, 1)] * (AXES - len(found)) + found


def axis_words(axes: Sequence[Axis], steps: Sequence[int]) -> dict[str, int]:
    """The words of axes along which strips have so many places, but for those of copies."""
    found: dict[str, int] = {}
    for a, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        found |= {
            f"blocks {a}": -(-axis.size // step),
            f"step {a}": step,
            f"size {a}": axis.size,
            f"stride {a}": axis.stride,
            f"low {a}": axis.low,
            f"dilation {a}": axis.dilation,
            f"reach {a}": axis.reach,
            f"extent {a}": axis.extent,
            f"x {a}": axis.x,
            f"gradient {a}": axis.gradient,
        }
    return found


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
    pairs            whether two pixels at a time are multiplied, as pairs of bfloat16
    """

    steps: tuple[int, ...]
    strips: int
    parts: int
    joined: bool
    rows: int
    cut: Cut
    vectors: int
    x_direct: bool
    gradient_direct: bool
    pairs: bool


def plan(problem: ConvolutionWeights, axes: Sequence[Axis], tiles: Tile | None = None) -> Plan:
    """How to divide ``problem``, whose axes are ``axes``, in ``tiles`` if they are given."""
    dtype = problem.x.dtype
    converts = dtype in HALF
    channels = problem.x.shape[1] // problem.groups
    features = problem.gradient.shape[1] // problem.groups
    pairs = in_pairs(problem)
    joined = axes[-1].kernel > 1 and axes[-1].dilation == 1 and channels <= MOST_JOINED
    rows = channels * axes[-1].kernel if joined else channels
    cut, vectors = _tile(rows, features, dtype, tiles)
    steps = steps_of(axes, PIXELS_OF_PAIRS if pairs else PIXELS)
    strips = math.prod(-(-axis.size // step) for axis, step in zip(axes, steps, strict=True))
    pixels = math.prod(axis.size for axis in axes)
    taps = math.prod(axis.kernel for axis in axes)
    few = taps * channels * features <= MOST_DIVIDED
    near = axes[-1].x * axes[-1].stride < MOST_DIRECT
    x_side, gradient_side = (
        count == 1 or strides(place)[1] == 1
        for count, place in ((channels, problem.x), (features, problem.gradient))
    )
    images, planes, lines, line = steps
    even = lines == 1 or axes[2].gradient == axes[3].gradient * line
    return Plan(
        steps,
        strips,
        max(1, min(pixels // PART_PIXELS, MOST_PARTS, strips)) if few else 1,
        joined,
        rows,
        cut,
        vectors,
        x_side and near and not joined and not converts and all(axis.is_inside for axis in axes),
        gradient_side and not converts and even and images == planes == 1,
        pairs,
    )


def in_pairs(problem: ConvolutionWeights) -> bool:
    """Whether pairs of pixels are multiplied: of bfloat16, where the processor does that."""
    is_bfloat = problem.x.dtype is bfloat16 and problem.gradient.dtype is bfloat16
    return is_bfloat and target.host().has_bfloat_products


def tallest(cut: Cut) -> int:
    """Rows of the largest tile."""
    return cut.size + (cut.longer > 0)


def steps_of(axes: Sequence[Axis], pixels: int) -> tuple[int, ...]:
    """How many places along each axis a strip of about so many pixels has: whole axes from the last
    one on while there is room, then equal pieces of the next one."""
    steps, room = [], pixels
    for axis in reversed(axes):
        pieces = -(-axis.size // min(axis.size, max(room, 1)))
        steps.append(-(-axis.size // pieces))
        room = room // axis.size if pieces == 1 else 0
    return tuple(reversed(steps))


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
