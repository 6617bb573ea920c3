"""Images of depthwise convolutions: in place, or copied for some groups of channels at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.conv.implicit_gemm import Image
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise.groups import Task
from fl_jit.kernels.llvm.launcher import aligned

#: Minimum ratio of kernel size to line length for which a copy is faster. The ratio is higher if
#: more pixels are at a border, and if each element is read more often.
_LARGE = 10
#: Maximum vectors of channels that are copied at a time where no copy is required; minimum vectors
#: of a pixel for several rows to be computed together.
_FEW, _LONG = 4, 8
#: Minimum number of work items, if there are as many rows.
_ITEMS = 16


class Images:
    """Source and result of the sums over windows ``axes``, in the form that the loop nest uses.

    fields   argument fields of the loop nest
    axes     the windows, all of which see the whole kernel along lines that are copied
    source   bytes between planes, rows and pixels, of the copy if there is one
    target   the same of the result
    copies   whether the source is copied. Code with ``known`` windows needs no padding
    buffers  whether the result goes through a buffer
    """

    def __init__(
        self,
        source: Image,
        result: Image,
        axes: Sequence[Sequence[Axis]],
        task: Task,
        known: bool,
    ) -> None:
        deep, height, self._line = (sum(axis.places for axis in phases) for phases in axes)
        self._rows, self._task = deep * height, task
        large = task.kernel_size * (task.kernel[2] - 1) >= _LARGE * self._line
        self._needed = source.channel != 1 or source.dtype is not task.dtype
        self.copies = self._needed or (large and not known)
        self.buffers = result.channel != 1 or result.dtype is not task.dtype
        before, behind = _padding(axes[2]) if self.copies else (0, 0)
        width = before + source.size[2] + behind
        padded = [axis._replace(source=width, origin=axis.origin + before) for axis in axes[2]]
        self.axes = [*axes[:2], padded]
        self._extent = (*source.size[:2], width)
        groups, rows = self._division(source)
        item = task.dtype.itemsize
        # Bytes of a pixel of either copy, and of the copies.
        pixels = [groups * channels * item for channels in task.groups]
        tile = aligned(math.prod(self._extent) * pixels[0] * self.copies)
        buffer = aligned(self._rows * self._line * pixels[1] * self.buffers)
        self.source = _strides(source, item, self.copies, self._extent[1:], pixels[0])
        self.target = _strides(result, item, self.buffers, (height, self._line), pixels[1])
        self.fields = self._fields_of(source, result) | {
            "row_groups": -(-self._rows // rows),
            "row_step": rows,
            "rows": self._rows,
            "line": self._line,
            "slices": -(-task.number // groups),
            "slice": groups,
            "copied_pixel": pixels[0],
            "copied_line": width * pixels[0],
            "copied_before": before,
            "copied_columns": width,
            "buffer_pixel": pixels[1],
            "buffer_at": tile,
            "worker_bytes": tile + buffer,
        }

    def _division(self, source: Image) -> tuple[int, int]:
        # Groups and rows that are computed at a time, so that their copies fit a cache.
        _, number, groups, _, dtype = self._task
        item, held = dtype.itemsize, groups.held(target.host().lanes(dtype.itemsize))
        rows, line = self._rows, self._line
        of_source = groups.source * math.prod(self._extent) * self.copies

        def fitting(nbytes: int, elements: int) -> int:
            # Groups of so many elements, in whole vectors, that fit ``nbytes``.
            return max(nbytes // (item * elements) // held, 1) * held

        if self._needed or self.buffers:
            of_target = groups.target * rows * line * self.buffers
            return min(fitting(cpu.host().l2 // 2, of_source + of_target), number), rows
        if self.copies:
            of_weights = self._task.kernel_size * groups.source * groups.target
            some = fitting(cpu.host().l1 * 3 // 4, of_source + of_weights)
            return min(some, _FEW * held, number), rows
        if number < _LONG * held:
            return number, 1
        row = number * item * (groups.source * source.size[2] + groups.target * line)
        step = min(cpu.host().l2 // 2 // row, -(-rows * self._task.batch // _ITEMS), rows)
        return number, max(step, 1)

    def _fields_of(self, source: Image, result: Image) -> dict[str, int]:
        given, wanted = source.dtype.itemsize, result.dtype.itemsize
        depth, height, width = source.size
        _, rows, columns = (phases[0] for phases in self.axes)
        kernel = [axes[0].spread * s for axes, s in zip(self.axes, self.source, strict=True)]
        return {
            "source_image": source.batch * given,
            "source_group": source.channel * self._task.groups.source * given,
            "source_move": self._move(source, reads=True) if self.copies else 0,
            "source_planes": depth,
            "source_rows": height,
            "source_columns": width,
            "source_plane": source.plane * given,
            "source_row": source.row * given,
            "source_column": source.pixel * given,
            "source_channel": source.channel * given,
            "source_line": rows.step * self.source[1],
            "source_pixel": columns.step * self.source[2],
            "source_kernel_plane": kernel[0],
            "source_kernel_row": kernel[1],
            "source_kernel_column": kernel[2],
            "source_place": self.source[2],
            "target_image": result.batch * wanted,
            "target_group": result.channel * self._task.groups.target * wanted,
            "target_move": self._move(result, reads=False) if self.buffers else 0,
            "target_column": result.pixel * wanted,
            "target_channel": result.channel * wanted,
            "target_line": rows.every * self.target[1],
            "target_pixel": columns.every * self.target[2],
            "target_place": self.target[2],
        }

    def _move(self, image: Image, reads: bool) -> int:
        # Copy function between an image and memory with contiguous channels.
        pixel = 1 if image.size[2] == 1 else image.pixel
        given, own = (pixel, image.channel), (0, 1)
        dtypes = image.dtype, self._task.dtype
        if reads:
            return strided_copy.address(strided_copy.kind(*own, *given), *dtypes)
        return strided_copy.address(strided_copy.kind(*given, *own), *dtypes[::-1])


def _strides(image: Image, item: int, copied: bool, size: tuple[int, int], pixel: int) -> list[int]:
    # Bytes between planes, rows and pixels: of an image, or of a copy of ``size`` rows and columns.
    if copied:
        return [size[0] * size[1] * pixel, size[1] * pixel, pixel]
    return [step * item for step in (image.plane, image.row, image.pixel)]


def _padding(phases: Sequence[Axis]) -> tuple[int, int]:
    # Places before and after the source that windows reach.
    before = max(-axis.origin for axis in phases)
    behind = max(axis.origin + axis.reach(axis.places) - axis.source for axis in phases)
    return max(before, 0), max(behind, 0)
