"""Packed weights of depthwise convolutions.

For each place of the kernel and each turn (``groups.py``) a panel has a row with one element per
channel of the source.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from fl_jit.kernels.layout import Shape
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.conv.implicit_gemm import Weights
from fl_jit.kernels.llvm.depthwise.groups import Task

#: Groups that are packed at a time.
_STEP = 256


class Panels(NamedTuple):
    """The packed layout of weights, unless they are read in place.

    fields   argument fields of the loop nest, except steps that depend on the windows
    places   bytes from place to place of the kernel: planes, rows, columns
    nbytes   bytes of workspace for the packed weights
    """

    fields: dict[str, int]
    places: list[int]
    nbytes: int

    @classmethod
    def of(cls, w: Weights, task: Task) -> Panels:
        """Panels of weights by strides."""
        _, number, groups, kernel, dtype = task
        item, given = dtype.itemsize, w.dtype.itemsize
        direct = groups == (1, 1) and w.group == 1 and w.dtype is dtype
        turn = number * groups.source * item
        column = turn * groups.target
        packed = [kernel[1] * kernel[2] * column, kernel[2] * column, column]
        rows, column_step = merged(kernel, w.kernel)
        which = strided_copy.kind(0, groups.source, column_step if rows[2] > 1 else 1, w.group)
        nbytes = 0 if direct else -(-kernel[0] * packed[0] // 64) * 64
        fields = {
            "packed_inner": turn,
            "panels_direct": int(direct),
            "weights_move": 0 if direct else strided_copy.address(which, w.dtype, dtype),
            "pack_step": _STEP,
            "kernel_planes": rows[0],
            "kernel_rows": rows[1],
            "kernel_columns": rows[2],
            "packed_plane": packed[0],
            "packed_row": packed[1],
            "packed_column": packed[2],
            "packed_channel": item,
            "packed_group": groups.source * item,
            "weights_plane": w.kernel[0] * given,
            "weights_row": w.kernel[1] * given,
            "weights_column": column_step * given,
            "weights_group": w.group * given,
            "weights_feature": w.feature * given,
            "weights_channel": w.channel * given,
            "source_channels": groups.source,
            "target_channels": groups.target,
            "groups": number,
            "workers_at": nbytes,
        }
        return cls(fields, [step * item for step in w.kernel] if direct else packed, nbytes)

    @property
    def items(self) -> int:
        """Items of the first function of the loop nest: groups to pack."""
        return 0 if self.fields["panels_direct"] else -(-self.fields["groups"] // _STEP)


def merged(kernel: Shape, strides: Shape) -> tuple[Shape, int]:
    """Planes, rows and columns of a kernel to copy, all merged into columns if they are
    equidistant; and the distance between columns."""
    pairs = [pair for pair in zip(kernel, strides, strict=True) if pair[0] > 1]
    if all(a[1] == b[0] * b[1] for a, b in itertools.pairwise(pairs)):
        return (1, 1, math.prod(kernel)), pairs[-1][1] if pairs else 0
    return kernel, strides[2]
