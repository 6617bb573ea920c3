"""The implicit GEMM of a convolution: sums over windows, with strided operands.

A convolution and the gradient of its data are both an ``ImplicitGemm``. For every feature it sums
products of image channels and weights over windows (``windows.py``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import tile
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor import dtypes
from fl_tensor.dtypes import DType


def strided(given: Placement) -> Layout:
    """The operand as a strided layout with a supported floating dtype. Raises UnsupportedError."""
    if not isinstance(given, Layout) or given.strides is None:
        raise UnsupportedError(
            f"{given} has no strides: give it some (row_major, channels_last, or those of a "
            f"Reorder); only weights can be packed, or left to the kernel"
        )
    if given.dtype not in (dtypes.float32, dtypes.float64, *dtypes.HALF):
        raise UnsupportedError(f"{given.dtype}: expected a floating dtype")
    return given


#: From this many products a sum on, writing C takes little of the time.
_LONG = 256


class Image(NamedTuple):
    """A strided image: the sizes of its three spatial axes, and strides in elements."""

    dtype: DType
    size: tuple[int, int, int]
    batch: int
    channel: int
    plane: int
    row: int
    pixel: int

    @classmethod
    def of(cls, layout: Layout) -> Image:
        """The image of a layout (batch, channels, *spatial) with up to three spatial axes."""
        assert layout.strides is not None
        batch, channel, *moves = layout.strides
        absent = 3 - len(moves)
        plane, row, pixel = (*[0] * absent, *moves)
        depth, height, width = (*[1] * absent, *layout.shape[2:])
        return cls(layout.dtype, (depth, height, width), batch, channel, plane, row, pixel)


class Weights(NamedTuple):
    """Strides of the weights in elements: groups, reduced channels, output features and the three
    kernel axes."""

    dtype: DType
    group: int
    channel: int
    feature: int
    kernel: tuple[int, int, int]

    @classmethod
    def of(cls, w: Layout, groups: int, rank: int, transposed: bool = False) -> Weights:
        """The strides of weights (features, channels / groups, *kernel) with ``rank`` axes, or of
        weights with one more axis for groups in front. ``transposed``: the features are the reduced
        axis."""
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
    """The computation of a convolution or its dgrad.

    ``channels`` and ``features`` are those of one group. ``windows`` has one sum for each entry,
    along depth, height and width. With ``pairs``, channels are pairs of bfloat16
    (``microkernel.py``). A source whose pairs are already contiguous has dtype float32, which has
    as many bytes. ``odd``: the last pair is one channel and a zero.
    """

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
        """Channels of the source in memory."""
        in_pairs = self.pairs and self.source.dtype is dtypes.float32
        return 2 * self.channels - self.odd if self.pairs and not in_pairs else self.channels

    @property
    def dtype(self) -> DType:
        """The dtype of accumulators, input tiles and panels."""
        wide = dtypes.float64 in (self.source.dtype, self.weights.dtype, self.target.dtype)
        return dtypes.float64 if wide else dtypes.float32

    @property
    def results(self) -> int:
        """Elements of the result."""
        places = sum(math.prod(axis.places for axis in axes) for axes in self.windows)
        return self.batch * self.groups * self.features * places

    @property
    def products(self) -> int:
        """Products per result element, at most."""
        kernel_sizes = (math.prod(len(axis.kernel) for axis in axes) for axes in self.windows)
        return self.channels * max(kernel_sizes, default=0)

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        per_place = 2 * self.batch * self.groups * self.channels * self.features
        return per_place * sum(
            math.prod(axis.places * len(axis.kernel) for axis in axes) for axes in self.windows
        )


def paired(task: ImplicitGemm) -> ImplicitGemm:
    """The same sum over pairs of bfloat16, if the processor has an instruction for them. Input
    tiles pair the channels, unless these are contiguous and even in number."""
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
    """The layout of packed weights.

    Features are divided into ``number`` panels of ``width``. The last one is only ``tail`` wide.
    Both are whole vectors. There is a row of a panel for each sum over windows, group, panel,
    kernel position and channel. Rows are padded with zeros behind the last feature.
    """

    dtype: DType
    width: int
    tail: int
    number: int
    #: Rows of the largest tile computed with them.
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
        """Panels for lines of ``line`` positions, each a sum of at most ``products`` products.
        ``tiles`` overrides the choice of the tile size."""
        machine = target.host()
        lanes = machine.lanes(dtype.itemsize)
        rows, vectors = tiles or _best(machine, features / lanes, line, products)
        vectors = max(min(vectors, -(-features // lanes)), 1)
        number = max(-(-features // (vectors * lanes)), 1)
        last = features - (number - 1) * vectors * lanes
        return cls(dtype, vectors * lanes, -(-last // lanes) * lanes, number, rows)

    def group_bytes(self, rows: int) -> int:
        """Bytes of all panels of a group, with ``rows`` rows each."""
        return rows * ((self.number - 1) * self.width + self.tail) * self.dtype.itemsize


def _best(machine: Target, vectors: float, line: int, products: int) -> Tile:
    """The tile for lines of ``line`` positions and ``vectors`` vectors of features.

    A line that fits one tall tile gets that. Longer lines are divided into wide tiles, if these
    multiply about as much per load. Wide tiles write, and prefetch into the cache, twice as much at
    a time. Long sums write little. They get a width that makes all panels equal, if there is one,
    which halves the number of micro-kernels. Where L3 is private and does not keep up with the FMA
    units, all tiles are tall. Wide tiles take 21 bytes of B a cycle there, and are 1 to 4 % slower.
    """
    tall = tile.best(machine)
    wide = next(
        (
            t
            for rows in range(tall.rows, 0, -1)
            if tile.fits(t := Tile(rows, 2 * tall.vectors), machine)
        ),
        tall,
    )
    starves = cpu.host().l3 > 0 and not cpu.host().l3_feeds_fma
    policy = not starves and wide.rows * wide.vectors * 5 >= tall.rows * tall.vectors * 4
    if not policy or line <= tall.rows or vectors < wide.vectors:
        return tall
    whole = math.ceil(vectors)
    panels = -(-whole // wide.vectors)
    equal = tile.of_product(cpu.host(), line, whole // panels)
    return equal if products >= _LONG and equal.vectors * panels == whole else wide
