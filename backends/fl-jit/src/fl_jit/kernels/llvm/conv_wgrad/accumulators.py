"""Memory of the accumulators of a wgrad, and the layout of its result.

A tile's accumulators are rows of features, for each kernel position. They are

    in place    in the result, if features are contiguous there, as micro-kernels write
    local       in memory of the thread that computes them, if it completes a tile at once
    otherwise   in memory shared by all threads: those of every part, panel and tile
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_jit.kernels.llvm.conv_wgrad.axes import rounded, strides
from fl_jit.kernels.llvm.conv_wgrad.plan import tallest

if TYPE_CHECKING:
    from fl_jit.kernels.llvm.conv_wgrad.arguments import WgradArguments


class Accumulators:
    """The kernel arguments about the accumulators of a wgrad, and about its result.

    shared    bytes of accumulators and of those of biases, in shared memory
    own       bytes of accumulators, in memory of each thread
    outwards  strides of the copy into the result, arguments of ``strided_copy.kind``
    in_place  whether micro-kernels write the result
    """

    def __init__(self, job: WgradArguments) -> None:
        made, out, item = job.made, job.descriptor.out, job.item
        result, taps = out.dtype.itemsize, len(job.places)
        grouped = len(out.shape) == len(job.descriptor.x.shape) + 1
        group, feature, channel = (
            step * result for step in ((0,) * (not grouped) + strides(out))[:3]
        )
        group = group if grouped else feature * job.features
        in_out = [
            sum(i * a.out for i, a in zip(place, job.taps, strict=True)) for place in job.places
        ]
        kernel = range(job.axes[-1].kernel if made.joined else 1)
        rows = [k * job.axes[-1].out + c * channel for k in kernel for c in range(job.channels)]
        step = rows[1] if len(rows) > 1 else result

        def are_apart(distance: int) -> bool:
            return rows == list(range(0, len(rows) * distance, distance))

        by_features = job.features == 1 or feature == result
        # Accumulators have the order of the result, if that is dense. Then squares of them are
        # transposed.
        inside = in_out == list(range(0, taps * result, result)) and are_apart(taps * result)
        by_rows = (inside or are_apart(result)) and not by_features
        is_even = by_features and are_apart(step)
        self.in_place = made.parts == 1 and out.dtype is job.dtype and is_even
        local = made.parts == made.input_tiles == 1 and not self.in_place
        pitch = job.width * item
        height = tallest(made.cut) if local else made.rows
        row, tap = (taps * pitch, pitch) if inside else (pitch, height * pitch)
        panel = 0 if local else made.rows * taps * pitch
        part, bias = job.panels * panel, job.panels * pitch
        all_accumulators = 0 if self.in_place else job.groups * made.parts * part
        has_bias = job.descriptor.bias is not None
        bias_step = strides(job.descriptor.bias)[0] * result if job.descriptor.bias else 0
        self.shared = all_accumulators + job.groups * made.parts * bias * has_bias
        self.own = rounded(height * taps * pitch) if local else 0
        along = 1 if job.features == 1 else feature // result
        self.outwards = (along, 1, 1, 0) if by_rows else (0, along, 0, 1)
        self.words = {
            "in_place": int(self.in_place),
            "local": int(local),
            "group_sums": group if self.in_place else made.parts * part,
            "part_sums": part,
            "panel_sums": job.width * feature if self.in_place else panel,
            "tile_sums": step if self.in_place else 0 if local else row,
            "row_sums": step if self.in_place else row,
            "tap_sums": tap,
            "tap_in_sums": job.table(in_out if self.in_place else [i * tap for i in range(taps)]),
            "bias_sums_at": all_accumulators,
            "bias_part_sums": bias,
            "bias_group_sums": made.parts * bias,
            "out_group": group,
            "out_feature": feature,
            "out_item": result,
            "by_rows": int(by_rows),
            "runs": 1 if inside else taps,
            "tap_in_out": job.table(in_out),
            "row_in_out": job.table(rows),
            "has_bias": int(has_bias),
            "bias_group": bias_step * job.features,
            "bias_feature": bias_step,
        }
