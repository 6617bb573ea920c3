"""Kernel arguments of the loop nest of a wgrad (``loop_nest.py``): fields, and tables that some
fields point to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fl_jit.kernels.codegen import arg_struct, target
from fl_jit.kernels.descriptors import ConvWeightGrad
from fl_jit.kernels.llvm import microkernel_registry
from fl_jit.kernels.llvm import strided_copy as planes
from fl_jit.kernels.llvm.conv_wgrad import vector_loops
from fl_jit.kernels.llvm.conv_wgrad.accumulators import Accumulators
from fl_jit.kernels.llvm.conv_wgrad.axes import Axis, axis_words, rounded, strides
from fl_jit.kernels.llvm.conv_wgrad.plan import MOST_PREFETCHED, Plan, tallest
from fl_jit.kernels.llvm.launcher import Division
from fl_jit.kernels.llvm.loop_nest import computed
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.llvm.tile import Tile
from fl_tensor.dtypes import bfloat16, float32, int16, int32


class WgradArguments:
    """The kernel arguments of a descriptor with the plan ``made``. ``tables`` must stay alive."""

    def __init__(self, descriptor: ConvWeightGrad, axes: Sequence[Axis], made: Plan) -> None:
        self.descriptor, self.made, self.axes = descriptor, made, axes
        self.dtype = computed(descriptor.x.dtype)
        #: Bytes of an element that is computed with, and of one of x.
        self.item, self.given = self.dtype.itemsize, descriptor.x.dtype.itemsize
        self.lanes = target.host().lanes(self.item)
        self.wide = self.lanes * self.item
        self.groups = descriptor.groups
        self.channels = descriptor.x.shape[1] // self.groups
        self.features = descriptor.gradient.shape[1] // self.groups
        self.width = made.vectors * self.lanes
        self.panels = -(-self.features // self.width)
        #: Axes of kernel positions. Positions of a joined row count as one.
        self.taps = [*axes[:-1], axes[-1]._replace(kernel=1)] if made.joined else list(axes)
        self.places = list(itertools.product(*(range(axis.kernel) for axis in self.taps)))
        self.tables: list[Any] = []
        self.words = self._sizes() | axis_words(axes, made.steps)
        self.words |= self._input_tile() | self._seen()
        self._accumulators = Accumulators(self)
        self.words |= self._accumulators.words | self._moves() | self._sweeps() | self._kernels()
        self.words["worker_bytes"] = self.words["sums_at"] + self._accumulators.own

    def divide(self, workers: int) -> Division:
        """The division of work among threads. Panels and tiles are divided if there are too few
        parts."""
        made, tiles = self.made, self.made.cut.parts
        base = self.groups * made.parts
        panels_by, tiles_by = _splits(base, self.panels, tiles, workers)
        shared = workers * self.words["worker_bytes"]
        more = {"panel_splits": panels_by, "tile_splits": tiles_by, "shared_at": shared}
        second = self.groups * self.panels * tiles if made.parts > 1 else 0
        items = base * panels_by * tiles_by, second
        return Division(items, more, shared + self._accumulators.shared)

    def table(self, numbers: Sequence[int]) -> int:
        """The address of a table of these numbers."""
        self.tables.append(arg_struct.array(numbers))
        return arg_struct.address(self.tables[-1])

    def _sizes(self) -> dict[str, int]:
        descriptor, made, item = self.descriptor, self.made, self.given
        x, gradient = strides(descriptor.x), strides(descriptor.gradient)
        return {
            "parts": made.parts,
            "strips": made.input_tiles,
            "panels": self.panels,
            "tiles": made.cut.parts,
            "tile_size": made.cut.size,
            "longer": made.cut.longer,
            "channels": self.channels,
            "features": self.features,
            "width": self.width,
            "panel_pitch": self.width * self.item,
            "x_group": x[1] * self.channels * item,
            "gradient_group": gradient[1] * self.features * item,
            "x_channel": x[1] * item,
            "gradient_feature": gradient[1] * item,
            "joined": int(made.joined),
            "x_direct": int(made.x_direct),
            "gradient_direct": int(made.gradient_direct),
        }

    def _input_tile(self) -> dict[str, int]:
        # Pitches of x: pixels, lines, planes, images, then tiles; of the gradient: pixels.
        made, axes = self.made, self.axes
        if made.joined:
            pitches = [self.channels * self.item]
        else:
            pitches = [-(-tallest(made.cut) // self.lanes) * self.wide]
        for axis, step in list(zip(axes, made.steps, strict=True))[:0:-1]:
            pitches.insert(0, pitches[0] * axis.seen(step))
        tile_bytes = pitches[0] * axes[0].seen(made.steps[0])
        nbytes = tile_bytes * (1 if made.joined else made.cut.parts) + self.wide
        if made.x_direct:
            pitches, nbytes = [axis.x for axis in axes], 0
        by_rows = made.joined or made.x_direct
        *lines, line = made.steps
        #: Bytes of a copy of the input tile of the gradient.
        self.copy_bytes = math.prod(lines) * made.turns(line) * made.vectors * self.wide
        copies = 0 if made.gradient_direct else len(made.ranges)
        #: Byte stride of each axis in the input tile of x.
        self.pitches = pitches
        rest = [axis.size % step or step for axis, step in zip(axes, made.steps, strict=True)]
        side_by_side = self.channels == 1 or strides(self.descriptor.x)[1] == 1
        dense = made.joined and side_by_side and axes[-1].x == self.channels * self.given
        return {f"strip {a}": pitch for a, pitch in enumerate(pitches)} | {
            "dense": int(dense),
            "tile_pitch": 0 if by_rows else tile_bytes,
            "row_pitch": self.item if by_rows else 0,
            "strip_pixels": math.prod(made.steps),
            "strip_rows": self.table(self._rows(made.steps)),
            "last_strip_rows": self.table(self._rows(rest)),
            "gradient_at": rounded(nbytes),
            "copies": copies,
            "copy_bytes": self.copy_bytes,
            "sums_at": rounded(nbytes) + rounded(copies * self.copy_bytes),
        }

    def _rows(self, steps: Sequence[int]) -> list[int]:
        # Offsets of the rows of pixels of an input tile. Those of the same line of all planes
        # follow each other, so that lines which read only padding are adjacent.
        images, planes, lines, _ = (
            [i * axis.stride * pitch for i in range(step)]
            for axis, step, pitch in zip(self.axes, steps, self.pitches, strict=True)
        )
        return [line + image + plane for line in lines for image in images for plane in planes]

    def _seen(self) -> dict[str, int]:
        # The lines of an input tile, and their pixels, that kernel positions read.
        made, pixel = self.made, self.axes[-1].stride * self.pitches[-1]
        copies = list(made.ranges)
        lines = [self.taps[2].observed_through(place[2]) for place in self.places]
        ranges = [made.range_of(self.taps[-1], place[3]) for place in self.places]
        in_input_tile = [
            sum(
                i * a.dilation * pitch
                for i, a, pitch in zip(place, self.taps, self.pitches, strict=True)
            )
            for place in self.places
        ]
        return {
            "taps": len(self.places),
            "copy_ranges": self.table([number for each in copies for number in each]),
            "tap_in_strip": self.table(
                [at + first * pixel for at, (first, _) in zip(in_input_tile, ranges, strict=True)]
            ),
            "tap_in_copies": self.table([copies.index(each) * self.copy_bytes for each in ranges]),
            "tap_steps": self.table([made.turns(end - first) for first, end in ranges]),
            "first_row": self.table([first for first, _ in lines]),
            "end_row": self.table([end for _, end in lines]),
        }

    def _moves(self) -> dict[str, int]:
        # The copies that are needed, by contiguous axes of x, of the gradient and of the result.
        made, descriptor = self.made, self.descriptor
        x, gradient = strides(descriptor.x), strides(descriptor.gradient)
        channel = 1 if self.channels == 1 else x[1]
        feature = 1 if self.features == 1 else gradient[1]
        # Behind the channels of a small group are those of the next group. Nothing else prefetches
        # those: pixels are far apart.
        behind = [
            count * self.given if 1 < self.groups and count * self.given <= MOST_PREFETCHED else 0
            for count in (self.channels, self.features)
        ]
        along = self.axes[-1].x // self.given, self.axes[-1].gradient // self.given
        given, own = (int16, int32) if made.pairs else (descriptor.x.dtype, self.dtype)
        moves: dict[str, planes.Move] = {}
        if not made.x_direct:
            kind = planes.kind(0, 1, along[0], channel)
            moves["x_move"] = planes.Move(kind, given, own, behind[0] * (kind == "straight"))
        if not made.gradient_direct:
            kind = planes.kind(0, 1, along[1], feature)
            moves["gradient_move"] = planes.Move(kind, given, own, behind[1] * (kind == "straight"))
        if not self._accumulators.in_place:
            kind = planes.kind(*self._accumulators.outwards)
            moves["out_move"] = planes.Move(kind, self.dtype, descriptor.out.dtype)
        if made.pairs:
            abreast = "abreast" if feature == 1 else "pairs"
            moves["pairs_move"] = planes.Move(abreast, bfloat16, float32)
            if moves["gradient_move"].kind == "transposed":  # pairs are contiguous already
                moves["pairs_move"] = planes.Move("transposed", int32, int32)
        none = dict.fromkeys(("x_move", "gradient_move", "out_move", "pairs_move"), 0)
        addresses = planes.addresses(list(moves.values()))
        return none | dict(zip(moves, addresses, strict=True))

    def _sweeps(self) -> dict[str, int]:
        # The vector loops that are needed.
        needed = {
            "column_sums": self.descriptor.bias is not None and not self.made.pairs,
            "sums_of_pairs": self.descriptor.bias is not None and self.made.pairs,
            "add_up": self.made.parts > 1,
            "pair_up": self.made.pairs,
        }
        names = [name for name, is_needed in needed.items() if is_needed]
        found = vector_loops.addresses(names, self.dtype)
        column_sums = found.pop("sums_of_pairs", 0)
        return {"column_sums": column_sums, "add_up": 0, "pair_up": 0} | found

    def _kernels(self) -> dict[str, int]:
        made = self.made
        tail = self.features - (self.panels - 1) * self.width
        partial = tail % self.lanes > 0 and (made.gradient_direct or self._accumulators.in_place)
        lies = "rows" if made.gradient_direct else "packed"
        kernels: dict[str, MicroKernel] = {}
        for kind, vectors in (("", made.vectors), ("_tail", -(-tail // self.lanes))):
            masked = partial and kind == "_tail"
            for name, rows in (("long", made.cut.size + 1), ("short", made.cut.size)):
                dtype = bfloat16 if made.pairs else self.dtype
                kernel = MicroKernel(
                    *(dtype, Tile(rows, vectors), "columns", lies, masked), prefetch=made.prefetch
                )
                if name == "short" or made.cut.longer:
                    kernels[f"{name}{kind}_kernel"] = kernel
        found = microkernel_registry.addresses(kernels.values())
        rest = {f"{name}{kind}_kernel": 0 for name in ("long", "short") for kind in ("", "_tail")}
        return rest | {word: found[kernel] for word, kernel in kernels.items()}


def _splits(base: int, panels: int, tiles: int, workers: int) -> tuple[int, int]:
    # The numbers of splits of panels and of tiles that balance the work of the workers. A worker
    # with more panels copies the gradient more often, one with more tiles copies x more often.
    def cost(splits: tuple[int, int]) -> float:
        by_panels, by_tiles = -(-panels // splits[0]), -(-tiles // splits[1])
        rounds = -(-base * splits[0] * splits[1] // workers)
        return rounds * (by_panels * by_tiles + 0.2 * (by_tiles + by_panels))

    most = range(1, min(panels, workers) + 1), range(1, min(tiles, workers) + 1)
    return min(itertools.product(*most), key=cost)
