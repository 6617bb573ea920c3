"""Weights as blocks of depthwise convolutions read them: for each place of the kernel and each turn
(``groups.py``) a row with a number for every channel of the source."""

from __future__ import annotations

from typing import NamedTuple

from fl_tensor.backends.providers.generated import planes
from fl_tensor.backends.providers.generated.convolution.sums import Weights
from fl_tensor.backends.providers.generated.depthwise.groups import Groups
from fl_tensor.backends.providers.layout import Shape
from fl_tensor.dtypes import DType


class Panels(NamedTuple):
    """How weights are packed, if they are not read where they lie.

    words    for the loop nest, but for those of steps that depend on the windows
    places   bytes from place to place of the kernel: planes, rows, columns
    nbytes   of memory to pack them in
    """

    words: dict[str, int]
    places: list[int]
    nbytes: int

    @classmethod
    def of(cls, w: Weights, kernel: Shape, number: int, groups: Groups, dtype: DType) -> Panels:
        """Of weights with a kernel of three axes, for a ``number`` of groups, in ``dtype``."""
        item, given = dtype.itemsize, w.dtype.itemsize
        direct = groups == (1, 1) and w.group == 1 and w.dtype is dtype
        turn = number * groups.source * item
        column = turn * groups.target
        packed = [kernel[1] * kernel[2] * column, kernel[2] * column, column]
        which = planes.kind(0, groups.source, w.kernel[2] if kernel[2] > 1 else 1, w.group)
        nbytes = 0 if direct else -(-kernel[0] * packed[0] // 64) * 64
        words = {
            "packed_inner": turn,
            "panels_direct": int(direct),
            "weights_move": 0 if direct else planes.address(which, w.dtype, dtype),
            "kernel_planes": kernel[0],
            "kernel_rows": kernel[1],
            "kernel_columns": kernel[2],
            "packed_plane": packed[0],
            "packed_row": packed[1],
            "packed_column": packed[2],
            "packed_channel": item,
            "packed_group": groups.source * item,
            "weights_plane": w.kernel[0] * given,
            "weights_row": w.kernel[1] * given,
            "weights_column": w.kernel[2] * given,
            "weights_group": w.group * given,
            "weights_feature": w.feature * given,
            "weights_channel": w.channel * given,
            "source_channels": groups.source,
            "target_channels": groups.target,
            "groups": number,
            "workers_at": nbytes,
        }
        return cls(words, [step * item for step in w.kernel] if direct else packed, nbytes)

    @property
    def items(self) -> int:
        """Of the first function of the loop nest: rows of the kernel to pack."""
        if self.words["panels_direct"]:
            return 0
        return self.words["kernel_planes"] * self.words["kernel_rows"]
