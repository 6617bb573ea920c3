"""Depthwise convolutions, where every channel has a kernel of its own, and gradients of their data.

``nest.py`` has the loops; here are the tables that tell it where a row and a block of
pixels lie, and which places of the kernel they see.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fl_tensor.backends.providers.generated import FOLDER, caches, epilogue, planes, tile
from fl_tensor.backends.providers.generated.convolution import windows
from fl_tensor.backends.providers.generated.convolution.sums import Image, Weights, strided
from fl_tensor.backends.providers.generated.convolution.windows import Axis
from fl_tensor.backends.providers.generated.depthwise import block
from fl_tensor.backends.providers.generated.depthwise import nest as depthwise_nest
from fl_tensor.backends.providers.generated.depthwise.words import WORDS
from fl_tensor.backends.providers.generated.phases import Division, Phases
from fl_tensor.backends.providers.layout import Layout, Placement, Shape
from fl_tensor.backends.providers.problems import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Problem,
)
from fl_tensor.backends.providers.provider import UnsupportedError
from fl_tensor.codegen import compile, target
from fl_tensor.dtypes import DType, float32, float64

#: Multiply-adds per nanosecond, about.
_SPEED = 10.0
#: Places of the kernel at least, and places of a line at most, for a copy to pay: pixels of a large
#: neighbourhood fall into the same few sets of a cache where channels are many, but lie next to
#: each other in a copy, where no pixel of a short line is at its border.
_LARGE, _SHORT = 36, 28
#: Channels of a group, of which vectors have several.
_GROUPS = 2, 4, 8
#: Vectors of channels that are copied at a time where no copy would be needed.
_FEW = 4


def is_depthwise(problem: Problem) -> bool:
    """Whether it is a convolution, or a gradient of one, of which each of several channels has one
    kernel, or channels are in small groups; and there is something to compute."""
    if isinstance(problem, Convolution):
        images = problem.x, problem.out
    elif isinstance(problem, ConvolutionData):
        images = problem.gradient, problem.out
    elif isinstance(problem, ConvolutionWeights):
        images = problem.x, problem.gradient
    else:
        return False
    if problem.groups < 2 or any(0 in image.shape for image in images):
        return False
    if all(image.shape[1] == problem.groups for image in images):
        return True
    return not isinstance(problem, ConvolutionWeights) and _has_small_groups(problem)


def _has_small_groups(problem: Convolution | ConvolutionData) -> bool:
    # A product of matrices has no use for most lanes of a vector there.
    image, w, out = problem[:3]
    sizes = {each.shape[1] / problem.groups for each in (image, out)}
    strides = isinstance(w, Layout) and w.strides is not None
    same = {image.dtype, w.dtype, out.dtype} in ({float32}, {float64})
    fits = all(
        size in _GROUPS and target.host().lanes(w.dtype.itemsize) % size == 0 for size in sizes
    )
    return strides and same and fits and len(sizes) == 1


def prepare(problem: Convolution) -> DepthwiseKernel:
    """A kernel for a depthwise convolution. Raises UnsupportedError."""
    x, w, out = (strided(each) for each in (problem.x, problem.w, problem.out))
    options = problem.stride, problem.padding, problem.dilation
    axes = windows.convolution(x.shape[2:], out.shape[2:], w.shape[-len(x.shape) + 2 :], *options)
    return DepthwiseKernel(problem, x, w, out, [[axis] for axis in axes])


def prepare_data(problem: ConvolutionData) -> DepthwiseKernel:
    """A kernel for the gradient of its data. Raises UnsupportedError."""
    gradient, w, out = (strided(each) for each in (problem.gradient, problem.w, problem.out))
    kernel = w.shape[-len(out.shape) + 2 :]
    options = problem.stride, problem.padding, problem.dilation
    phases = list(windows.gradient(gradient.shape[2:], out.shape[2:], kernel, *options))
    # Phases of all axes are all combinations of those of each.
    axes = [list(dict.fromkeys(each)) for each in zip(*phases, strict=True)]
    return DepthwiseKernel(problem, gradient, w, out, axes)


class _Seen(NamedTuple):
    # What a place of the result sees along an axis: the first place of the source, and of the
    # kernel, and how many.
    place: int
    source: int
    kernel: int
    places: int


def _seen(axis: Axis) -> Iterator[_Seen]:
    for j in range(axis.places):
        origin = axis.origin + j * axis.step
        first = max(-(origin // axis.spread), 0)
        end = min((axis.source - 1 - origin) // axis.spread + 1, len(axis.kernel))
        count = max(end - first, 0)
        source, kernel = (origin + first * axis.spread, axis.kernel[first]) if count else (0, 0)
        yield _Seen(axis.first + j * axis.every, source, kernel, count)


def _step(phases: Sequence[Axis]) -> int:
    # From a place of the kernel to the next one that is seen.
    return next((a.kernel[1] - a.kernel[0] for a in phases if len(a.kernel) > 1), 0)


class DepthwiseKernel:
    """A sum over windows, of each channel, that is ready to be computed. ``axes``: the phases of
    depth, height and width."""

    workspace = 0

    def __init__(
        self,
        problem: Convolution | ConvolutionData,
        source: Layout,
        w: Layout,
        out: Layout,
        axes: Sequence[Sequence[Axis]],
    ) -> None:
        if 0 in (*source.shape, *w.shape, *out.shape):
            raise UnsupportedError("nothing to convolve")
        following = epilogue.prepare(problem)
        bias = getattr(problem, "bias", None)
        reads: tuple[Placement, ...] = following.reads if following else ()
        if bias is not None and problem.epilogue is None:
            reads = (bias,)
        self._written = following.writes if following else ()
        self.operands = (source, w, *reads, out, *self._written)
        self._follows = following is not None
        build = _Build(problem, source, w, out, axes)
        self._tables = build.tables
        self.about = f"generated: depthwise{', copied' * build.copies}"
        build.words["epilogue"] = following.address if following else 0
        work = out.elements * build.taps * build.group / _SPEED
        code = _code(build.dtype)
        self._call = Phases(code, WORDS, build.words, build.divide, work, following)

    def __call__(self, *addresses: int) -> None:
        """Compute: source, weights[, what the epilogue reads], out[, what it writes]."""
        count = len(self.operands) - len(self._written)
        source, w, *reads, out = addresses[:count]
        followed = [out, *reads, out, *addresses[count:]] if self._follows else []
        self._call((source, w, out), followed)


@compile.once
def _code(dtype: DType) -> compile.Code:
    machine = target.host()
    about = f"depthwise {dtype} {compile.sources(FOLDER)}"
    assembly = functools.partial(depthwise_nest.assembly, dtype, machine)
    return compile.load(about, assembly, machine, is_tidy=True)


class _Build:
    # The words of a problem. ``tables`` are what some of them point to.

    def __init__(
        self,
        problem: Convolution | ConvolutionData,
        source: Layout,
        w: Layout,
        out: Layout,
        axes: Sequence[Sequence[Axis]],
    ) -> None:
        self.batch, self.channels = out.shape[:2]
        self.group = self.channels // problem.groups
        self.source, self.target = Image.of(source), Image.of(out)
        wide = float64 in (source.dtype, w.dtype, out.dtype)
        self.dtype = float64 if wide else float32
        self.item = self.dtype.itemsize
        self.axes = axes
        self.tables: list[Any] = []
        self.words: dict[str, int] = {}
        kernel = w.shape[2 - len(out.shape) :]
        self.taps = math.prod(kernel)
        self._weights(
            Weights.of(w, problem.groups, len(out.shape), isinstance(problem, ConvolutionData)),
            (*[1] * (3 - len(kernel)), *kernel),
        )
        self._images()
        self._rows()
        self._columns()

    def divide(self, workers: int) -> Division:
        """Images, and their rows or channels."""
        words = self.words
        first = 0 if words["panels_direct"] else words["kernel_planes"] * words["kernel_rows"]
        second = self.batch * words["row_groups"] * words["channel_groups"]
        return Division((first, second), {}, self.panels_bytes + workers * words["worker_bytes"])

    def _weights(self, w: Weights, kernel: Shape) -> None:
        item, given = self.item, w.dtype.itemsize
        direct = self.group == w.group == 1 and w.dtype is self.dtype
        row = self.channels * item
        column = self.group * row
        packed = [kernel[1] * kernel[2] * column, kernel[2] * column, column]
        self.panels = [step * item for step in w.kernel] if direct else packed
        self.panels_bytes = 0 if direct else _rounded(kernel[0] * packed[0])
        which = planes.kind(0, self.group, w.kernel[2] if kernel[2] > 1 else 1, w.group)
        steps = [_step(phases) * p for phases, p in zip(self.axes, self.panels, strict=True)]
        self.words |= {
            "panels_direct": int(direct),
            "kernel_planes": kernel[0],
            "kernel_rows": kernel[1],
            "kernel_columns": kernel[2],
            "packed_plane": packed[0],
            "packed_row": packed[1],
            "packed_column": packed[2],
            "panels_plane_tap": steps[0],
            "panels_row_tap": steps[1],
            "panels_tap": steps[2],
            "weights_move": planes.address(which, w.dtype, self.dtype),
            "weights_plane": w.kernel[0] * given,
            "weights_row": w.kernel[1] * given,
            "weights_column": w.kernel[2] * given,
            "weights_group": w.group * given,
            "groups": self.channels // self.group,
            "group": self.group,
            "weights_feature": w.feature * given,
            "weights_channel": w.channel * given,
            "packed_group": self.group * item,
            "packed_inner": row,
            "workers_at": self.panels_bytes,
        }

    def _images(self) -> None:
        # Images that cannot (well) be read or written by vectors of channels are copied, some
        # channels at a time; then an item is all rows of these.
        source, target_ = self.source, self.target
        lanes = target.host().lanes(self.item)
        rows = sum(a.places for a in self.axes[0]) * sum(a.places for a in self.axes[1])
        line = sum(a.places for a in self.axes[2])
        needed = source.channel != 1 or source.dtype is not self.dtype
        copies = needed or (self.taps >= _LARGE and line <= _SHORT)
        buffers = target_.channel != 1 or target_.dtype is not self.dtype
        self.copies = copies or buffers
        # In a copy there is room for padding of lines, so that all pixels see the whole kernel.
        before, behind = _padding(self.axes[2]) if copies else (0, 0)
        self.axes = [*self.axes[:2], [_padded(axis, before, behind) for axis in self.axes[2]]]
        depth, height, width = source.size
        copied = (depth, height, before + width + behind)
        per_channel = self.item * (copies * math.prod(copied) + buffers * rows * line)
        step = self.channels
        if self.copies:
            step = max(caches.level(2) // 2 // per_channel // lanes, 1) * lanes
            step = min(step, self.channels, step if needed or buffers else _FEW * lanes)
        pixel = step * self.item
        moves = (source.plane, source.row, source.pixel)
        self.pitches = [move * self.item for move in moves]
        self.places = [m * self.item for m in (target_.plane, target_.row, target_.pixel)]
        self.true_places = [m * target_.dtype.itemsize for m in (target_.plane, target_.row)]
        if copies:
            self.pitches = [height * copied[2] * pixel, copied[2] * pixel, pixel]
        if buffers:
            result = sum(a.places for a in self.axes[1])
            self.places = [result * line * pixel, line * pixel, pixel]
        strip = _rounded(math.prod(copied) * pixel) if copies else 0
        taps = [a[0].spread * p for a, p in zip(self.axes, self.pitches, strict=True)]
        inner = self.axes[2][0]
        given, wanted = source.dtype.itemsize, target_.dtype.itemsize
        self.words |= {
            "row_groups": 1 if self.copies else rows,
            "row_step": rows if self.copies else 1,
            "rows": rows,
            "line": line,
            "channels": self.channels,
            "channel_step": step,
            "channel_groups": -(-self.channels // step),
            "source_image": source.batch * given,
            "target_image": target_.batch * wanted,
            "source_pixel": inner.step * self.pitches[2],
            "target_pixel": inner.every * self.places[2],
            "source_plane_tap": taps[0],
            "source_row_tap": taps[1],
            "source_tap": taps[2],
            "worker_bytes": strip + (_rounded(rows * line * pixel) if buffers else 0),
            "buffer_at": strip,
            "source_move": _move(source, source.dtype, self.dtype, True) if copies else 0,
            "source_planes": source.size[0],
            "source_rows": source.size[1],
            "source_columns": source.size[2],
            "source_plane": source.plane * given,
            "source_row": source.row * given,
            "source_column": source.pixel * given,
            "source_channel": source.channel * given,
            "copied_pixel": pixel,
            "copied_line": copied[2] * pixel,
            "copied_before": before * pixel,
            "copied_behind": behind * pixel,
            "target_move": _move(target_, self.dtype, target_.dtype, False) if buffers else 0,
            "target_column": target_.pixel * wanted,
            "target_channel": target_.channel * wanted,
            "buffer_pixel": pixel,
        }

    def _rows(self) -> None:
        deep, high = (
            sorted(seen for axis in phases for seen in _seen(axis)) for phases in self.axes[:2]
        )
        table, true_places = [], []
        for plane, row in itertools.product(deep, high):
            table += [
                plane.place * self.places[0] + row.place * self.places[1],
                plane.source * self.pitches[0] + row.source * self.pitches[1],
                plane.kernel * self.panels[0] + row.kernel * self.panels[1],
                plane.places,
                row.places,
            ]
            true_places.append(plane.place * self.true_places[0] + row.place * self.true_places[1])
        self.words["row_table"] = self._table(table)
        self.words["target_rows"] = self._table(true_places)

    def _columns(self) -> None:
        table: list[list[int]] = []
        for axis in self.axes[2]:
            # Neighbours that see the same places of the kernel.
            for _, run in itertools.groupby(_seen(axis), lambda seen: (seen.kernel, seen.places)):
                left = list(run)
                parts, size, longer = tile.balanced(len(left), block.MOST)
                for part in range(parts):
                    count = size + (part < longer)
                    first, left = left[0], left[count:]
                    entry = [count, first.source * self.pitches[2]]
                    entry += [first.kernel * self.panels[2], first.place * self.places[2]]
                    table.append([*entry, first.places])
        table.sort(key=lambda entry: entry[3])
        codes = block.addresses(self.dtype, self.group, (entry[0] for entry in table))
        table = [[codes[entry[0]], *entry[1:]] for entry in table]
        self.words["columns"] = len(table)
        self.words["column_table"] = self._table([number for entry in table for number in entry])

    def _table(self, numbers: Sequence[int]) -> int:
        table = (ctypes.c_int64 * len(numbers))(*numbers)
        self.tables.append(table)
        return ctypes.addressof(table)


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
