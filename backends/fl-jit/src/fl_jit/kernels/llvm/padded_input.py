"""Padded input tiles: copies of the positions of an image that some windows read, with zeros where
these are outside the image.

    positions of the image, from ``first`` on          the tile
          0 0 0 0 0 0                                   | p p p p p p |
          0 + - - - -      image: zero outside     ->   | p x x x x x |   x copied, p zero
          0 |                                           | p x x x x x |

In a tile every window of the kernel is complete. A micro-kernel therefore reads the tile itself as
a matrix of a GEMM, without an im2col copy. All loop nests of convolutions copy their tiles by these
functions. They emit the loops, and call a function of ``strided_copy.py`` for the pixels of a row.
Addresses are integers, distances are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from fl_jit.kernels.codegen.vectors import IR, i1, i64
from fl_jit.kernels.llvm.loop_nest import FunctionBuilder, zero
from fl_jit.kernels.llvm.strided_copy import SIGNATURE

_FALSE = i1(0)


class TileAxis(NamedTuple):
    """An axis of a tile.

    first   position of the image that the first position of the tile holds, negative in padding
    count   positions of the tile
    extent  positions of the image
    image   distance of adjacent positions of the image
    tile    distance of adjacent positions of the tile
    step    positions of the image from one position of the tile to the next, on outer axes
    """

    first: IR
    count: IR
    extent: IR
    image: IR
    tile: IR
    step: IR = i64(1)


class Row(NamedTuple):
    """A row of a tile.

    tile       its address in the tile
    image      address of its position ``low`` in the image
    low, high  the positions that are inside the image, of ``end``
    """

    tile: IR
    image: IR
    low: IR
    high: IR
    end: IR


class PixelCopy(NamedTuple):
    """The copy of the pixels of a row.

    move    address of a function of ``strided_copy.py``
    tile    distances of pixels and channels in the tile
    image   distances of pixels and channels in the image
    dense   whether pixels are contiguous on both sides, so that a row is one copy
    """

    move: IR
    tile: tuple[IR, IR]
    image: tuple[IR, IR]
    dense: IR = _FALSE


@contextmanager
def rows(nest: FunctionBuilder, axes: Sequence[TileAxis], image: IR, tile: IR) -> Iterator[Row]:
    """Emit loops over the rows of a tile, which lie along the last axis. The body emits the copy of
    a row. Rows outside the image have no positions inside."""
    b, (*outer, inner) = nest.b, axes
    left = nest.minimum(nest.maximum(b.neg(inner.first), i64(0)), inner.count)
    right = nest.maximum(nest.minimum(b.sub(inner.extent, inner.first), inner.count), left)
    image = nest.sum(image, (b.add(inner.first, left), inner.image))
    with ExitStack() as loops:
        inside = i1(1)
        for axis in outer:
            number = loops.enter_context(nest.loop(i64(0), axis.count))
            index = nest.sum(axis.first, (number, axis.step))
            inside = b.and_(inside, b.icmp_unsigned("<", index, axis.extent))
            image = nest.sum(image, (index, axis.image))
            tile = nest.sum(tile, (number, axis.tile))
        low, high = (b.select(inside, place, inner.count) for place in (left, right))
        yield Row(tile, image, low, high, inner.count)


def copy_row(
    nest: FunctionBuilder, row: Row, copy: PixelCopy, channels: IR, clear: IR = _FALSE
) -> None:
    """Copy the pixels of a row, of ``channels`` each, with zeros around them. ``clear``: with zeros
    behind the channels of each pixel, too."""
    b = nest.b
    fill(nest, row._replace(low=b.select(clear, row.high, row.low)), copy.tile[0])
    to = nest.sum(row.tile, (row.low, copy.tile[0]))
    copy_pixels(nest, to, row.image, copy, b.sub(row.high, row.low), channels)


def fill(nest: FunctionBuilder, row: Row, pixel: IR) -> None:
    """Write zeros outside ``low`` to ``high`` of a row. ``pixel`` is the distance of pixels."""
    b = nest.b
    for first, last in ((i64(0), row.low), (row.high, row.end)):
        start = nest.address(nest.sum(row.tile, (first, pixel)))
        zero(b, start, b.mul(b.sub(last, first), pixel))


def copy_pixels(
    nest: FunctionBuilder, to: IR, source: IR, copy: PixelCopy, pixels: IR, channels: IR
) -> None:
    """Copy pixels of ``channels`` channels each."""
    b = nest.b
    rows = b.select(copy.dense, i64(1), pixels)
    columns = b.select(copy.dense, b.mul(channels, pixels), channels)
    sides = nest.address(to), *copy.tile, nest.address(source), *copy.image
    nest.call(copy.move, SIGNATURE, *sides, rows, columns)
