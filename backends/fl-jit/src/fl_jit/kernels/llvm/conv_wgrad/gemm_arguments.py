"""Values of the kernel arguments of a wgrad whose micro-kernels are those of GEMM."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from fl_jit.kernels.codegen import target
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.llvm import microkernel_registry
from fl_jit.kernels.llvm.conv_wgrad.arguments import WgradArguments
from fl_jit.kernels.llvm.conv_wgrad.axes import (
    Axis,
    input_strides,
    kernel_strides,
    strides,
)
from fl_jit.kernels.llvm.conv_wgrad.plan import Plan, tallest
from fl_jit.kernels.llvm.launcher import aligned
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import bfloat16


class GemmArguments(WgradArguments):
    """The kernel arguments of ``loop_nest.GemmLoopNest``."""

    def __init__(self, descriptor: ConvWeightGrad, axes: Sequence[Axis], made: Plan) -> None:
        groups, lanes = (
            descriptor.groups,
            target.host().lanes(computed(descriptor.x.dtype).itemsize),
        )
        features = descriptor.gradient.shape[1] // groups
        super().__init__(descriptor, axes, made, groups, features, made.vectors * lanes)
        #: Axes of kernel positions. Positions of a joined row count as one.
        self.kernel_axes = [*axes[:-1], axes[-1]._replace(kernel=1)] if made.joined else list(axes)
        self.positions = list(itertools.product(*(range(axis.kernel) for axis in self.kernel_axes)))
        self.fields |= self._input_tile() | self._read_ranges()
        self.fields |= self._accumulators()
        self.fields |= self.moves(self.channels, features, groups > 1) | self._kernels()

    def _input_tile(self) -> dict[str, int]:
        # Strides of x: pixels, lines, planes, images, then tiles.
        made, axes = self.made, self.axes
        pixel = self.channels * self.item
        if not made.joined:
            pixel = -(-tallest(made.cut) // self.lanes) * self.wide
        #: Byte stride of each axis in the input tile of x.
        self.pitches, tile_bytes = input_strides(axes, made.steps, pixel)
        nbytes = tile_bytes * (1 if made.joined else made.cut.parts) + self.wide
        if made.x_direct:
            self.pitches, nbytes = [axis.x for axis in axes], 0
        by_rows = made.joined or made.x_direct
        rest = [axis.size % step or step for axis, step in zip(axes, made.steps, strict=True)]
        side_by_side = self.channels == 1 or strides(self.descriptor.x)[1] == 1
        dense = made.joined and side_by_side and axes[-1].x == self.channels * self.given
        return {f"input {a}": pitch for a, pitch in enumerate(self.pitches)} | {
            "joined": int(made.joined),
            "dense": int(dense),
            "tile_pitch": 0 if by_rows else tile_bytes,
            "row_pitch": self.item if by_rows else 0,
            "input_pixels": math.prod(made.steps),
            "input_rows": self.table(self._rows(made.steps)),
            "last_input_rows": self.table(self._rows(rest)),
            "gradient_at": aligned(nbytes),
            "acc_at": aligned(nbytes) + aligned(self.fields["copies"] * self.copy_bytes),
        }

    def _rows(self, steps: Sequence[int]) -> list[int]:
        # Offsets of the rows of pixels of an input tile. Those of the same line of all planes
        # follow each other, so that lines which read only padding are adjacent.
        images, planes, lines, _ = (
            [i * axis.stride * pitch for i in range(step)]
            for axis, step, pitch in zip(self.axes, steps, self.pitches, strict=True)
        )
        return [line + image + plane for line in lines for image in images for plane in planes]

    def _read_ranges(self) -> dict[str, int]:
        # The lines of an input tile, and their pixels, that kernel positions read.
        made, pixel = self.made, self.axes[-1].stride * self.pitches[-1]
        copies = list(made.ranges)
        lines = [self.kernel_axes[2].read_through(place[2]) for place in self.positions]
        ranges = [made.range_of(self.kernel_axes[-1], place[3]) for place in self.positions]
        in_input_tile = [
            sum(
                i * a.dilation * pitch
                for i, a, pitch in zip(place, self.kernel_axes, self.pitches, strict=True)
            )
            for place in self.positions
        ]
        return {
            "positions": len(self.positions),
            "position_in_input": self.table(
                [at + first * pixel for at, (first, _) in zip(in_input_tile, ranges, strict=True)]
            ),
            "position_in_copies": self.table(
                [copies.index(each) * self.copy_bytes for each in ranges]
            ),
            "position_steps": self.table([made.turns(end - first) for first, end in ranges]),
            "first_row": self.table([first for first, _ in lines]),
            "end_row": self.table([end for _, end in lines]),
        }

    def _accumulators(self) -> dict[str, int]:
        """A tile's accumulators are rows of features, for each kernel position. They are

        in place    in the result, if features are contiguous there, as micro-kernels write
        local       in memory of the thread that computes them, if it completes a tile at once
        otherwise   in memory shared by all threads: those of every part, panel and tile
        """
        made, result, positions = self.made, self.result, len(self.positions)
        features = self.columns
        group, feature, channel = kernel_strides(self.descriptor, features)
        in_out = [
            sum(i * a.out for i, a in zip(place, self.kernel_axes, strict=True))
            for place in self.positions
        ]
        kernel = range(self.axes[-1].kernel if made.joined else 1)
        rows = [k * self.axes[-1].out + c * channel for k in kernel for c in range(self.channels)]
        step = rows[1] if len(rows) > 1 else result

        def are_apart(distance: int) -> bool:
            return rows == list(range(0, len(rows) * distance, distance))

        by_features = features == 1 or feature == result
        # Accumulators have the order of the result, if that is dense. Then squares of them are
        # transposed.
        inside = in_out == list(range(0, positions * result, result)) and are_apart(
            positions * result
        )
        by_rows = (inside or are_apart(result)) and not by_features
        is_even = by_features and are_apart(step)
        in_place = made.parts == 1 and self.descriptor.out.dtype is self.dtype and is_even
        local = made.parts == made.input_tiles == 1 and not in_place
        pitch = self.width * self.item
        height = tallest(made.cut) if local else made.rows
        row, position = (positions * pitch, pitch) if inside else (pitch, height * pitch)
        panel = 0 if local else made.rows * positions * pitch
        part = self.panels * panel
        own = aligned(height * positions * pitch) if local else 0
        apart = 1 if features == 1 else feature // result
        self.outwards = (apart, 1, 1, 0) if by_rows else (0, apart, 0, 1)
        return {
            "worker_bytes": self.fields["acc_at"] + own,
            "in_place": int(in_place),
            "local": int(local),
            "acc_group": group if in_place else made.parts * part,
            "acc_part": part,
            "acc_panel": self.width * feature if in_place else panel,
            "acc_tile": step if in_place else 0 if local else row,
            "acc_row": step if in_place else row,
            "acc_position": position,
            "acc_column": self.item,
            "acc_row_bytes": pitch,
            "acc_run": pitch,
            "position_in_acc": self.table(
                in_out if in_place else [i * position for i in range(positions)]
            ),
            "bias_acc_at": 0 if in_place else self.groups * made.parts * part,
            "bias_acc_group": made.parts * self.panels * pitch,
            "bias_acc_part": self.panels * pitch,
            "bias_acc_panel": pitch,
            "out_group": group,
            "out_panel": self.width * feature,
            "out_column": feature,
            "by_rows": int(by_rows),
            "runs": 1 if inside else positions,
            "position_in_out": self.table(in_out),
            "row_in_out": self.table(rows),
        }

    def _kernels(self) -> dict[str, int]:
        made = self.made
        tail = self.columns - (self.panels - 1) * self.width
        partial = tail % self.lanes > 0 and (made.gradient_direct or self.fields["in_place"])
        lies = "rows" if made.gradient_direct else "packed"
        kernels: dict[str, MicroKernel] = {}
        for kind, vectors in (("", made.vectors), ("_tail", -(-tail // self.lanes))):
            masked = bool(partial) and kind == "_tail"
            for name, rows in (("long", made.cut.size + 1), ("short", made.cut.size)):
                dtype = bfloat16 if made.pairs else self.dtype
                kernel = MicroKernel(
                    *(dtype, Tile(rows, vectors), "columns", lies, masked), prefetch=made.prefetch
                )
                if name == "short" or made.cut.longer:
                    kernels[f"{name}{kind}_kernel"] = kernel
        found = microkernel_registry.addresses(kernels.values())
        return {name: found[kernel] for name, kernel in kernels.items()}
