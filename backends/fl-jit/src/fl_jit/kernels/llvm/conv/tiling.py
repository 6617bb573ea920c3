"""Tiling of a sum over windows: work items, input tiles and tiles that fit the caches.

Tables of the micro-kernels of tiles follow from it.

           +--------------- input tile: source rows that ``rows`` output rows read
+----------|---------+
| . . . . . . . . . .|     a *line* is (a segment of) an output row; its positions are the
| +--tile--+--tile--+|     rows of tiles. Lines of all rows and images of an item use the same
| . . . . . . . . . .|     block of weights, which stays in L2 beside the input tile
+--------------------+
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.arg_struct import array
from fl_jit.kernels.llvm import microkernel_registry, prefetch_policy
from fl_jit.kernels.llvm.conv.implicit_gemm import ImplicitGemm, Panels
from fl_jit.kernels.llvm.conv.windows import ABSENT, Axis
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.tile import Tile, balanced
from fl_tensor.dtypes import DType

#: Bytes of an L1 way. Rows of A whose distance is a multiple of it map to the same cache set, which
#: holds one line per way.
_WAY = 4096
#: Channels of fewer bytes are too short a run. Those of a row of the kernel are one run then.
_SHORT = 128
_LINE = 64


class Tiling:
    """The tiling of one sum over windows.

    axes     depth, height and width; positions that can be treated as one line are merged
    copied   whether micro-kernels read input tiles, or the source itself
    pixel    bytes from one pixel to the next in the memory that they read
    dense    whether a row of the kernel is one contiguous run
    segment, rows, images, chunk
             part of a line, and number of rows, images and panels of an item
    most     rows of the largest tile
    """

    def __init__(
        self, task: ImplicitGemm, axes: tuple[Axis, Axis, Axis], panels: Panels, workers: int
    ) -> None:
        self.task, self.panels = task, panels
        self.source, self.target, self.batch = task.source, task.target, task.batch
        self.axes = axes
        self.most = panels.most_rows
        self._merge()
        self._choose_a()
        self._shape_items(workers)

    def _merge(self) -> None:
        """Merge pointwise axes with a common stride. Lines become longer, and no input tiles are
        needed."""
        z, y, x = self.axes
        source, result = self.source, self.target
        if not (x.is_pointwise and y.is_pointwise):
            return

        def follow(outer: str, inner: str, count: int) -> bool:
            return all(
                getattr(image, outer) == count * getattr(image, inner) for image in (source, result)
            )

        if y.source == 1 or x.source == 1 or follow("row", "pixel", x.source):
            if x.source == 1 and y.source > 1:
                source = source._replace(pixel=source.row)
                result = result._replace(pixel=result.row)
            n = y.source * x.source
            y, x = ABSENT, Axis(n, n, (0,))
            if z.is_pointwise and (z.source == 1 or follow("plane", "pixel", n)):
                if n == 1 and z.source > 1:
                    source = source._replace(pixel=source.plane)
                    result = result._replace(pixel=result.plane)
                n *= z.source
                z, x = ABSENT, Axis(n, n, (0,))
                if n == 1:
                    source = source._replace(pixel=source.batch)
                    result = result._replace(pixel=result.batch)
                if self.batch > 1 and all(i.batch == n * i.pixel for i in (source, result)):
                    x = Axis(n * self.batch, n * self.batch, (0,))
                    self.batch = 1
        self.source = source._replace(size=(z.source, y.source, x.source))
        self.target = result
        self.axes = z, y, x

    def _choose_a(self) -> None:
        """Set ``copied``, ``pixel`` and ``dense``."""
        task, x = self.task, self.axes[2]
        itemsize = task.dtype.itemsize
        nbytes = task.channels * itemsize
        apart = self.source.pixel * itemsize
        self.dense = nbytes < _SHORT and x.spread == 1 and len(x.kernel) > 1
        self.copied = (
            self.source.dtype is not task.dtype
            or (task.channels > 1 and self.source.channel != 1)
            or (self.dense and not (x.is_inside and apart == nbytes))
            or (x.places > 1 and apart * x.step % _WAY == 0 and self._is_crowded)
        )
        self.pixel = nbytes if self.copied else apart
        if self.copied and nbytes * x.step % _WAY == 0:
            self.pixel += _LINE

    @property
    def _is_crowded(self) -> bool:
        """Whether rows of a tile that compete for a cache set leave B less than half of L1."""
        return self.most > cpu.host().l1 // _WAY // 2

    def _shape_items(self, workers: int) -> None:
        """Choose the positions, rows and images of a work item: as many as fit L2, with their input
        and all that they write.

        With more than one worker there are at least four items for each, so that all end at about
        the same time. Each item reads its weights again. Items have fewer panels if the weights are
        larger than L2 and than all images. Otherwise they have fewer images and rows.
        """
        z, y, x = self.axes
        groups, planes_ = self.task.groups, max(len(z.kernel), 1)
        features = self.task.features * self.task.dtype.itemsize
        kernel = math.prod(len(axis.kernel) for axis in self.axes)
        weights = self.panels.group_bytes(kernel * self.task.channels)
        part = 8 if weights <= cpu.host().l2 // 4 else 2
        room = cpu.host().l2 // part

        def nbytes(places: int, rows: int) -> int:
            read = planes_ * y.reach(rows) * x.reach(places) * abs(self.pixel)
            return max(read + rows * places * features, 1)

        tiles = -(-x.places // self.most)
        per_tile = max(nbytes(2 * self.most, 1) - nbytes(self.most, 1), 1)
        fit = 1 + max(room - nbytes(self.most, 1), 0) // per_tile
        self.segment = min(x.places, self.most * -(-tiles // -(-tiles // min(fit, tiles))))
        segments = -(-x.places // self.segment)
        rows = next((r for r in range(y.places, 1, -1) if nbytes(self.segment, r) <= room), 1)
        self.rows = -(-y.places // -(-y.places // rows))
        self.images = 1
        if self.rows == y.places and segments == 1 and z.places == 1:
            fit = max(room // nbytes(x.places, self.rows), 1)
            self.images = -(-self.batch // -(-self.batch // min(fit, self.batch)))
        wanted = least = 4 * workers if workers > 1 else 1
        if weights > max(cpu.host().l2, self.batch * nbytes(x.places, y.places)):
            wanted *= 2  # items are unequal
            least = -(-wanted // self.panels.number)

        def items() -> int:
            blocks = -(-self.batch // self.images)
            return groups * z.places * segments * blocks * -(-y.places // self.rows)

        while items() < least and self.images > 1:
            self.images = -(-self.images // 2)
        while items() < least and self.rows > 4:
            self.rows = -(-self.rows // 2)
        chunks = min(-(-wanted // items()), self.panels.number)
        self.chunk = -(-self.panels.number // chunks)

    @property
    def inside(self) -> tuple[int, int]:
        """Positions of a line whose windows are inside the source, or padded in the input tile."""
        x = self.axes[2]
        if self.dense or not x.kernel:
            return 0, x.places
        return x.readers(0)[0], x.readers(len(x.kernel) - 1)[1]

    @property
    def prefetches(self) -> bool:
        """Whether micro-kernels prefetch the pixels behind those of their tile."""
        source, x = self.source, self.axes[2]
        apart = source.pixel * source.dtype.itemsize
        nbytes = math.prod(source.size) * self.batch * apart
        is_dense = source.pixel == self.task.source_channels * self.task.groups
        is_contiguous = is_dense and not self.copied and x.step == 1
        return prefetch_policy.conv_prefetches_pixels(cpu.host(), is_contiguous, nbytes)

    @property
    def is_inside(self) -> bool:
        """Whether no window meets padding that micro-kernels skip."""
        *outer, x = self.axes
        whole = all(pair == (0, len(axis.kernel)) for axis in outer for pair in axis.windows())
        return whole and self.inside == (0, x.places)


def kernel_tables(
    dtype: DType, features: int, panels: Panels, rows: Set[int], narrow: bool, prefetch: bool
) -> tuple[Any, Any]:
    """The tables for whole panels and for the last panel: addresses of micro-kernels by number of
    rows. Numbers of rows that do not occur have 0."""
    lanes = target.host().lanes(dtype.itemsize)
    last = features - (panels.number - 1) * panels.width
    full = MicroKernel(dtype, Tile(1, panels.width // lanes), narrow=narrow, prefetch=prefetch)
    tail = full._replace(tile=Tile(1, panels.tail // lanes), masked=last < panels.tail)
    if last == panels.width:
        tail = full
    if panels.number == 1:
        full = tail
    by_rows = [
        {n: kernel._replace(tile=Tile(n, kernel.tile.vectors)) for n in rows}
        for kernel in (full, tail)
    ]
    found = microkernel_registry.addresses([kernel for each in by_rows for kernel in each.values()])
    places = range(panels.most_rows + 1)
    of_full, of_tail = (
        array(found[each[n]] if n in rows else 0 for n in places) for each in by_rows
    )
    return of_full, of_tail


def tile_rows(cut: Tiling) -> set[int]:
    """The numbers of rows of tiles, and of parts of tiles at the ends of lines."""
    x = cut.axes[2]
    inside = cut.inside
    seen = [] if cut.dense else [x.readers(t) for t in range(len(x.kernel))]
    found = set()
    for start in range(0, x.places, cut.segment):
        parts = balanced(min(cut.segment, x.places - start), cut.most)
        found |= {parts.size + more for more in (0, 1) if not more or parts.longer}
        if inside[0] <= start and start + cut.segment <= inside[1]:
            continue
        end = start
        for number in range(parts.parts):
            low, end = end, end + parts.size + ((number + 1) % parts.parts < parts.longer)
            if low < inside[0] or end > inside[1]:
                found |= {min(end, last) - max(low, first) for first, last in seen}
    return {count for count in found if count > 0}
