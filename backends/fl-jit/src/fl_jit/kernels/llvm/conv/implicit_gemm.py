"""What is computed of an image: sums over windows, with operands by strides.

Both a convolution and the gradient of its data are a ``Sum``: of products of an image's channels
with weights, over windows (``windows.py``), for every feature.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import amx, caches, tile
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


def strided(given: Placement) -> Layout:
    """An operand by strides, of a dtype that is computed with. Raises UnsupportedError."""
    if not isinstance(given, Layout) or given.strides is None:
        raise UnsupportedError(
            f"{given} has no strides: give it some (row_major, channels_last, or those of a "
            f"Reorder); only weights can be packed, or left to the kernel"
        )
    if given.dtype not in (dtypes.float32, dtypes.float64, *dtypes.HALF):
        raise UnsupportedError(f"{given.dtype}: expected a floating dtype")
    return given


#: Products of a sum that takes far longer to add up than to write.
_LONG = 256


class Image(NamedTuple):
    """An image by strides, in elements: the sizes of its spatial axes (three) and how they move."""

    dtype: DType
    size: tuple[int, int, int]
    batch: int
    channel: int
    plane: int
    row: int
    pixel: int

    @classmethod
    def of(cls, layout: Layout) -> Image:
        """(batch, channels, *spatial) with up to three spatial axes."""
        assert layout.strides is not None
        batch, channel, *moves = layout.strides
        absent = 3 - len(moves)
        plane, row, pixel = (*[0] * absent, *moves)
        depth, height, width = (*[1] * absent, *layout.shape[2:])
        return cls(layout.dtype, (depth, height, width), batch, channel, plane, row, pixel)


class Weights(NamedTuple):
    """Weights by strides, in elements: groups, the channels that are summed over, the features that
    result, and the three axes of the kernel."""

    dtype: DType
    group: int
    channel: int
    feature: int
    kernel: tuple[int, int, int]

    @classmethod
    def of(cls, w: Layout, groups: int, rank: int, transposed: bool = False) -> Weights:
        """Of (features, channels / groups, *kernel), of so many axes, or with an axis of groups
        before them. ``transposed``: it is the features that are summed over."""
        assert w.strides is not None
        strides = w.strides
        if len(w.shape) == rank:
            strides = (strides[0] * (w.shape[0] // groups), *strides)
        group, feature, channel, *kernel = strides
        depth, height, width = (*[0] * (3 - len(kernel)), *kernel)
        if transposed:
            channel, feature = feature, channel
        return cls(w.dtype, group, channel, feature, (depth, height, width))


class ImplicitGemm(NamedTuple):
    """What is computed. ``channels`` and ``features`` are those of a group; ``windows``: one sum
    for each, along depth, height and width. With ``pairs`` channels are pairs of bfloat16
    (``microkernel.py``); a source that has them as they should lie is said to be of float32, with
    as many bytes. ``odd``: the last pair is of one channel and a zero."""

    source: Image
    target: Image
    weights: Weights
    batch: int
    groups: int
    channels: int
    features: int
    windows: tuple[tuple[Axis, Axis, Axis], ...]
    pairs: bool = False
    odd: bool = False

    @property
    def source_channels(self) -> int:
        """Channels of the source as it lies."""
        in_pairs = self.pairs and self.source.dtype is dtypes.float32
        return 2 * self.channels - self.odd if self.pairs and not in_pairs else self.channels

    @property
    def dtype(self) -> DType:
        """Of the sums, of strips and of panels."""
        wide = dtypes.float64 in (self.source.dtype, self.weights.dtype, self.target.dtype)
        return dtypes.float64 if wide else dtypes.float32

    @property
    def results(self) -> int:
        """Elements of the result."""
        places = sum(math.prod(axis.places for axis in axes) for axes in self.windows)
        return self.batch * self.groups * self.features * places

    @property
    def products(self) -> int:
        """Products that a result is the sum of, at most."""
        taps = (math.prod(len(axis.kernel) for axis in axes) for axes in self.windows)
        return self.channels * max(taps, default=0)

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        per_place = 2 * self.batch * self.groups * self.channels * self.features
        return per_place * sum(
            math.prod(axis.places * len(axis.kernel) for axis in axes) for axes in self.windows
        )


def paired(task: ImplicitGemm) -> ImplicitGemm:
    """The same sum of pairs of bfloat16, where the processor has an instruction for them. Pairs are
    made in strips where channels do not lie side by side, an even number of them."""
    source, weights = task.source, task.weights
    is_bfloat = {source.dtype, weights.dtype} == {dtypes.bfloat16}
    if not is_bfloat or not target.host().has_bfloat_products:
        return task
    moves = source.batch, source.plane, source.row, source.pixel
    odd = task.channels % 2 == 1
    if not odd and source.channel == 1 and not any(move % 2 for move in moves):
        batch, plane, row, pixel = (move // 2 for move in moves)
        source = Image(dtypes.float32, source.size, batch, 1, plane, row, pixel)
    channels = -(-task.channels // 2)
    return task._replace(source=source, channels=channels, pairs=True, odd=odd)


class Panels(NamedTuple):
    """How weights are packed. Features are cut into ``number`` panels of ``width``, the last one
    only ``tail`` wide, both whole vectors. For each sum over windows, group, panel, place of the
    kernel and channel there is a row of so many numbers, zeros where there are no features."""

    dtype: DType
    width: int
    tail: int
    number: int
    #: Rows of the tiles that are computed with them.
    most_rows: int

    @classmethod
    def of(
        cls,
        dtype: DType,
        features: int,
        line: int,
        products: int,
        pairs: bool = False,
        tiles: Tile | None = None,
    ) -> Panels:
        """Panels for lines of so many places, each the sum of so many products at most, computed in
        ``tiles``, or by rule."""
        machine = target.host()
        lanes = machine.lanes(dtype.itemsize)
        rows, vectors = tiles or _best(machine, features / lanes, line, products)
        if pairs and amx.is_usable(machine) and not tiles:
            rows, vectors = amx.BEST
        vectors = max(min(vectors, -(-features // lanes)), 1)
        number = max(-(-features // (vectors * lanes)), 1)
        last = features - (number - 1) * vectors * lanes
        return cls(dtype, vectors * lanes, -(-last // lanes) * lanes, number, rows)

    def group_bytes(self, rows: int) -> int:
        """Bytes of all panels of a group, with so many rows each."""
        return rows * ((self.number - 1) * self.width + self.tail) * self.dtype.itemsize


def _best(machine: Target, vectors: float, line: int, products: int) -> Tile:
    """The tile for lines of so many places, and so many vectors of features. A line that one tall
    tile holds gets that; longer ones are cut into wide tiles, where these multiply about as much
    per load: they write, and what is written arrives in the cache, twice as much at a time. Long
    sums, which write little, have a width that makes all panels equal, if there is one: that is
    half of the micro-kernels. Where L3 is near and does not feed tiles, all are tall: wide ones,
    which take 21 bytes of B a cycle there, are 1 to 4 % slower."""
    tall = tile.best(machine)
    wide = next(
        (
            t
            for rows in range(tall.rows, 0, -1)
            if tile.fits(t := Tile(rows, 2 * tall.vectors), machine)
        ),
        tall,
    )
    starves = caches.private_l3_bytes() > 0 and not tile.l3_feeds_fma()
    policy = not starves and wide.rows * wide.vectors * 5 >= tall.rows * tall.vectors * 4
    if not policy or line <= tall.rows or vectors < wide.vectors:
        return tall
    whole = math.ceil(vectors)
    panels = -(-whole // wide.vectors)
    equal = tile.of_product(machine, line, whole // panels)
    return equal if products >= _LONG and equal.vectors * panels == whole else wide
