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
from fl_jit.kernels.llvm import prefetch_policy, strided_copy
from fl_jit.kernels.llvm.conv_wgrad import vector_loops
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, axis_fields, strides
from fl_jit.kernels.llvm.conv_wgrad.plan import Plan
from fl_jit.kernels.llvm.launcher import Division
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.strided_copy import Move
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
            found["pairs_move"] = Move("row_pairs" if contiguous else "pairs", bfloat16, float32)
            if found["gradient_move"].kind == "transposed":  # pairs are contiguous already
                found["pairs_move"] = Move("transposed", int32, int32)
        addresses = strided_copy.addresses(list(found.values()))
        return dict(zip(found, addresses, strict=True))

    #: Strides of the copy into the result: arguments of ``strided_copy.kind``.
    outwards: tuple[int, int, int, int]


def _splits(base: int, panels: int, tiles: int, workers: int) -> tuple[int, int]:
    # The numbers of splits of panels and of tiles that balance the work of the workers. A worker
    # with more panels copies the gradient more often, one with more tiles copies x more often.
    def cost(splits: tuple[int, int]) -> float:
        by_panels, by_tiles = -(-panels // splits[0]), -(-tiles // splits[1])
        rounds = -(-base * splits[0] * splits[1] // workers)
        return rounds * (by_panels * by_tiles + 0.2 * (by_tiles + by_panels))

    most = range(1, min(panels, workers) + 1), range(1, min(tiles, workers) + 1)
    return min(itertools.product(*most), key=cost)
