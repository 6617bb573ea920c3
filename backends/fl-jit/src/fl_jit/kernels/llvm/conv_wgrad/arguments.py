"""Values of the kernel arguments of a wgrad (``kernel_args.py``), and tables that some point to."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.llvm import microkernel_registry, prefetch_policy, strided_copy
from fl_jit.kernels.llvm.conv_wgrad import vector_loops
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, axis_fields, kernel_strides, rounded, strides
from fl_jit.kernels.llvm.conv_wgrad.plan import Plan, tallest
from fl_jit.kernels.llvm.launcher import Division
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.strided_copy import Move
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import bfloat16, float32, int16, int32


class WgradArguments:
    """The kernel arguments of a descriptor with the plan ``made``, for ``groups`` loops over
    ``columns`` of ``group_channels`` and ``group_features`` each, in panels of ``width``.

    Derived classes add the fields of the input tile of x, of accumulators and of micro-kernels.
    ``tables`` must stay alive.
    """

    def __init__(
        self,
        descriptor: ConvWeightGrad,
        axes: Sequence[Axis],
        made: Plan,
        groups: int,
        columns: int,
        width: int,
        of_column: tuple[int, int] = (1, 1),
    ) -> None:
        self.descriptor, self.made, self.axes = descriptor, made, axes
        self.groups, self.columns, self.width = groups, columns, width
        self.group_channels, self.group_features = of_column
        self.dtype = computed(descriptor.x.dtype)
        #: Bytes of an element that is computed with, of one of x, and of one of the result.
        self.item, self.given = self.dtype.itemsize, descriptor.x.dtype.itemsize
        self.result = descriptor.out.dtype.itemsize
        self.lanes = target.host().lanes(self.item)
        self.wide = self.lanes * self.item
        self.channels = descriptor.x.shape[1] // groups
        self.panels = -(-columns // width)
        self.tables: list[Any] = []
        #: Bytes of a copy of the input tile of the gradient.
        self.copy_bytes = (
            math.prod(made.steps[:-1]) * made.turns(made.steps[-1]) * made.vectors * self.wide
        )
        #: Values of the fields, 0 where there is none.
        self.fields: dict[str, int] = defaultdict(int)
        self.fields |= axis_fields(axes, made.steps) | self._operands() | self._vector_loops()

    def divide(self, workers: int) -> Division:
        """The division of work among threads. Panels and tiles are divided if there are too few
        parts."""
        fields, base = self.fields, self.groups * self.made.parts
        panels_by, tiles_by = _splits(base, self.panels, self.divided_tiles, workers)
        shared = workers * fields["worker_bytes"]
        more = {"panel_splits": panels_by, "tile_splits": tiles_by, "shared_at": shared}
        second = self.groups * self.panels * fields["tiles"] if self.made.parts > 1 else 0
        items = base * panels_by * tiles_by, second
        return Division(items, more, shared + self.shared_bytes)

    @property
    def divided_tiles(self) -> int:
        """The number of tiles that threads may share."""
        return self.made.cut.parts

    @property
    def shared_bytes(self) -> int:
        """Bytes of the accumulators that all threads share."""
        fields = self.fields
        return fields["bias_acc_at"] + self.groups * fields["bias_acc_group"] * fields["has_bias"]

    def table(self, numbers: Sequence[int]) -> int:
        """The address of a table of these numbers."""
        self.tables.append(array(numbers))
        return address(self.tables[-1])

    def _operands(self) -> dict[str, int]:
        descriptor, made, given = self.descriptor, self.made, self.given
        channel, feature = strides(descriptor.x)[1], strides(descriptor.gradient)[1]
        bias = strides(descriptor.bias)[0] * self.result if descriptor.bias else 0
        features = self.columns * self.group_features
        of_panel = self.width * self.group_features
        copies = list(made.ranges)
        return {
            "parts": made.parts,
            "input_tiles": made.input_tiles,
            "panels": self.panels,
            "tiles": made.cut.parts,
            "tile_size": made.cut.size,
            "longer": made.cut.longer,
            "channels": self.channels,
            "columns": self.columns,
            "width": self.width,
            "group_channels": self.group_channels,
            "group_features": self.group_features,
            "x_group": channel * self.channels * given,
            "x_panel": channel * self.width * self.group_channels * given,
            "x_channel": channel * given,
            "x_direct": int(made.x_direct),
            "gradient_group": feature * features * given,
            "gradient_panel": feature * of_panel * given,
            "gradient_feature": feature * given,
            "gradient_direct": int(made.gradient_direct),
            "copies": 0 if made.gradient_direct else len(copies),
            "copy_bytes": self.copy_bytes,
            "copy_ranges": self.table([number for each in copies for number in each]),
            "out_item": self.result,
            "has_bias": int(descriptor.bias is not None),
            "bias_group": bias * features,
            "bias_panel": bias * of_panel,
            "bias_feature": bias,
        }

    def _vector_loops(self) -> dict[str, int]:
        # The vector loops that are needed.
        needed = {
            "column_sums": self.descriptor.bias is not None and not self.made.pairs,
            "sums_of_pairs": self.descriptor.bias is not None and self.made.pairs,
            "add_up": self.made.parts > 1,
            "pair_up": self.made.pairs,
        }
        names = [name for name, is_needed in needed.items() if is_needed]
        found = vector_loops.addresses(names, self.dtype)
        if "sums_of_pairs" in found:
            found["column_sums"] = found.pop("sums_of_pairs")
        return found

    def moves(self, channels: int, features: int, many: bool) -> dict[str, int]:
        """The copies that are needed, by contiguous axes of x, of the gradient and of the result.
        Pixels of ``channels`` and of ``features`` are copied. ``many``: others follow, of the next
        group or panel."""
        made, descriptor = self.made, self.descriptor
        given, own = (int16, int32) if made.pairs else (descriptor.x.dtype, self.dtype)

        def into_tile(image: Any, pixel: int, count: int) -> Move:
            channel = 1 if count == 1 else strides(image)[1]
            kind = strided_copy.kind(0, 1, pixel // self.given, channel)
            has_neighbor = many and kind == "straight"
            distance = prefetch_policy.copy_distance(has_neighbor, count * self.given)
            return Move(kind, given, own, distance)

        found: dict[str, Move] = {}
        if not made.x_direct:
            found["x_move"] = into_tile(descriptor.x, self.axes[-1].x, channels)
        if not made.gradient_direct:
            pixel = self.axes[-1].gradient
            found["gradient_move"] = into_tile(descriptor.gradient, pixel, features)
        if not self.fields["in_place"]:
            kind = strided_copy.kind(*self.outwards)
            found["out_move"] = Move(kind, self.dtype, descriptor.out.dtype)
        if made.pairs:
            contiguous = features == 1 or strides(descriptor.gradient)[1] == 1
            found["pairs_move"] = Move("abreast" if contiguous else "pairs", bfloat16, float32)
            if found["gradient_move"].kind == "transposed":  # pairs are contiguous already
                found["pairs_move"] = Move("transposed", int32, int32)
        addresses = strided_copy.addresses(list(found.values()))
        return dict(zip(found, addresses, strict=True))

    #: Strides of the copy into the result: arguments of ``strided_copy.kind``.
    outwards: tuple[int, int, int, int]


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
            "gradient_at": rounded(nbytes),
            "acc_at": rounded(nbytes) + rounded(self.fields["copies"] * self.copy_bytes),
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
        own = rounded(height * positions * pitch) if local else 0
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


def input_strides(axes: Sequence[Axis], steps: Sequence[int], pixel: int) -> tuple[list[int], int]:
    """The byte stride of each axis in an input tile of x, of ``steps`` positions of the gradient
    with ``pixel`` bytes for each pixel; and the bytes of the tile."""
    pitches = [pixel]
    for axis, step in list(zip(axes, steps, strict=True))[::-1]:
        pitches.insert(0, pitches[0] * axis.read_extent(step))
    return pitches[1:], pitches[0]


def _splits(base: int, panels: int, tiles: int, workers: int) -> tuple[int, int]:
    # The numbers of splits of panels and of tiles that balance the work of the workers. A worker
    # with more panels copies the gradient more often, one with more tiles copies x more often.
    def cost(splits: tuple[int, int]) -> float:
        by_panels, by_tiles = -(-panels // splits[0]), -(-tiles // splits[1])
        rounds = -(-base * splits[0] * splits[1] // workers)
        return rounds * (by_panels * by_tiles + 0.2 * (by_tiles + by_panels))

    most = range(1, min(panels, workers) + 1), range(1, min(tiles, workers) + 1)
    return min(itertools.product(*most), key=cost)
