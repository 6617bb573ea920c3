"""One sum over windows, cut into items, strips and tiles: the words of ``convolution_nest.PASS``.

           +--------------- strip: rows of the source that ``rows`` rows of the result need
+----------|---------+
| . . . . . . . . . .|     a *line* is (a segment of) a row of the result; its places are the
| +--tile--+--tile--+|     rows of tiles. Lines of all rows and images of an item use the same
| . . . . . . . . . .|     block of weights, which stays in the second-level cache beside the
+--------------------+     strip
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fl_tensor.backends.providers.generated import (
    caches,
    library,
    planes,
    strips,
)
from fl_tensor.backends.providers.generated.convolution_nest import PASS
from fl_tensor.backends.providers.generated.microkernel import MicroKernel
from fl_tensor.backends.providers.generated.sums import Panels, Sum
from fl_tensor.backends.providers.generated.tile import Tile, balanced
from fl_tensor.backends.providers.generated.windows import Axis
from fl_tensor.backends.providers.generated.words import address, array
from fl_tensor.codegen import target

#: Rows of B that are multiplied before the next tile: a panel of so many stays in the cache.
DEPTH = 640
#: Rows of a panel of weights that are packed at a time.
_PACK_ROWS = 256
#: Rows of A that are a multiple of so many bytes apart compete for places in the first-level cache.
_ALIAS = 1024
_LINE = 64
_PAGE = 4096


class Taps(NamedTuple):
    """``count`` runs of ``k`` neighbours in A, at ``offsets`` in bytes; so many of them at once."""

    offsets: tuple[int, ...]
    k: int
    block: int


class Pass:
    """The words of one sum over windows, and what machine code finds by them.

    items         how many there are
    pack_items    of the packing of its weights
    worker_bytes  that each worker needs
    """

    def __init__(
        self, task: Sum, axes: tuple[Axis, Axis, Axis], panels: Panels, start: int, workers: int
    ) -> None:
        self.task, self.panels = task, panels
        self.source, self.target, self.batch = task.source, task.target, task.batch
        self.axes = axes
        self._merge()
        z, y, x = self.axes
        self.copied = self._must_copy()
        self.pixel = self._pixel_pitch()
        self._shape_items(workers)
        words = {
            **self._items(),
            **self._source(),
            **self._taps(),
            **self._weights(start),
            **self._tiles(),
            **self._result(),
        }
        self.items = words["items"]
        self.pack_items = words["pack_items"]
        self.block = PASS.block(**words)

    # what lies together

    def _merge(self) -> None:
        """Axes along which nothing but the place itself is seen become one, as far as places lie
        equally far apart: then lines are longer, and there are no strips."""
        z, y, x = self.axes
        source, result = self.source, self.target
        if not (x.is_pointwise and y.is_pointwise):
            return

        def follow(outer: str, inner: str, count: int) -> bool:
            return all(
                getattr(image, outer) == count * getattr(image, inner) for image in (source, result)
            )

        absent = Axis(1, 1, (0,))
        if y.source == 1 or x.source == 1 or follow("row", "pixel", x.source):
            if x.source == 1 and y.source > 1:
                source = source._replace(pixel=source.row)
                result = result._replace(pixel=result.row)
            n = y.source * x.source
            y, x = absent, Axis(n, n, (0,))
            if z.is_pointwise and (z.source == 1 or follow("plane", "pixel", n)):
                if n == 1 and z.source > 1:
                    source = source._replace(pixel=source.plane)
                    result = result._replace(pixel=result.plane)
                n *= z.source
                z, x = absent, Axis(n, n, (0,))
                if self.batch > 1 and all(i.batch == n * i.pixel for i in (source, result)):
                    x = Axis(n * self.batch, n * self.batch, (0,))
                    self.batch = 1
        self.source = source._replace(size=(z.source, y.source, x.source))
        self.target = result
        self.axes = z, y, x

    def _must_copy(self) -> bool:
        if not all(axis.is_inside for axis in self.axes):
            return True
        if self.source.dtype is not self.task.dtype:
            return True
        return self.task.channels > 1 and self.source.channel != 1

    def _pixel_pitch(self) -> int:
        """Bytes from a pixel to the next in A. Decides, too, that pixels be copied apart."""
        itemsize = self.task.dtype.itemsize
        x = self.axes[2]
        nbytes = self.task.channels * itemsize
        apart = nbytes if self.copied else self.source.pixel * itemsize
        if x.places > 1 and apart * x.step % _ALIAS == 0:
            self.copied = True
            return nbytes + _LINE
        return nbytes if self.copied else apart

    # items

    def _shape_items(self, workers: int) -> None:
        """How many rows of how many images an item has."""
        z, y, x = self.axes
        self.most = self.panels.most_rows
        room = caches.level(2) // 2
        pixels = x.reach(1) + (self.most - 1) * x.step
        planes_ = max(len(z.kernel), 1)
        tall = planes_ * y.reach(1) * self.pixel
        # A segment of a row: all of it, if a strip of one row of results fits.
        per_tile = self.most * x.step * tall
        tiles = max((room - x.reach(1) * tall) // max(per_tile, 1), 1)
        self.segment = min(x.places, tiles * self.most)
        pixels = x.reach(self.segment)

        def nbytes(rows: int) -> int:
            return planes_ * y.reach(rows) * pixels * self.pixel

        rows = y.places
        others = self.task.groups * z.places * self.batch * -(-x.places // self.segment)
        while rows > 1 and nbytes(rows) > room:
            rows -= 1
        self.rows = -(-y.places // -(-y.places // rows))
        self.images = 1
        if self.rows == y.places and self.segment == x.places and z.places == 1:
            fit = max(room // max(nbytes(self.rows), 1), 1)
            self.images = min(self.batch, fit)
        # Enough items that all workers end at about the same time.
        wanted = 1 if workers == 1 else 4 * workers

        def count() -> int:
            blocks = -(-self.batch // self.images)
            return others // self.batch * blocks * -(-y.places // self.rows)

        while count() < wanted and self.images > 1:
            self.images = -(-self.images // 2)
        while count() < wanted and self.rows > 4 and self.axes[1].places > 1:
            self.rows = -(-self.rows // 2)
        while count() < wanted and self.segment > 4 * self.most:
            self.segment = -(-self.segment // 2 // self.most) * self.most
            others = self.task.groups * z.places * self.batch * -(-x.places // self.segment)
        chunks = min(-(-wanted // max(count(), 1)), self.panels.number)
        self.chunk = -(-self.panels.number // chunks)
        self.images = -(-self.batch // -(-self.batch // self.images))

    def _items(self) -> dict[str, int]:
        z, y, x = self.axes
        counts = {
            "chunks": -(-self.panels.number // self.chunk),
            "groups": self.task.groups,
            "image_blocks": -(-self.batch // self.images),
            "depth": z.places,
            "strips": -(-y.places // self.rows),
            "segments": -(-x.places // self.segment),
        }
        sizes = {
            "chunk": self.chunk,
            "panels_count": self.panels.number,
            "images": self.images,
            "batch": self.batch,
            "rows": self.rows,
            "height": y.places,
            "segment": self.segment,
            "width": x.places,
        }
        return {"items": math.prod(counts.values()), **counts, **sizes}

    # A

    def _source(self) -> dict[str, int]:
        z, y, x = self.axes
        source, step = self.source, self.source.dtype.itemsize
        pitches = {
            "source_group": self.task.channels * source.channel * step,
            "source_image": source.batch * step,
            "source_plane": source.plane * step,
            "source_row": source.row * step,
            "source_pixel": source.pixel * step,
        }
        moves = {
            f"{word}_{name}": value
            for name, axis in zip("zyx", (z, y, x), strict=True)
            for word, value in (("origin", axis.origin), ("step", axis.step))
        }
        self.row_pitch = x.reach(self.segment) * self.pixel
        self.plane_pitch = y.reach(self.rows) * self.row_pitch
        image = _up(max(len(z.kernel), 1) * self.plane_pitch)
        self._strip = None
        if self.copied:
            # A strip begins one line further than the last: images do not compete for places.
            image += _LINE if self.images > 1 else 0
            self._strip = strips.block(
                self.source.size,
                self.task.channels,
                (source.plane, source.row, source.pixel, source.channel),
                (source.dtype, self.task.dtype),
                (self.plane_pitch, self.row_pitch, self.pixel),
                z.spread,
            )
            a = {"a_image": image, "a_row": y.step * self.row_pitch}
        else:
            self.row_pitch = pitches["source_row"]
            self.plane_pitch = pitches["source_plane"] * z.spread
            a = {"a_image": pitches["source_image"], "a_row": y.step * self.row_pitch}
        self.strip_bytes = self.images * image if self.copied else 0
        return {
            **pitches,
            **moves,
            **a,
            "copied": int(self.copied),
            "strip": address(self._strip) if self.copied else 0,
            "strip_image": image,
            "planes": max(len(z.kernel), 1),
            "reach_y": y.reach(1),
            "reach_x": x.reach(1),
            "a_pixel": x.step * self.pixel,
        }

    def _taps(self) -> dict[str, int]:
        z, y, x = self.axes
        itemsize = self.task.dtype.itemsize
        k, across = self.task.channels, len(x.kernel)
        if x.spread == 1 and self.pixel == k * itemsize:  # a row of the kernel in one run
            k, across = k * across, min(across, 1)
        parts = _parts(k)
        k //= parts
        offsets = [
            i * self.plane_pitch
            + j * y.spread * self.row_pitch
            + p * x.spread * self.pixel
            + part * k * itemsize
            for i in range(len(z.kernel))
            for j in range(len(y.kernel))
            for p in range(across)
            for part in range(parts)
        ]
        self._offsets = array(offsets)
        blocks = -(-len(offsets) // max(DEPTH // max(k, 1), 1)) or 1
        return {
            "taps": len(offsets),
            "tap_block": max(-(-len(offsets) // blocks), 1),
            "tap_offsets": address(self._offsets),
            "k": k,
        }

    # B

    def _weights(self, start: int) -> dict[str, int]:
        weights, panels = self.task.weights, self.panels
        step, itemsize = weights.dtype.itemsize, panels.dtype.itemsize
        places = [
            sum(n * move for n, move in zip(place, weights.kernel, strict=True)) * step
            for place in (
                (i, j, p)
                for i in self.axes[0].kernel
                for j in self.axes[1].kernel
                for p in self.axes[2].kernel
            )
        ]
        self._places = array(places)
        channels = self.task.channels
        rows = min(channels, _PACK_ROWS)
        parts = -(-channels // rows)
        channel = 1 if channels == 1 else weights.channel
        which = planes.kind(panels.width, 1, channel, weights.feature)
        count = len(places)
        group = panels.group_bytes(count * channels)
        self.panels_bytes = self.task.groups * group
        return {
            "features": self.task.features,
            "panel_width": panels.width,
            "itemsize": itemsize,
            "panels_start": start,
            "panels_group": group,
            "panels_panel": count * channels * panels.width * itemsize,
            "panels_row": panels.width * itemsize,
            "tail_row": panels.tail * itemsize,
            "pack_items": self.task.groups * panels.number * count * parts,
            "places": count,
            "place_offsets": address(self._places),
            "channels": channels,
            "pack_rows": rows,
            "pack_parts": parts,
            "weights_group": weights.group * step,
            "weights_row": channel * step,
            "weights_column": weights.feature * step,
            "pack_move": planes.address(which, weights.dtype, panels.dtype),
        }

    # tiles and C

    def _tiles(self) -> dict[str, int]:
        """Tables of micro-kernels by their rows."""
        dtype, panels = self.task.dtype, self.panels
        lanes = target.host().lanes(dtype.itemsize)
        x = self.axes[2]
        lines = {min(self.segment, x.places), x.places % self.segment or self.segment}
        rows = set()
        for line in lines:
            cut = balanced(line, self.most)
            rows |= {cut.size + more for more in (0, 1) if not more or cut.longer}
        last = self.task.features - (panels.number - 1) * panels.width
        kinds = {
            "full": MicroKernel(dtype, Tile(1, panels.width // lanes)),
            "tail": MicroKernel(dtype, Tile(1, panels.tail // lanes), masked=last < panels.tail),
        }
        if last == panels.width:
            kinds["tail"] = kinds["full"]
        if panels.number == 1:
            kinds["full"] = kinds["tail"]
        self._tables = {}
        for name, kernel in kinds.items():
            table = [0] * (self.most + 1)
            for count in rows:
                each = kernel._replace(tile=Tile(count, kernel.tile.vectors))
                table[count] = library.address(each)
            self._tables[name] = array(table)
        return {
            "most_rows": self.most,
            "full_table": address(self._tables["full"]),
            "tail_table": address(self._tables["tail"]),
        }

    def _result(self) -> dict[str, int]:
        z, y, x = self.axes
        image, features = self.target, self.task.features
        step, itemsize = image.dtype.itemsize, self.task.dtype.itemsize
        moves = {
            "target_group": features * image.channel * step,
            "target_image": image.batch * step,
            "target_plane": z.every * image.plane * step,
            "target_row": y.every * image.row * step,
            "target_pixel": x.every * image.pixel * step,
            "target_channel": image.channel * step,
        }
        start = z.first * image.plane + y.first * image.row + x.first * image.pixel
        side_by_side = image.channel == 1 or features == 1
        indirect = image.dtype is not self.task.dtype or not side_by_side
        width = self.panels.width * itemsize
        pixel = min(self.chunk, self.panels.number) * width
        row = pixel * self.segment
        c = (pixel, row, row * self.rows)
        if not indirect:
            c = moves["target_pixel"], moves["target_row"], moves["target_image"]
        c_start = _up(self.strip_bytes, _LINE)
        self.worker_bytes = c_start + (self.images * c[2] if indirect else 0)
        channel, along = image.channel, x.every * image.pixel
        swapped = not side_by_side and along == 1
        which = (
            planes.kind(channel, along, 1, pixel // itemsize)
            if swapped
            else planes.kind(along, 1 if features == 1 else channel, pixel // itemsize, 1)
        )
        return {
            "target_start": start * step,
            **moves,
            "indirect": int(indirect),
            "c_start": c_start,
            "c_image": c[2],
            "c_row": c[1],
            "c_pixel": c[0],
            "c_panel": width,
            "out_move": planes.address(which, self.task.dtype, image.dtype),
            "out_swapped": int(swapped),
        }


def _parts(k: int) -> int:
    """A run of more than ``DEPTH`` in equal parts of at most that, where there are such."""
    least = -(-k // DEPTH)
    found = (parts for parts in range(least, 4 * least) if k % parts == 0)
    return next(found, 1) if k > DEPTH else 1


def _up(nbytes: int, to: int = _LINE) -> int:
    return -(-nbytes // to) * to
