"""Images of depthwise convolutions: where they are read and written as they lie, and where as
copies, for some groups of channels at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_tensor.backends.providers.generated import caches, planes
from fl_tensor.backends.providers.generated.convolution.sums import Image
from fl_tensor.backends.providers.generated.convolution.windows import Axis
from fl_tensor.backends.providers.generated.depthwise.groups import Task
from fl_tensor.codegen import target
from fl_tensor.dtypes import DType

#: How much larger the kernel must be than the line is long for a copy to pay: the more pixels are
#: at a border, and the more often a number is read.
_LARGE = 10
#: Vectors of channels that are copied at a time at most, where no copy would be needed; and that
#: pixels have at least for several rows to be computed together.
_FEW, _LONG = 4, 8
#: Items of work at least, where there are so many rows.
_ITEMS = 16


class Images(NamedTuple):
    """Source and target as the loop nest has them.

    words    for it
    axes     the windows, all of which see the whole kernel along lines that are copied
    source   bytes between planes, rows and pixels, of the copy if there is one
    target   the same of the result
    copied   whether either is copied
    """

    words: dict[str, int]
    axes: list[Sequence[Axis]]
    source: list[int]
    target: list[int]
    copied: bool

    @classmethod
    def of(
        cls,
        source: Image,
        result: Image,
        axes: Sequence[Sequence[Axis]],
        task: Task,
        known: bool,
    ) -> Images:
        """Of images by strides, with windows ``axes``."""
        _, number, groups, _, dtype = task
        item, lanes = dtype.itemsize, target.host().lanes(dtype.itemsize)
        rows = sum(a.places for a in axes[0]) * sum(a.places for a in axes[1])
        line = sum(a.places for a in axes[2])
        needed = source.channel != 1 or source.dtype is not dtype
        copies = needed or not known and task.taps * (task.kernel[2] - 1) >= _LARGE * line
        buffers = result.channel != 1 or result.dtype is not dtype
        # In a copy there is room for padding of lines, so that all pixels see the whole kernel.
        before, behind = _padding(axes[2]) if copies else (0, 0)
        axes = [*axes[:2], [_padded(axis, before, behind) for axis in axes[2]]]
        depth, height, width = source.size
        copied = (depth, height, before + width + behind)
        of_source = copies * groups.source * math.prod(copied)
        of_target = buffers * groups.target * rows * line
        held = groups.held(lanes)
        some, step = number, rows
        if needed or buffers:
            some = _fitting(caches.level(2) // 2, item * (of_source + of_target), held)
        elif copies:
            of_weights = task.taps * groups.source * groups.target
            some = _fitting(caches.level(1) * 3 // 4, item * (of_source + of_weights), held)
            some = min(some, _FEW * held)
        else:
            row = number * item * (groups.source * width + groups.target * line)
            step = min(caches.level(2) // 2 // row, -(-rows * task.batch // _ITEMS), rows)
            step = max(step, 1) if number >= _LONG * held else 1
        some = min(some, number)
        copied_pixel, buffer_pixel = (some * channels * item for channels in groups)
        from_ = [move * item for move in (source.plane, source.row, source.pixel)]
        to = [move * item for move in (result.plane, result.row, result.pixel)]
        if copies:
            from_ = [height * copied[2] * copied_pixel, copied[2] * copied_pixel, copied_pixel]
        if buffers:
            high = sum(a.places for a in axes[1])
            to = [high * line * buffer_pixel, line * buffer_pixel, buffer_pixel]
        strip = _rounded(math.prod(copied) * copied_pixel) if copies else 0
        buffer = _rounded(rows * line * buffer_pixel) if buffers else 0
        inner = axes[2][0]
        taps_by = [phases[0].spread * move for phases, move in zip(axes, from_, strict=True)]
        given, wanted = source.dtype.itemsize, result.dtype.itemsize
        words = {
            "row_groups": -(-rows // step),
            "row_step": step,
            "rows": rows,
            "line": line,
            "slices": -(-number // some),
            "slice": some,
            "source_image": source.batch * given,
            "target_image": result.batch * wanted,
            "source_group": source.channel * groups.source * given,
            "target_group": result.channel * groups.target * wanted,
            "source_line": axes[1][0].step * from_[1],
            "target_line": axes[1][0].every * to[1],
            "source_pixel": inner.step * from_[2],
            "target_pixel": inner.every * to[2],
            "source_plane_tap": taps_by[0],
            "source_row_tap": taps_by[1],
            "source_tap": taps_by[2],
            "source_place": from_[2],
            "target_place": to[2],
            "source_move": _move(source, source.dtype, dtype, True) if copies else 0,
            "source_planes": depth,
            "source_rows": height,
            "source_columns": width,
            "source_plane": source.plane * given,
            "source_row": source.row * given,
            "source_column": source.pixel * given,
            "source_channel": source.channel * given,
            "copied_pixel": copied_pixel,
            "copied_line": copied[2] * copied_pixel,
            "copied_before": before * copied_pixel,
            "copied_behind": behind * copied_pixel,
            "target_move": _move(result, dtype, result.dtype, False) if buffers else 0,
            "target_column": result.pixel * wanted,
            "target_channel": result.channel * wanted,
            "buffer_pixel": buffer_pixel,
            "buffer_at": strip,
            "worker_bytes": strip + buffer,
        }
        return cls(words, list(axes), from_, to, copies or buffers)


def _fitting(nbytes: int, of_group: int, held: int) -> int:
    # How many groups, whole vectors of them, fit so many bytes.
    return max(nbytes // of_group // held, 1) * held


def _padding(phases: Sequence[Axis]) -> tuple[int, int]:
    # Places before and behind the source that are seen.
    before = max(-axis.origin for axis in phases)
    behind = max(axis.origin + axis.reach(axis.places) - axis.source for axis in phases)
    return max(before, 0), max(behind, 0)


def _padded(axis: Axis, before: int, behind: int) -> Axis:
    return axis._replace(source=before + axis.source + behind, origin=axis.origin + before)


def _move(image: Image, source: DType, result: DType, reads: bool) -> int:
    # Between an image and memory with channels side by side.
    pixel = 1 if image.size[2] == 1 else image.pixel
    given, own = (pixel, image.channel), (0, 1)
    return planes.address(planes.kind(*(own + given if reads else given + own)), source, result)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
