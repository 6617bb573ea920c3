"""Images of depthwise convolutions: in place, or copied for some groups of channels at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm import caches, strided_copy
from fl_jit.kernels.llvm.conv.implicit_gemm import Image
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise.groups import Task
from fl_tensor.dtypes import DType

#: Minimum ratio of kernel size to line length for which a copy is faster. The ratio is higher if
#: more pixels are at a border, and if each element is read more often.
_LARGE = 10
#: Maximum vectors of channels that are copied at a time where no copy is required; minimum vectors
#: of a pixel for several rows to be computed together.
_FEW, _LONG = 4, 8
#: Minimum number of work items, if there are as many rows.
_ITEMS = 16


class Images(NamedTuple):
    """Source and target in the form that the loop nest uses.

    words    argument fields of the loop nest
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
        """Images by strides with windows ``axes``. Code with ``known`` windows needs no padding."""
        sides = _Sides.of(source, result, axes, task, known)
        padding = _padding(axes[2]) if sides.copies else (0, 0)
        axes = [*axes[:2], [_padded(axis, *padding) for axis in axes[2]]]
        rows, line = _size(axes)
        some, step = _division(sides, axes, task)
        from_, of_source, input_tile = _source(sides, axes, task, some)
        to, of_target, buffer = _target(sides, axes, task, some)
        inner = axes[2][0]
        kernel_moves = [phases[0].spread * move for phases, move in zip(axes, from_, strict=True)]
        words = {
            "row_groups": -(-rows // step),
            "row_step": step,
            "rows": rows,
            "line": line,
            "slices": -(-task.number // some),
            "slice": some,
            "source_line": axes[1][0].step * from_[1],
            "target_line": axes[1][0].every * to[1],
            "source_pixel": inner.step * from_[2],
            "target_pixel": inner.every * to[2],
            "source_kernel_plane": kernel_moves[0],
            "source_kernel_row": kernel_moves[1],
            "source_kernel_column": kernel_moves[2],
            "source_place": from_[2],
            "target_place": to[2],
            "copied_before": padding[0],
            "copied_columns": inner.source,
            "buffer_at": input_tile,
            "worker_bytes": input_tile + buffer,
        }
        copied = sides.copies or sides.buffers
        return cls(words | of_source | of_target, list(axes), from_, to, copied)


class _Sides(NamedTuple):
    # The images by strides; whether a copy of the source is required; whether the source is copied;
    # whether the result goes through a buffer.
    source: Image
    result: Image
    needed: bool
    copies: bool
    buffers: bool

    @classmethod
    def of(
        cls,
        source: Image,
        result: Image,
        axes: Sequence[Sequence[Axis]],
        task: Task,
        known: bool,
    ) -> _Sides:
        line = sum(axis.places for axis in axes[2])
        large = task.kernel_size * (task.kernel[2] - 1) >= _LARGE * line
        needed = source.channel != 1 or source.dtype is not task.dtype
        buffers = result.channel != 1 or result.dtype is not task.dtype
        return cls(source, result, needed, needed or (large and not known), buffers)


def _size(axes: Sequence[Sequence[Axis]]) -> tuple[int, int]:
    # Rows of the result, and pixels of each.
    deep, high, line = (sum(axis.places for axis in phases) for phases in axes)
    return deep * high, line


def _division(sides: _Sides, axes: Sequence[Sequence[Axis]], task: Task) -> tuple[int, int]:
    # Groups and rows that are computed at a time, so that their copies fit a cache.
    _, number, groups, _, dtype = task
    item, held = dtype.itemsize, groups.held(target.host().lanes(dtype.itemsize))
    rows, line = _size(axes)
    of_source = groups.source * math.prod(_extent(sides.source, axes)) if sides.copies else 0
    of_target = groups.target * rows * line if sides.buffers else 0
    if sides.needed or sides.buffers:
        some = _fitting(caches.level(2) // 2, item * (of_source + of_target), held)
        return min(some, number), rows
    if sides.copies:
        of_weights = task.kernel_size * groups.source * groups.target
        some = _fitting(caches.level(1) * 3 // 4, item * (of_source + of_weights), held)
        return min(some, _FEW * held, number), rows
    if number < _LONG * held:
        return number, 1
    row = number * item * (groups.source * sides.source.size[2] + groups.target * line)
    step = min(caches.level(2) // 2 // row, -(-rows * task.batch // _ITEMS), rows)
    return number, max(step, 1)


def _source(
    sides: _Sides, axes: Sequence[Sequence[Axis]], task: Task, some: int
) -> tuple[list[int], dict[str, int], int]:
    # Bytes between planes, rows and pixels; argument fields; bytes of a copy of some groups.
    source, given, item = sides.source, sides.source.dtype.itemsize, task.dtype.itemsize
    extent, pixel = _extent(source, axes), some * task.groups.source * item
    moves = [move * item for move in (source.plane, source.row, source.pixel)]
    if sides.copies:
        moves = [extent[1] * extent[2] * pixel, extent[2] * pixel, pixel]
    depth, height, width = source.size
    words = {
        "source_image": source.batch * given,
        "source_group": source.channel * task.groups.source * given,
        "source_move": _move(source, source.dtype, task.dtype, True) if sides.copies else 0,
        "source_planes": depth,
        "source_rows": height,
        "source_columns": width,
        "source_plane": source.plane * given,
        "source_row": source.row * given,
        "source_column": source.pixel * given,
        "source_channel": source.channel * given,
        "copied_pixel": pixel,
        "copied_line": extent[2] * pixel,
    }
    return moves, words, _rounded(math.prod(extent) * pixel) if sides.copies else 0


def _target(
    sides: _Sides, axes: Sequence[Sequence[Axis]], task: Task, some: int
) -> tuple[list[int], dict[str, int], int]:
    # The same of the result.
    result, wanted, item = sides.result, sides.result.dtype.itemsize, task.dtype.itemsize
    (rows, line), pixel = _size(axes), some * task.groups.target * item
    moves = [move * item for move in (result.plane, result.row, result.pixel)]
    if sides.buffers:
        high = sum(axis.places for axis in axes[1])
        moves = [high * line * pixel, line * pixel, pixel]
    words = {
        "target_image": result.batch * wanted,
        "target_group": result.channel * task.groups.target * wanted,
        "target_move": _move(result, task.dtype, result.dtype, False) if sides.buffers else 0,
        "target_column": result.pixel * wanted,
        "target_channel": result.channel * wanted,
        "buffer_pixel": pixel,
    }
    return moves, words, _rounded(rows * line * pixel) if sides.buffers else 0


def _extent(source: Image, axes: Sequence[Sequence[Axis]]) -> tuple[int, int, int]:
    # Extent of a copy of the source, with lines padded.
    return (*source.size[:2], axes[2][0].source)


def _fitting(nbytes: int, of_group: int, held: int) -> int:
    # Groups, in whole vectors, that fit ``nbytes``.
    return max(nbytes // of_group // held, 1) * held


def _padding(phases: Sequence[Axis]) -> tuple[int, int]:
    # Places before and after the source that windows reach.
    before = max(-axis.origin for axis in phases)
    behind = max(axis.origin + axis.reach(axis.places) - axis.source for axis in phases)
    return max(before, 0), max(behind, 0)


def _padded(axis: Axis, before: int, behind: int) -> Axis:
    return axis._replace(source=before + axis.source + behind, origin=axis.origin + before)


def _move(image: Image, source: DType, result: DType, reads: bool) -> int:
    # Copy function between an image and memory with contiguous channels.
    pixel = 1 if image.size[2] == 1 else image.pixel
    given, own = (pixel, image.channel), (0, 1)
    return strided_copy.address(
        strided_copy.kind(*(own + given if reads else given + own)), source, result
    )


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
