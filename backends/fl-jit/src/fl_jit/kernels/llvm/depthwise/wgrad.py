"""The wgrad of depthwise convolutions, of convolutions of small groups, and of their biases.

The loop nest is that of ``conv_wgrad/loop_nest.py``, with another innermost part:

    for part of the pixels, for some panels                              distributed to threads
      for input tile of pixels                                           of adjacent rows
        for panel                                                        a vector of channels
          copy the input tile of x, with zeros around the image          unless it is read in place
          for image, for plane of the tile, for block of kernel positions
            micro-kernel: accumulators[positions, turn, channels] +=
                              x[pixels + positions, channels] * gradient[pixels]

A panel is a vector of channels. It holds whole groups, and has an accumulator for every turn
(``groups.py``), which counts as a row of the result. Contiguous single channels are read in place.
The micro-kernel (``wgrad_microkernel.py``) knows which columns of the kernel the pixels at the ends
of a line see, and has the row bounds of the image as arguments. Other images are copied.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from fl_jit.kernels import cpu
from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.vectors import IR, i64
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.llvm import padded_input, tile
from fl_jit.kernels.llvm.conv_wgrad.arguments import WgradArguments
from fl_jit.kernels.llvm.conv_wgrad.axes import (
    Axis,
    axes_of,
    input_strides,
    kernel_strides,
    steps_of,
    strides,
    with_strides,
)
from fl_jit.kernels.llvm.conv_wgrad.loop_nest import Gradient, LoopNest
from fl_jit.kernels.llvm.conv_wgrad.plan import MOST_PARTS, Plan
from fl_jit.kernels.llvm.conv_wgrad.wgrad import WgradKernel
from fl_jit.kernels.llvm.depthwise import wgrad_microkernel
from fl_jit.kernels.llvm.depthwise.groups import Groups
from fl_jit.kernels.llvm.depthwise.wgrad_microkernel import Edges, WgradMicrokernel
from fl_jit.kernels.llvm.launcher import aligned
from fl_jit.kernels.llvm.loop_nest import computed

#: Multiply-adds per nanosecond, approximately.
_SPEED = 10.0
#: Minimum pixels of an input tile, if there are as many, and maximum: all of them are added one by
#: one.
_LEAST_PIXELS, _MOST_PIXELS = 64, 1024
#: Minimum pixels of a part, which has few accumulators.
_PART_PIXELS = 1024
#: Maximum columns of the kernel for which x is read in place: there is code for every pixel near
#: the end of a line.
_COLUMNS = 7
#: Fields of an entry of the table of blocks: the code, the offset of its positions in the input
#: tile, the row there, and the offset in the accumulators.
_BLOCK = 4
#: Row extent of a copy, which contains every row of the windows.
_ALL = i64(1 << 62)


def prepare(descriptor: ConvWeightGrad) -> WgradKernel:
    """A kernel for one floating dtype throughout, by strides. Raises UnsupportedError for anything
    else."""
    arguments = DepthwiseArguments(with_strides(descriptor))
    return WgradKernel.of(DepthwiseLoopNest, arguments, "depthwise", _SPEED)


class DepthwiseArguments(WgradArguments):
    """The kernel arguments of ``DepthwiseLoopNest``. Columns are groups."""

    #: Threads share no turns.
    divided_tiles = 1

    def __init__(self, descriptor: ConvWeightGrad) -> None:
        self.of_group = groups = Groups.of(descriptor)
        axes = axes_of(descriptor)
        held = groups.held(target.host().lanes(computed(descriptor.x.dtype).itemsize))
        made = _plan(descriptor, axes, groups)
        super().__init__(descriptor, axes, made, 1, descriptor.groups, held, groups)
        self.fields |= self._input_tile() | self._accumulators()
        self.fields |= self.moves(held * groups.source, held * groups.target, self.panels > 1)
        self.fields |= self._blocks()

    def _input_tile(self) -> dict[str, int]:
        made, axes = self.made, self.axes
        self.pitches, nbytes = input_strides(axes, made.steps, self.wide)
        if made.x_direct:
            self.pitches, nbytes = [axis.x for axis in axes], 0
        copies = aligned(self.fields["copies"] * self.copy_bytes)
        return {f"input {a}": pitch for a, pitch in enumerate(self.pitches)} | {
            "kernel_row_pitch": axes[2].dilation * self.pitches[2],
            "gradient_at": aligned(nbytes),
            "worker_bytes": aligned(nbytes) + copies,
        }

    def _accumulators(self) -> dict[str, int]:
        parts, (channels, turns) = self.made.parts, self.of_group
        kernel = [range(axis.kernel) for axis in self.axes[1:]]
        moves = [axis.out for axis in self.axes[1:]]
        in_out = [
            sum(i * move for i, move in zip(place, moves, strict=True))
            for place in itertools.product(*kernel)
        ]
        group, feature, channel = kernel_strides(self.descriptor, turns)
        # The lanes of a turn multiply for different features (``groups.py``).
        rows = [
            (c + turn) % turns * feature + c * channel
            for turn in range(turns)
            for c in range(channels)
        ]
        positions, turn = len(in_out), self.panels * self.wide
        # If kernel positions are contiguous in the result, squares of them are transposed.
        inside = in_out == list(range(0, positions * self.result, self.result))
        by_rows = inside and group != self.result
        apart = group // self.result
        self.outwards = (apart, 1, channels, 0) if by_rows else (0, apart, 0, channels)
        bias = self.made.vectors * self.wide
        return {
            "positions": positions,
            "acc_part": positions * turns * turn,
            "acc_panel": self.wide,
            "acc_tile": turn,
            "acc_row": turn,
            "acc_kernel_row": self.axes[3].kernel * turns * turn,
            "acc_position": turns * turn,
            "acc_column": channels * self.item,
            "acc_row_bytes": self.wide,
            "acc_run": turns * turn,
            "bias_acc_at": parts * positions * turns * turn,
            "bias_acc_group": parts * self.panels * bias,
            "bias_acc_part": self.panels * bias,
            "bias_acc_panel": bias,
            "out_panel": self.width * group,
            "out_column": group,
            "by_rows": int(by_rows),
            "runs": 1,
            "position_in_out": self.table(in_out),
            "row_in_out": self.table(rows),
        }

    def _blocks(self) -> dict[str, int]:
        # Blocks of kernel positions whose accumulators fit the registers, and the offset of each.
        _, deep, high, wide = self.axes
        most = wgrad_microkernel.most(self.of_group, target.host())
        columns = list(_parts(wide.kernel, most))
        rows = list(_parts(high.kernel, max(most // columns[0][1], 1)))
        blocks = list(itertools.product(range(deep.kernel), rows, columns))
        steps, spreads = (high.stride, wide.stride), (high.dilation, wide.dilation)
        edges = Edges.of(wide) if self.made.x_direct else Edges()
        kernels = [
            WgradMicrokernel(self.of_group, row[1], column[1], steps, spreads, edges)
            for _, row, column in blocks
        ]
        codes = wgrad_microkernel.addresses(self.dtype, kernels)
        table = []
        for (plane, (row, _), (column, _)), kernel in zip(blocks, kernels, strict=True):
            parts = zip((0, plane, row, column), self.axes, self.pitches, strict=True)
            in_input_tile = sum(k * axis.dilation * pitch for k, axis, pitch in parts)
            position = (plane * high.kernel + row) * wide.kernel + column
            offset = position * self.fields["acc_position"]
            table += [codes[kernel], in_input_tile, row * high.dilation, offset]
        return {"blocks": len(blocks), "block_table": self.table(table)}


def _plan(descriptor: ConvWeightGrad, axes: Sequence[Axis], groups: Groups) -> Plan:
    dtype = computed(descriptor.x.dtype)
    # Input tiles of all channels stay in L2: their lines are used once per vector of channels.
    pixels = cpu.host().l2 // (4 * descriptor.x.shape[1] * dtype.itemsize)
    steps = steps_of(axes, min(max(pixels, _LEAST_PIXELS), _MOST_PIXELS))
    input_tiles = math.prod(-(-axis.size // step) for axis, step in zip(axes, steps, strict=True))
    parts = math.prod(axis.size for axis in axes) // _PART_PIXELS
    converts = descriptor.x.dtype is not dtype
    reads_x = axes[1].is_inside and axes[3].kernel <= _COLUMNS and steps[3] == axes[3].size
    return Plan(
        steps,
        input_tiles,
        parts=max(1, min(parts, MOST_PARTS, input_tiles)),
        joined=False,
        rows=groups.target,
        cut=tile.balanced(groups.target, 1),
        vectors=groups.results(target.host().lanes(dtype.itemsize)),
        x_direct=groups == (1, 1) and strides(descriptor.x)[1] == 1 and not converts and reads_x,
        gradient_direct=strides(descriptor.gradient)[1] == 1 and not converts,
        prefetch=False,
        pairs=False,
        ranges=((0, axes[3].size),),
    )


def _parts(length: int, most: int) -> list[tuple[int, int]]:
    # (first, count) of equal parts of at most ``most``.
    cut = tile.balanced(length, most)
    sizes = [cut.size + (part < cut.longer) for part in range(cut.parts)]
    return list(zip(itertools.accumulate([0, *sizes[:-1]]), sizes, strict=True))


class DepthwiseLoopNest(LoopNest):
    """The loop nest whose micro-kernels are those of ``wgrad_microkernel.py``."""

    def compute(self, panel: IR, gradient: Gradient) -> None:
        b, args = self.b, self.args
        image = self.sum(args["x"], (panel, args["x_panel"]))
        axes, x_direct = self.tile_axes(), self.is_set("x_direct")
        self.columns = self.columns_of(panel)
        with self.when(b.not_(x_direct)):
            channels = b.mul(self.columns, args["group_channels"])
            with padded_input.rows(self, axes, image, self.input_tile) as row:
                padded_input.copy_row(self, row, self.pixel_copy(), channels)
        first = self.sum(image, *((axis.first, axis.image) for axis in axes))
        source = b.select(x_direct, first, self.input_tile)
        self.top = b.select(x_direct, axes[2].first, i64(0))
        self.extent = b.select(x_direct, axes[2].extent, _ALL)
        images, planes, rows = self._gradient_strides(gradient)
        with (
            self.loop(i64(0), self.extents[0]) as n,
            self.loop(i64(0), self.extents[1]) as plane,
        ):
            inner = b.icmp_signed(">", b.add(n, plane), i64(0))
            add = b.or_(self.adds, b.zext(inner, i64))
            here = self.sum(gradient.start, (n, images), (plane, planes))
            stride = b.mul(plane, args["stride 1"])
            x = self.sum(source, (n, args["input 0"]), (stride, args["input 1"]))
            self._blocks(x, gradient._replace(start=here), rows, panel, add)
            with self.when(self.counts_bias), self.loop(i64(0), self.extents[2]) as row:
                later = b.or_(add, b.zext(b.icmp_signed(">", row, i64(0)), i64))
                line = gradient._replace(start=self.sum(here, (row, rows)))
                self.sum_bias(panel, line, self.extents[3], later)
        with self.loop(*self.tiles) as turn:
            self.put(panel, turn, self._accumulators(panel, turn))

    def _gradient_strides(self, gradient: Gradient) -> list[IR]:
        # Distances of images, planes and rows, which a copy has in the order of ``_copy_gradient``.
        b, (images, planes, _, pixels) = self.b, self.extents
        plane = b.mul(pixels, gradient.pixel)
        image = b.mul(planes, plane)
        copied = image, plane, b.mul(images, image)
        direct = self.is_set("gradient_direct")
        return [b.select(direct, self.args[f"gradient {a}"], s) for a, s in enumerate(copied)]

    def _accumulators(self, panel: IR, turn: IR) -> IR:
        offset = self.accumulators_of(self.group, self.part, panel, turn)
        return self.b.add(self.all_accumulators, offset)

    def _blocks(self, x: IR, gradient: Gradient, row_pitch: IR, panel: IR, add: IR) -> None:
        b, args = self.b, self.args
        table, accumulators = self.address(args["block_table"]), self._accumulators(panel, i64(0))
        row = b.mul(args["stride 2"], args["input 2"])
        x_pitches = args["kernel_row_pitch"], row, args["input 3"]
        with self.loop(i64(0), args["blocks"]) as block:
            first = b.mul(block, i64(_BLOCK))
            code, in_input_tile, below, in_accumulators = (
                self.entry(table, b.add(first, i64(k))) for k in range(_BLOCK)
            )
            self.call(
                *(code, wgrad_microkernel.SIGNATURE),
                *(self.address(b.add(x, in_input_tile)), *x_pitches),
                *(b.add(self.top, below), self.extent),
                *(self.address(gradient.start), row_pitch, gradient.pixel, *self.extents[2:]),
                self.address(b.add(accumulators, in_accumulators)),
                *(args[name] for name in ("acc_kernel_row", "acc_position", "acc_row")),
                *(self.columns, add),
            )
