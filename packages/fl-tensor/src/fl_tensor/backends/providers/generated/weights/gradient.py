"""The gradient of a convolution's weights, and of its bias.

    out[tap, channel, feature] = sum over pixels: x[pixel + tap, channel] * gradient[pixel, feature]

is a product of matrices whose inner dimension are the pixels. ``nest.py`` draws the loops,
``plan.py`` says how a problem is divided. Weights are written as they lie, in any order;
images with channels last are fastest, others are transposed while they are copied.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

from fl_tensor.backends.providers.generated import FOLDER, library, planes
from fl_tensor.backends.providers.generated.microkernel import MicroKernel
from fl_tensor.backends.providers.generated.nest import computed
from fl_tensor.backends.providers.generated.phases import Division, Phases
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.generated.weights import nest as weights_nest
from fl_tensor.backends.providers.generated.weights.plan import (
    Plan,
    axes_of,
    axis_words,
    plan,
    strides,
    tallest,
)
from fl_tensor.backends.providers.generated.weights.words import AXES, WORDS
from fl_tensor.backends.providers.layout import Layout, Packed, Placement, Shape, dense
from fl_tensor.backends.providers.problems import ConvolutionWeights
from fl_tensor.backends.providers.provider import UnsupportedError
from fl_tensor.codegen import compile, target
from fl_tensor.dtypes import HALF, DType, bfloat16, float32, float64, int16, int32

#: Floating operations per nanosecond, about.
_SPEED = 50.0


def prepare(problem: ConvolutionWeights, tiles: Tile | None = None) -> WeightsKernel:
    """A kernel for one floating dtype throughout, by strides, in ``tiles`` if they are given.
    Raises UnsupportedError for anything else."""
    return WeightsKernel(settled(problem), tiles)


def settled(problem: ConvolutionWeights) -> ConvolutionWeights:
    """``problem`` with strides where the choice is left open. Raises UnsupportedError for packed
    operands, for several dtypes (half precision may give float32), and for what sums nothing."""
    dtype, rank = problem.x.dtype, len(problem.x.shape)
    bias = [] if problem.bias is None else [problem.bias]
    pairs = [(problem.x, dtype), (problem.gradient, dtype)]
    pairs += [(each, problem.out.dtype) for each in (problem.out, *bias)]
    for place, wanted in pairs:
        if isinstance(place, Packed):
            raise UnsupportedError("gradients of weights are written by strides, not packed")
        if place.dtype not in (float32, float64, *HALF) or place.dtype != wanted:
            raise UnsupportedError(f"{place}: expected {wanted} as other operands have")
        if 0 in place.shape:
            raise UnsupportedError(f"nothing to sum over: {place}")
    if problem.out.dtype not in (dtype, computed(dtype)):
        raise UnsupportedError(f"{problem.out}: expected {dtype} or {computed(dtype)}")
    if not 3 <= rank <= AXES + 1:
        raise UnsupportedError(f"one to three axes of space, not {rank - 2}")
    images = (0, *range(2, rank), 1)
    *groups, feature, channel = range(len(problem.out.shape) - rank + 2)
    kernel = (*groups, *range(channel + 1, len(problem.out.shape)), channel, feature)
    return problem._replace(
        x=_settled(problem.x, images),
        gradient=_settled(problem.gradient, images),
        out=_settled(problem.out, kernel),
        bias=_settled(bias[0], (0,)) if bias else None,
    )


def _settled(place: Placement, order: Shape) -> Layout:
    assert isinstance(place, Layout)
    if place.strides is not None:
        return place
    return place._replace(strides=dense(place.shape, order))


class WeightsKernel:
    """A gradient of weights that is ready to be computed."""

    workspace = 0

    def __init__(self, problem: ConvolutionWeights, tiles: Tile | None) -> None:
        bias = () if problem.bias is None else (problem.bias,)
        self.operands = (problem.x, problem.gradient, *bias, problem.out)
        axes = axes_of(problem)
        made = plan(problem, axes, tiles)
        self.about = (
            f"generated: tiles of {tallest(made.cut)} x {made.vectors} vectors, {made.strips} "
            f"strips in {made.parts} parts"
        )
        build = _Build(problem, made)
        self._tables = build.tables
        work = 2.0 * math.prod(a.size * a.kernel for a in axes) * build.channels
        work *= problem.gradient.shape[1] / _SPEED
        code = _code(build.dtype, problem.out.dtype, made.pairs)
        self._call = Phases(code, WORDS, build.words, build.divide, work)

    def __call__(self, *addresses: int) -> None:
        """Compute: x, gradient[, bias], out."""
        x, gradient, *bias, out = addresses
        self._call((x, gradient, bias[0] if bias else 0, out))


@compile.once
def _code(dtype: DType, result: DType, pairs: bool) -> compile.Code:
    machine = target.host()
    about = f"weights {dtype} {result} {pairs} {compile.sources(FOLDER)}"
    assembly = functools.partial(weights_nest.assembly, dtype, result, machine, pairs)
    return compile.load(about, assembly, machine, is_tidy=True)


class _Build:
    # The words of a problem. ``tables`` are what some of them point to.

    def __init__(self, problem: ConvolutionWeights, made: Plan) -> None:
        self.problem, self.made, self.axes = problem, made, axes_of(problem)
        self.dtype = computed(problem.x.dtype)
        #: Bytes of an element that is computed with, of one of x, of one of the result.
        self.item, self.given = self.dtype.itemsize, problem.x.dtype.itemsize
        self.result = problem.out.dtype.itemsize
        self.lanes = target.host().lanes(self.item)
        self.wide = self.lanes * self.item
        self.groups = problem.groups
        self.channels = problem.x.shape[1] // self.groups
        self.features = problem.gradient.shape[1] // self.groups
        self.width = made.vectors * self.lanes
        self.panels = -(-self.features // self.width)
        self.tables: list[Any] = []
        self.words: dict[str, int] = {}
        self._sizes()
        self._strip()
        self._result()
        self._moves()
        self._kernels()

    def divide(self, workers: int) -> Division:
        """Panels and tiles are divided among threads where parts are too few."""
        made, tiles = self.made, self.made.cut.parts
        base = self.groups * made.parts
        panels_by, tiles_by = _splits(base, self.panels, tiles, workers)
        shared = workers * self.words["worker_bytes"]
        more = {"panel_splits": panels_by, "tile_splits": tiles_by, "shared_at": shared}
        second = self.groups * self.panels * tiles if made.parts > 1 else 0
        items = base * panels_by * tiles_by, second
        return Division(items, more, shared + self.shared_bytes)

    def _sizes(self) -> None:
        problem, made, item = self.problem, self.made, self.given
        x, gradient = strides(problem.x), strides(problem.gradient)
        bias = 0 if problem.bias is None else strides(problem.bias)[0] * self.result
        self.words |= {
            "parts": made.parts,
            "strips": made.strips,
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
            "bias_group": bias * self.features,
            "x_channel": x[1] * item,
            "gradient_feature": gradient[1] * item,
            "bias_feature": bias,
            "has_bias": int(problem.bias is not None),
            "joined": int(made.joined),
            "x_direct": int(made.x_direct),
            "gradient_direct": int(made.gradient_direct),
        }
        self.words |= axis_words(self.axes, made.steps)

    def _strip(self) -> None:
        # Of x: pixels, lines, planes, images, then tiles; of the gradient: pixels.
        made, axes = self.made, self.axes
        dense = self.channels * self.item
        if made.joined:
            pitches = [dense]
        else:
            pitches = [-(-tallest(made.cut) // self.lanes) * self.wide]
        for axis, step in list(zip(axes, made.steps, strict=True))[:0:-1]:
            pitches.insert(0, pitches[0] * axis.seen(step))
        tile_bytes = pitches[0] * axes[0].seen(made.steps[0])
        nbytes = tile_bytes * (1 if made.joined else made.cut.parts) + self.wide
        if made.x_direct:
            pitches, nbytes = [axis.x for axis in axes], 0
        by_rows = made.joined or made.x_direct
        pixels = math.prod(made.steps)
        *lines, line = made.steps
        rows = math.prod(lines) * (-(-line // 2) if made.pairs else line)
        gradient = 0 if made.gradient_direct else rows * made.vectors * self.wide
        self.strip_pitches = pitches
        rest = [axis.size % step or step for axis, step in zip(axes, made.steps, strict=True)]
        side_by_side = self.channels == 1 or strides(self.problem.x)[1] == 1
        self.words |= {f"strip {a}": pitch for a, pitch in enumerate(pitches)}
        self.words |= {
            "dense": int(made.joined and side_by_side and axes[-1].x == self.channels * self.given),
            "tile_pitch": 0 if by_rows else tile_bytes,
            "row_pitch": self.item if by_rows else 0,
            "strip_pixels": pixels,
            "strip_rows": self._table(self._rows(made.steps)),
            "last_strip_rows": self._table(self._rows(rest)),
            "gradient_at": _rounded(nbytes),
            "sums_at": _rounded(nbytes) + _rounded(gradient),
        }

    def _rows(self, steps: Sequence[int]) -> list[int]:
        # Where the rows of pixels of a strip are. Those of the same line of all planes follow each
        # other, so that lines which see nothing but padding are neighbours.
        images, planes, lines, _ = (
            [i * axis.stride * pitch for i in range(step)]
            for axis, step, pitch in zip(self.axes, steps, self.strip_pitches, strict=True)
        )
        return [line + image + plane for line in lines for image in images for plane in planes]

    def _result(self) -> None:
        made, item, given, problem = self.made, self.item, self.result, self.problem
        # Taps of a row are no taps where they are joined.
        along = [*self.axes[:-1], self.axes[-1]._replace(kernel=1)] if made.joined else self.axes
        places = list(itertools.product(*(range(axis.kernel) for axis in along)))
        taps = len(places)
        in_out = [sum(i * a.out for i, a in zip(p, along, strict=True)) for p in places]
        in_strip = [
            sum(
                i * a.dilation * pitch
                for i, a, pitch in zip(p, along, self.strip_pitches, strict=True)
            )
            for p in places
        ]
        seen = [along[2].rows(p[2]) for p in places]
        grouped = len(problem.out.shape) == len(problem.x.shape) + 1
        group, feature, channel = (
            step * given for step in ((0,) * (not grouped) + strides(problem.out))[:3]
        )
        kernel = range(self.axes[-1].kernel if made.joined else 1)
        rows = [k * self.axes[-1].out + c * channel for k in kernel for c in range(self.channels)]
        # Sums lie in the order of the result, if that has one: then squares of them are transposed.
        inside = in_out == list(range(0, taps * given, given)) and rows == list(
            range(0, len(rows) * taps * given, taps * given)
        )
        side_by_side = rows == list(range(0, len(rows) * given, given))
        by_features = self.features == 1 or feature == given
        by_rows = (inside or side_by_side) and not by_features
        # One strip: sums are written when they are made, and need no more room than a tile.
        local = made.parts == made.strips == 1
        pitch = self.width * item
        kept = tallest(made.cut) if local else made.rows
        row, tap = (taps * pitch, pitch) if inside else (pitch, kept * pitch)
        panel = 0 if local else made.rows * taps * pitch
        part, bias = self.panels * panel, self.panels * pitch
        all_sums = self.groups * made.parts * part
        own = _rounded(kept * taps * pitch) if local else 0
        self.shared_bytes = all_sums + self.groups * made.parts * bias * self.words["has_bias"]
        self.words |= {
            "taps": taps,
            "tap_in_strip": self._table(in_strip),
            "tap_in_out": self._table(in_out),
            "row_in_out": self._table(rows),
            "first_row": self._table([first for first, _ in seen]),
            "end_row": self._table([end for _, end in seen]),
            "out_group": group if grouped else feature * self.features,
            "out_feature": feature,
            "out_item": given,
            "by_rows": int(by_rows),
            "runs": 1 if inside else taps,
            "local": int(local),
            "row_sums": row,
            "tap_sums": tap,
            "tile_sums": 0 if local else row,
            "panel_sums": panel,
            "part_sums": part,
            "group_sums": made.parts * part,
            "bias_sums_at": all_sums,
            "bias_part_sums": bias,
            "bias_group_sums": made.parts * bias,
            "worker_bytes": self.words["sums_at"] + own,
        }

    def _moves(self) -> None:
        # How neighbours lie, of x, of the gradient and of the result.
        problem, x, gradient = self.problem, strides(self.problem.x), strides(self.problem.gradient)
        channel = 1 if self.channels == 1 else x[1]
        feature = 1 if self.features == 1 else gradient[1]
        along = self.axes[-1].x // self.given, self.axes[-1].gradient // self.given
        given, own, result = problem.x.dtype, self.dtype, problem.out.dtype
        out = 1 if self.features == 1 else self.words["out_feature"] // self.result
        outwards = (out, 1, 1, 0) if self.words["by_rows"] else (0, out, 0, 1)
        if self.made.pairs:
            given, own = int16, int32
        kinds = [planes.kind(0, 1, *lies) for lies in ((along[0], channel), (along[1], feature))]
        moves = {
            "x_move": (kinds[0], given, own),
            "gradient_move": (kinds[1], given, own),
            "pairs_move": ("abreast" if feature == 1 else "pairs", bfloat16, float32),
            "out_move": (planes.kind(*outwards), self.dtype, result),
        }
        if kinds[1] == "transposed":  # neighbours are pairs already
            moves["pairs_move"] = "transposed", int32, int32
        if not self.made.pairs:
            moves.pop("pairs_move")
            self.words["pairs_move"] = 0
        self.words |= {word: planes.address(*move) for word, move in moves.items()}

    def _kernels(self) -> None:
        made = self.made
        tail = self.features - (self.panels - 1) * self.width
        lies = "rows" if made.gradient_direct else "packed"
        kernels: dict[str, MicroKernel] = {}
        for kind, vectors in (("", made.vectors), ("_tail", -(-tail // self.lanes))):
            masked = made.gradient_direct and kind == "_tail" and tail < vectors * self.lanes
            for name, rows in (("long", made.cut.size + 1), ("short", made.cut.size)):
                dtype = bfloat16 if made.pairs else self.dtype
                kernel = MicroKernel(dtype, Tile(rows, vectors), "columns", lies, masked)
                if name == "short" or made.cut.longer:
                    kernels[f"{name}{kind}_kernel"] = kernel
        found = library.addresses(kernels.values())
        rest = {f"{name}{kind}_kernel": 0 for name in ("long", "short") for kind in ("", "_tail")}
        self.words |= rest | {word: found[kernel] for word, kernel in kernels.items()}

    def _table(self, numbers: Sequence[int]) -> int:
        table = (ctypes.c_int64 * len(numbers))(*numbers)
        self.tables.append(table)
        return ctypes.addressof(table)


def _splits(base: int, panels: int, tiles: int, workers: int) -> tuple[int, int]:
    # Of panels and of tiles, so that every worker has as much to do. Whoever has more panels copies
    # the gradient more often, whoever has more tiles copies x.
    def cost(splits: tuple[int, int]) -> float:
        by_panels, by_tiles = -(-panels // splits[0]), -(-tiles // splits[1])
        rounds = -(-base * splits[0] * splits[1] // workers)
        return rounds * (by_panels * by_tiles + 0.2 * (by_tiles + by_panels))

    most = range(1, min(panels, workers) + 1), range(1, min(tiles, workers) + 1)
    return min(itertools.product(*most), key=cost)


def _rounded(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
