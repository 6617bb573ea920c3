"""Kernels of the wgrad of depthwise convolutions, and of their bias gradient.

The loop nest is ``wgrad_loop_nest.py``.
"""

from __future__ import annotations

import functools
import itertools
import math

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.llvm import FOLDER, caches, strided_copy, tile
from fl_jit.kernels.llvm.conv_wgrad import vector_loops
from fl_jit.kernels.llvm.conv_wgrad.axes import axes_of, axis_words, steps_of, strides
from fl_jit.kernels.llvm.conv_wgrad.operands import settled
from fl_jit.kernels.llvm.conv_wgrad.plan import MOST_PARTS
from fl_jit.kernels.llvm.conv_wgrad.wgrad import WgradKernel
from fl_jit.kernels.llvm.depthwise import copies, panels
from fl_jit.kernels.llvm.depthwise import wgrad_loop_nest as depthwise_weights_nest
from fl_jit.kernels.llvm.depthwise import wgrad_microkernel as depthwise_taps
from fl_jit.kernels.llvm.depthwise.groups import Groups
from fl_jit.kernels.llvm.depthwise.wgrad_kernel_args import BLOCK, FIELDS
from fl_jit.kernels.llvm.depthwise.wgrad_microkernel import Edges, WgradMicrokernel
from fl_jit.kernels.llvm.launcher import Division, Launcher
from fl_jit.kernels.llvm.loop_nest import computed
from fl_tensor.dtypes import DType

#: Approximate multiply-adds per nanosecond.
_SPEED = 10.0
#: Minimum pixels of an input tile, if there are as many, and maximum: all of them are added one by
#: one.
_LEAST_PIXELS, _MOST_PIXELS = 64, 1024
#: Minimum pixels of a part, which has few accumulators.
_PART_PIXELS = 1024
#: Maximum columns of the kernel for which x is read in place: there is code for every pixel near
#: the end of a line.
_COLUMNS = 7


def prepare(descriptor: ConvWeightGrad) -> WgradKernel:
    """A kernel for one floating dtype throughout, by strides. Raises UnsupportedError for anything
    else."""
    descriptor = settled(descriptor)
    build = _Build(descriptor)
    work = math.prod(a.size * a.kernel for a in build.axes) * build.work / _SPEED
    functions = _functions(descriptor.x.dtype, descriptor.out.dtype)
    call = Launcher(functions, FIELDS, build.words, build.divide, work, owned=build.table)
    about = f"depthwise, {build.input_tiles} strips in {build.parts} parts"
    return WgradKernel(descriptor, about, call)


@compile.once
def _functions(given: DType, result: DType) -> tuple[int, int]:
    machine = target.host()
    about = f"depthwise weights {given} {result} {compile.sources(FOLDER)}"
    assembly = functools.partial(depthwise_weights_nest.assembly, given, result, machine)
    code = compile.load(about, assembly, machine, compile.Effort.LEAST)
    return code.address("first"), code.address("second")


class _Build:
    # The argument fields of a descriptor. ``table`` is the memory that some of them point to.

    def __init__(self, descriptor: ConvWeightGrad) -> None:
        self.descriptor, self.axes = descriptor, axes_of(descriptor)
        groups = Groups.of(descriptor)
        dtype = computed(descriptor.x.dtype)
        self.item, given = dtype.itemsize, descriptor.x.dtype.itemsize
        result = descriptor.out.dtype.itemsize
        lanes = target.host().lanes(self.item)
        self.wide = lanes * self.item
        held = groups.held(lanes)
        self.vectors = -(-descriptor.groups // held)
        self.work = descriptor.groups * groups.source * groups.target
        # Input tiles of all channels stay in L2: their lines are used once per vector of channels.
        pixels = caches.level(2) // (4 * descriptor.x.shape[1] * self.item)
        pixels = min(max(pixels, _LEAST_PIXELS), _MOST_PIXELS)
        self.steps = steps_of(self.axes, pixels)
        pairs = list(zip(self.axes, self.steps, strict=True))
        self.input_tiles = math.prod(-(-axis.size // step) for axis, step in pairs)
        all_pixels = math.prod(axis.size for axis in self.axes)
        self.parts = max(1, min(all_pixels // _PART_PIXELS, MOST_PARTS, self.input_tiles))
        x, gradient = strides(descriptor.x), strides(descriptor.gradient)
        self.x_direct = (
            groups == (1, 1)
            and x[1] == 1
            and given == self.item
            and self.axes[1].is_inside
            and self.axes[3].kernel <= _COLUMNS
            and self.steps[3] == self.axes[3].size
        )
        self.pitches = [self.wide]
        for axis, step in pairs[:0:-1]:
            self.pitches.insert(0, self.pitches[0] * axis.seen(step))
        input_tile = self.pitches[0] * self.axes[0].seen(self.steps[0])
        if self.x_direct:
            self.pitches, input_tile = [axis.x for axis in self.axes], 0
        direct = gradient[1] == 1 and given == self.item
        pixel = groups.results(lanes) * self.wide
        packed = 0 if direct else self.steps[2] * self.steps[3] * pixel
        taps = math.prod(axis.kernel for axis in self.axes)
        turn = self.vectors * self.wide
        tap = groups.target * turn
        bias = None if descriptor.bias is None else strides(descriptor.bias)[0]
        self.words = axis_words(self.axes, self.steps) | {
            f"strip {a}": pitch for a, pitch in enumerate(self.pitches)
        }
        self.words |= {
            "parts": self.parts,
            "strips": self.input_tiles,
            "vectors": self.vectors,
            "groups": descriptor.groups,
            "held": held,
            "channels": groups.source,
            "features": groups.target,
            "results": groups.results(lanes),
            "x_channel": x[1] * given,
            "gradient_channel": gradient[1] * given,
            "bias_channel": (bias or 0) * result,
            "worker_bytes": input_tile + packed,
            "packed_at": input_tile,
            "packed_pixel": pixel,
            "part_sums": taps * tap + self.vectors * pixel,
            "tap_sums": tap,
            "turn_sums": turn,
            "tap_row_sums": self.axes[3].kernel * tap,
            "bias_sums": taps * tap,
            "has_bias": int(bias is not None),
            "x_direct": int(self.x_direct),
            "gradient_direct": int(direct),
            "dense": 0,
            "taps": taps,
            "x_move": 0 if x[1] == 1 else self._move(x[1], self.axes[3].x),
            "gradient_move": 0 if direct else self._move(gradient[1], self.axes[3].gradient),
        }
        self.words["column_sums"] = 0
        if bias is not None:
            self.words |= vector_loops.addresses(["column_sums"], dtype)
        self._taps(dtype, groups, tap)
        self._out(descriptor, groups, dtype)

    def divide(self, workers: int) -> Division:
        """Divides vectors of channels among threads if there are fewer parts than threads."""
        splits = min(-(-workers // self.parts), self.vectors)
        shared = workers * self.words["worker_bytes"]
        items = self.parts * splits, self.vectors
        nbytes = shared + self.parts * self.words["part_sums"]
        return Division(items, {"splits": splits, "shared_at": shared}, nbytes)

    def _move(self, channel: int, pixel: int) -> int:
        # Copy function from channels that are ``channel`` elements apart and pixels that are
        # ``pixel`` bytes apart.
        given = self.descriptor.x.dtype
        kind = strided_copy.kind(0, 1, pixel // given.itemsize, channel)
        return strided_copy.address(kind, given, computed(given))

    def _taps(self, dtype: DType, groups: Groups, tap: int) -> None:
        # Blocks of places of the kernel whose accumulators fit the registers, and the offset of
        # each place.
        images, deep, high, wide = self.axes
        most = depthwise_taps.most(groups, target.host())
        columns = tile.balanced(wide.kernel, most)
        columns_most = columns.size + (columns.longer > 0)
        rows = tile.balanced(high.kernel, max(most // columns_most, 1))
        blocks = list(
            itertools.product(
                ((k, 1) for k in range(deep.kernel)), list(_cut(rows)), list(_cut(columns))
            )
        )
        steps, spreads = (high.stride, wide.stride), (high.dilation, wide.dilation)
        edges = Edges.of(wide) if self.x_direct else Edges()
        taps = [
            WgradMicrokernel(groups, row[1], column[1], steps, spreads, edges)
            for _, row, column in blocks
        ]
        codes = depthwise_taps.addresses(dtype, taps)
        needs_copies = not self.x_direct and strides(self.descriptor.x)[1] == 1
        self.words["copy_plane"] = copies.address(self.descriptor.x.dtype) if needs_copies else 0
        table = []
        for (plane, row, column), each in zip(blocks, taps, strict=True):
            starts = (0, plane[0], row[0], column[0])
            parts = zip(starts, self.axes, self.pitches, strict=True)
            in_input_tile = sum(k * axis.dilation * pitch for k, axis, pitch in parts)
            place = (plane[0] * high.kernel + row[0]) * wide.kernel + column[0]
            table += [codes[each], in_input_tile, row[0] * high.dilation, place * tap]
        self.words["blocks"] = len(table) // BLOCK
        self.table = array(table)
        self.words["block_table"] = address(self.table)

    def _out(self, descriptor: ConvWeightGrad, groups: Groups, dtype: DType) -> None:
        # Destination of the sums of several places of the kernel at a time.
        result = descriptor.out.dtype
        grouped = len(descriptor.out.shape) == len(descriptor.x.shape) + 1
        group, feature, channel, *_ = (
            step * result.itemsize for step in (0,) * (not grouped) + strides(descriptor.out)
        )
        group = group if grouped else feature * groups.target
        kernel, moves = zip(*((axis.kernel, axis.out) for axis in self.axes[1:]), strict=True)
        sizes, along = panels.merged(kernel, moves)
        lies = group // result.itemsize, along // result.itemsize if sizes[2] > 1 else 1
        kind = strided_copy.kind(*lies, groups.source, 0)
        self.words |= {
            "out_group": group,
            "out_feature": feature,
            "out_channel": channel,
            "out_planes": sizes[0],
            "out_rows": sizes[1],
            "out_columns": sizes[2],
            "out_plane": moves[0],
            "out_row": moves[1],
            "out_column": along,
            "out_move": strided_copy.address(kind, dtype, result),
        }


def _cut(cut: tile.Cut) -> list[tuple[int, int]]:
    # (first, count) of each part.
    sizes = [cut.size + (part < cut.longer) for part in range(cut.parts)]
    return list(zip(itertools.accumulate([0, *sizes[:-1]]), sizes, strict=True))
