"""Weights of convolutions as panels: the kernel arguments that pack them, and the prepacked layout.

    strided weights, any order                panels, ``width`` features wide
                                              +-------------+ +-------------+ +-----+
    kernel position 0:     channel 0  ->      | features    | | the next    | | ... |  zeros behind
                           channel 1  ->      |             | |             | |     |  the last
    kernel position 1:     channel 0  ->      +-------------+ +-------------+ +-----+  feature

There is one set of panels for each sum over windows, and in each set for each group. The dgrad of a
strided convolution has several sums.
"""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

from fl_jit.kernels.codegen.arg_struct import address, array
from fl_jit.kernels.descriptors import Reorder
from fl_jit.kernels.layout import Layout, Packed, Placement
from fl_jit.kernels.library import UnsupportedError
from fl_jit.kernels.llvm import strided_copy
from fl_jit.kernels.llvm.conv import loop_nest as convolution_nest
from fl_jit.kernels.llvm.conv.implicit_gemm import Panels, Weights
from fl_jit.kernels.llvm.conv.kernel_args import JOB, PASS
from fl_memory import selection
from fl_memory.tags import SCRATCH
from fl_tensor.dtypes import int16, int32

#: Rows of a panel that are packed at a time.
_ROWS = 256
#: Bytes of weights that are gathered before kernel positions are separated.
_SCRATCH = 1 << 16

#: Kernel positions in depth, height and width, in the order of the rows of a panel.
Places = tuple[tuple[int, int, int], ...]


class PrepackedLayout(NamedTuple):
    """The layout of prepacked weights: the value of ``Packed.opaque``.

    ``transposed``: channels and features are exchanged, as in dgrad. ``positions``: the kernel
    positions of each sum over windows. ``pairs``: each element is two of bfloat16, of adjacent
    channels. ``odd``: the last channel is paired with a zero.
    """

    transposed: bool
    groups: int
    channels: int
    features: int
    panels: Panels
    positions: tuple[Places, ...]
    pairs: bool = False
    odd: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of all panels."""
        rows = self.channels * sum(map(len, self.positions))
        return self.groups * self.panels.group_bytes(rows)

    @property
    def starts(self) -> list[int]:
        """The offset of the panels of each sum."""
        sizes = [self._replace(positions=(places,)).nbytes for places in self.positions]
        return [sum(sizes[:number]) for number in range(len(sizes))]


class Packing:
    """Fields of ``kernel_args.PASS`` about weights, and the table that one of them points to."""

    def __init__(
        self, to: PrepackedLayout, weights: Weights, number: int, unpack: bool = False
    ) -> None:
        places, panels = to.positions[number], to.panels
        step, itemsize = weights.dtype.itemsize, panels.dtype.itemsize
        offsets = [
            sum(n * move for n, move in zip(place, weights.kernel, strict=True)) * step
            for place in places
        ]
        elements = [at // step for at in offsets]
        interleaved = 0 if unpack or to.pairs else _interleaved(weights, elements)
        rows = max(min(to.channels, _ROWS), 1)
        if interleaved:
            at_once = _SCRATCH // (len(places) * panels.width * itemsize)
            rows = min(rows, max(at_once // 16 * 16, 16))
        pitch = (panels.width if interleaved == 1 else rows) * itemsize
        if interleaved:
            offsets = [at * pitch for at in elements]
        self._table = array(offsets)
        #: Scratch bytes of each worker.
        self.scratch = rows * len(places) * panels.width * itemsize if interleaved else 0
        parts = -(-to.channels // rows)
        row = 1 if to.channels == 1 else weights.channel
        column = 1 if to.features == 1 else weights.feature
        if to.pairs:
            row = 2 * weights.channel
        # Unpacked rows may be contiguous where columns are not: then the two are exchanged.
        swapped = unpack and row == 1 != column
        move_dtypes = (panels.dtype, weights.dtype) if unpack else (weights.dtype, panels.dtype)
        if to.pairs:
            swapped = False
            which = "unpair" if unpack else "row_pairs" if column == 1 else "pairs"
            if row == 2 and not unpack:  # pairs are contiguous already
                which, move_dtypes = "transposed", (int32, int32)
        elif not unpack:
            which = strided_copy.kind(panels.width, 1, row, column)
        elif swapped:
            which = strided_copy.kind(column, row, 1, panels.width)
        else:
            which = strided_copy.kind(row, column, panels.width, 1)
        if interleaved:
            which = "straight" if interleaved == 1 else "transposed"
        moves = [strided_copy.Move(which, *move_dtypes)]
        if interleaved:
            together = strided_copy.Move(which, panels.dtype, panels.dtype)
            moves = [together, strided_copy.Move("transposed", *move_dtypes)]
        move, *brought = strided_copy.addresses(moves)
        self.fields = {
            "features": to.features,
            "panel_width": panels.width,
            "panels_count": panels.number,
            "itemsize": itemsize,
            "panels_start": to.starts[number],
            "panels_group": panels.group_bytes(len(places) * to.channels),
            "panels_panel": len(places) * to.channels * panels.width * itemsize,
            "panels_row": panels.width * itemsize,
            "tail_row": panels.tail * itemsize,
            "pack_items": to.groups * panels.number * parts * (1 if interleaved else len(places)),
            "pack_positions": 1 if interleaved else len(places),
            "interleaved": interleaved,
            "interleaved_row": pitch,
            "interleaved_move": brought[0] if interleaved else 0,
            "weights_step": step,
            "kernel_size": len(places),
            "kernel_offsets": address(self._table),
            "channels": to.channels,
            "pack_rows": rows,
            "pack_parts": parts,
            "weights_group": weights.group * step,
            "weights_row": row * step,
            "weights_column": column * step,
            "pack_move": move,
            "odd": int(to.odd),
            "lone_move": strided_copy.address("single", int16, int16) if to.odd else 0,
            "unpack": int(unpack) + int(swapped),
        }


def _interleaved(weights: Weights, places: list[int]) -> int:
    """Whether kernel positions at these offsets can be packed together.

    They must be contiguous, and their number the stride of channels (1) or of features (2). 0:
    neither.
    """
    count = len(places)
    if count < 2 or sorted(places) != list(range(count)):
        return 0
    if weights.channel == count and weights.feature > 1:
        return 1
    return 2 if weights.feature == count and weights.channel > 1 else 0


class _Reordered:
    """Packs weights, or unpacks them, in the calling thread."""

    def __init__(
        self, descriptor: Reorder, weights: Weights, layout: PrepackedLayout, unpack: bool
    ) -> None:
        self.operands: tuple[Placement, ...] = (descriptor.x, descriptor.out)
        self.about = "unpack weights" if unpack else "pack weights"
        self._unpack = unpack
        self._packings = [
            Packing(layout, weights, number, unpack) for number in range(len(layout.positions))
        ]
        self._blocks = [array(PASS.values(packing.fields)) for packing in self._packings]
        self._pointers = array(address(block) for block in self._blocks)
        self._scratch = 64 + max((each.scratch for each in self._packings), default=0)
        self._items = sum(packing.fields["pack_items"] for packing in self._packings)
        pack = convolution_nest.code().address("first")
        self._pack = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(pack)

    def __call__(self, *addresses: int) -> None:
        x, out = addresses
        weights, panels = (out, x) if self._unpack else (x, out)
        scratch = selection.current().alloc(self._scratch, tag=SCRATCH)
        fields = {"weights": weights, "workspace": panels, "passes": address(self._pointers)}
        job = array(JOB.values(fields | {"scratch_at": scratch.address - panels}))
        self._pack(address(job), 0, self._items, 0)
        scratch.free()


def reorder(descriptor: Reorder) -> _Reordered:
    """A kernel between strided weights and panels. Raises UnsupportedError."""
    x, out = descriptor
    unpack = isinstance(x, Packed)
    plain, packed = (out, x) if unpack else (x, out)
    if not isinstance(plain, Layout) or plain.strides is None or not isinstance(packed, Packed):
        raise UnsupportedError(f"{x!r} as {out!r}")
    layout = packed.opaque
    if not isinstance(layout, PrepackedLayout) or plain.shape != packed.shape:
        raise UnsupportedError(f"{packed!r} as {plain} is no question of weights")
    grouped = layout.groups > 1 and plain.shape[0] == layout.groups and _has_groups(layout, plain)
    rank = len(plain.shape) - int(grouped)
    weights = Weights.of(plain, layout.groups, rank, layout.transposed)
    covered = sum(map(len, layout.positions))
    if unpack and covered != math.prod(plain.shape[2 + int(grouped) :]):
        raise UnsupportedError("some places of the kernel were not packed: nothing needs them")
    return _Reordered(descriptor, weights, layout, unpack)


def _has_groups(layout: PrepackedLayout, plain: Layout) -> bool:
    # Whether the first axis of the weights are groups, not features.
    channels = (layout.channels * (1 + layout.pairs) - layout.odd, layout.features)
    return tuple(plain.shape[1:3]) == (channels if layout.transposed else channels[::-1])
