"""Kernel arguments of one sum over windows: ``kernel_args.PASS``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.conv import tiling
from fl_jit.kernels.llvm.conv.implicit_gemm import ImplicitGemm, Panels
from fl_jit.kernels.llvm.conv.kernel_args import PASS
from fl_jit.kernels.llvm.conv.panels import Packing, Places
from fl_jit.kernels.llvm.conv.tiling import Tiling
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.launcher import aligned
from fl_tensor.dtypes import bfloat16, int16

_LINE = 64


def depth() -> int:
    """Rows of B that are multiplied before the next tile. A panel of so many rows stays in L2,
    beside an input tile. The more rows, the less often accumulators are added to C."""
    return min(max(640 * cpu.host().l2 >> 20, 640), 1280)


class Pass(Tiling):
    """Kernel arguments of one sum over windows, and the tables that they point to.

    items          number of work items
    worker_bytes   scratch memory of each worker
    kernel_places  kernel positions, in the order of the rows of a panel
    """

    def __init__(
        self, task: ImplicitGemm, axes: tuple[Axis, Axis, Axis], panels: Panels, workers: int
    ) -> None:
        super().__init__(task, axes, panels, workers)
        self._tables: list[Any] = []  # tables that fields point to
        self._fields = {
            **self._items(),
            **self._source(),
            **self._positions(),
            **self._tiles(),
            **self._result(),
        }
        self.items = self._fields["items"]

    def block(self, packing: Packing) -> Any:
        """The kernel arguments, with the fields about weights."""
        return array(PASS.values(self._fields | packing.fields))

    def _items(self) -> dict[str, int]:
        z, y, x = self.axes
        chunks = -(-self.panels.number // self.chunk)
        counts = {
            "groups": self.task.groups,
            "image_blocks": -(-self.batch // self.images),
            "depth": z.places,
            "tile_rows": -(-y.places // self.rows),
            "segments": -(-x.places // self.segment),
        }
        sizes = {
            "chunk": self.chunk,
            "images": self.images,
            "batch": self.batch,
            "rows": self.rows,
            "height": y.places,
            "segment": self.segment,
            "width": x.places,
        }
        return {"items": chunks * math.prod(counts.values()), **counts, **sizes}

    # A

    def _source(self) -> dict[str, int]:
        z, y, x = self.axes
        source, step = self.source, self.source.dtype.itemsize
        pitches = {
            "source_group": self.task.source_channels * source.channel * step,
            "source_image": source.batch * step,
            "source_plane": source.plane * step,
            "source_row": source.row * step,
            "source_pixel": source.pixel * step,
        }
        moves = {
            f"{field}_{name}": value
            for name, axis in zip("zyx", (z, y, x), strict=True)
            for field, value in (("origin", axis.origin), ("step", axis.step))
        }
        self.row_pitch = x.reach(self.segment) * self.pixel
        self.plane_pitch = y.reach(self.rows) * self.row_pitch
        image = aligned(max(len(z.kernel), 1) * self.plane_pitch)
        tile: dict[str, int] = {}
        if self.copied:
            # An additional cache line, so that images do not map to the same cache sets.
            image += _LINE if self.images > 1 else 0
            tile = self._input_tile()
            a_image = image
        else:
            self.row_pitch = pitches["source_row"]
            self.plane_pitch = pitches["source_plane"] * z.spread
            a_image = pitches["source_image"]
        self.height_pitch = y.spread * self.row_pitch
        self.tile_bytes = self.images * image if self.copied else 0
        return {
            **pitches,
            **moves,
            **tile,
            "copied": int(self.copied),
            "tile_image": image,
            "planes": max(len(z.kernel), 1),
            "reach_y": y.reach(1),
            "reach_x": x.reach(1),
            "a_image": a_image,
            "a_row": y.step * self.row_pitch,
            "a_pixel": x.step * self.pixel,
        }

    def _input_tile(self) -> dict[str, int]:
        source, channels = self.source, self.task.source_channels
        # Pairs are copied as raw bits.
        raw = self.task.pairs and source.dtype is bfloat16
        given, own = (int16, int16) if raw else (source.dtype, self.task.dtype)
        depth, height, width = source.size
        channel = 1 if channels == 1 else source.channel
        dense = channel == 1 and source.pixel == channels
        which = strided_copy.kind(0, 1, source.pixel, channel)
        return {
            "source_depth": depth,
            "source_height": height,
            "source_width": width,
            "source_channels": channels,
            "source_channel": channel * source.dtype.itemsize,
            "step_plane": self.axes[0].spread,
            "tile_plane": self.plane_pitch,
            "tile_row": self.row_pitch,
            "tile_pixel": self.pixel,
            "tile_itemsize": own.itemsize,
            "dense": int(dense and self.pixel == channels * own.itemsize),
            "clear": int(self.task.odd),
            "tile_move": strided_copy.address(which, given, own),
        }

    def _positions(self) -> dict[str, int]:
        z, y, x = self.axes
        k, across = self.task.channels, len(x.kernel)
        if self.dense:
            k, across = k * across, 1
        parts = _parts(k)
        k //= parts
        step = k * self.task.dtype.itemsize
        offsets = [
            p * x.spread * self.pixel + i * self.plane_pitch + j * self.height_pitch + part * step
            for p in range(across)
            for i in range(len(z.kernel))
            for j in range(len(y.kernel))
            for part in range(parts)
        ]
        blocks = -(-len(offsets) // max(depth() // max(k, 1), 1)) or 1
        self.whole = blocks == 1 and offsets and self.is_inside
        met = {
            "position_offsets": offsets,
            **_pair("x", [(0, x.places)] if self.dense else map(x.readers, range(across))),
            **_pair("y", ((low * parts, high * parts) for low, high in y.windows())),
            **_pair("z", z.windows()),
        }
        tables = {name: array(values) for name, values in met.items()}
        self._tables += tables.values()
        return {
            "positions": len(offsets),
            "position_block": max(-(-len(offsets) // blocks), 1),
            "k": k,
            "positions_x": across,
            "positions_z": len(z.kernel),
            "positions_y": len(y.kernel) * parts,
            "inside_from": self.inside[0],
            "inside_to": self.inside[1],
            **{name: address(table) for name, table in tables.items()},
        }

    @property
    def narrow(self) -> bool:
        """Whether micro-kernels write bfloat16. This needs complete sums in one call."""
        image = self.target
        narrow = self.task.pairs and image.dtype is bfloat16
        side_by_side = image.channel == 1 or self.task.features == 1
        return bool(narrow and side_by_side and self.whole)

    # B

    @property
    def kernel_places(self) -> Places:
        """Kernel positions, in the order of the rows of a panel."""
        z, y, x = (axis.kernel for axis in self.axes)
        if self.dense:
            return tuple(itertools.product(z, y, x))
        return tuple((i, j, p) for p, i, j in itertools.product(x, z, y))

    # tiles and C

    def _tiles(self) -> dict[str, int]:
        """Tables of micro-kernels by number of rows."""
        dtype = bfloat16 if self.task.pairs else self.task.dtype
        rows, features = tiling.tile_rows(self), self.task.features
        tables = tiling.kernel_tables(
            dtype, features, self.panels, rows, self.narrow, self.prefetches
        )
        full, tail = tables
        self._tables += tables
        return {
            "most_rows": self.most,
            "full_table": address(full),
            "tail_table": address(tail),
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
        indirect = not self.narrow and (image.dtype is not self.task.dtype or not side_by_side)
        width = self.panels.width * (step if self.narrow else itemsize)
        pixel = min(self.chunk, self.panels.number) * width
        row = pixel * self.segment
        c = (pixel, row, row * self.rows)
        if not indirect:
            c = moves["target_pixel"], moves["target_row"], moves["target_image"]
        c_start = aligned(self.tile_bytes)
        self.worker_bytes = c_start + (self.images * c[2] if indirect else 0)
        channel, pixels = image.channel, x.every * image.pixel
        swapped = not side_by_side and pixels == 1
        which = (
            strided_copy.kind(channel, pixels, 1, pixel // itemsize)
            if swapped
            else strided_copy.kind(pixels, 1 if features == 1 else channel, pixel // itemsize, 1)
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
            "out_move": strided_copy.address(which, self.task.dtype, image.dtype),
            "out_swapped": int(swapped),
        }


def _pair(name: str, ranges: Iterable[tuple[int, int]]) -> dict[str, list[int]]:
    found = list(ranges)
    return {f"{name}_from": [low for low, _ in found], f"{name}_to": [high for _, high in found]}


def _parts(k: int) -> int:
    """The number of equal parts of at most ``depth`` that a run of ``k`` has, if there are any."""
    least = -(-k // depth())
    found = (parts for parts in range(least, 4 * least) if k % parts == 0)
    return next(found, 1) if least > 1 else 1
