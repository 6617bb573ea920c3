"""Bounds of windows in the source and in the kernel, for rows and pixels of the result.

The loop nest reads them from tables, so that it skips places of the kernel that would meet padding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fl_jit.kernels.llvm import tile
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise.microkernel import Windows


class Bounds(NamedTuple):
    """Bounds of the window of a place of the result along an axis: the first place of the source,
    the first of the kernel, and their number."""

    place: int
    source: int
    kernel: int
    places: int


class Distances(NamedTuple):
    """Bytes between planes, rows and pixels of the result and of the source, and between places of
    the kernel."""

    target: Sequence[int]
    source: Sequence[int]
    kernel: Sequence[int]


def places(axis: Axis) -> Iterator[Bounds]:
    """The bounds of all places of an axis."""
    for j in range(axis.places):
        origin = axis.origin + j * axis.step
        low, high = axis.window(j)
        count = high - low
        source, kernel = (origin + low * axis.spread, axis.kernel[low]) if count else (0, 0)
        yield Bounds(axis.first + j * axis.every, source, kernel, count)


class Run(NamedTuple):
    """Equidistant rows of the result with the same rows of the kernel.

    target   offset of the first row in the result
    source   offset of its window in the source
    kernel   offset of its window in the kernel
    planes   planes of the window
    rows     rows of the window
    lines    number of rows of the result
    """

    target: int
    source: int
    kernel: int
    planes: int
    rows: int
    lines: int


def runs(axes: Sequence[Sequence[Axis]], by: Distances, step: int) -> list[list[Run]]:
    """The runs of every ``step`` rows, of depth and height in all phases."""
    found = []
    rows, high = list(_rows(axes)), axes[1][0]
    for start in range(0, len(rows), step):
        # The open run of each window.
        open_: dict[object, list[tuple[Bounds, Bounds]]] = {}
        made = []
        for plane, row in rows[start : start + step]:
            key = plane, row.kernel, row.places
            run = open_.get(key)
            if run and row.place == run[-1][1].place + high.every:
                run.append((plane, row))
            else:
                open_[key] = [(plane, row)]
                made.append(open_[key])
        found.append([_run(*run[0], len(run), by) for run in made])
    return found


def _run(plane: Bounds, row: Bounds, lines: int, by: Distances) -> Run:
    target, source, kernel = (
        sum(each * steps[axis] for axis, each in enumerate(pair))
        for steps, pair in zip(
            by,
            zip(*((s.place, s.source, s.kernel) for s in (plane, row)), strict=True),
            strict=True,
        )
    )
    return Run(target, source, kernel, plane.places, row.places, lines)


def begins(axes: Sequence[Sequence[Axis]], target: Sequence[int]) -> list[int]:
    """The offset of each row in a result with these distances between planes and rows."""
    return [plane.place * target[0] + row.place * target[1] for plane, row in _rows(axes)]


def _rows(axes: Sequence[Sequence[Axis]]) -> Iterator[tuple[Bounds, Bounds]]:
    deep, high = (sorted(s for axis in phases for s in places(axis)) for phases in axes[:2])
    return itertools.product(deep, high)


class Segment(NamedTuple):
    """Adjacent pixels of a line.

    pixels   number of pixels
    source   offset of their window in the source
    kernel   offset of their first column in the kernel
    target   offset in the result
    places   number of columns of the kernel that all of them see
    windows  the columns of each pixel, if they differ; ``kernel`` is then the offset of column 0
    """

    pixels: int
    source: int
    kernel: int
    target: int
    places: int
    windows: Windows | None = None


def line(phases: Sequence[Axis], most: int, by: Distances, known: bool) -> list[Segment]:
    """A line as segments of at most ``most`` pixels, in memory order. Unless their windows are
    ``known``, all pixels of a segment have the same columns."""
    if known:
        return list(_known(phases, most, by))
    found = [each for axis in phases for each in _alike(axis, most, by)]
    return sorted(found, key=lambda segment: segment.target)


def _alike(axis: Axis, most: int, by: Distances) -> Iterator[Segment]:
    for _, run in itertools.groupby(places(axis), lambda seen: (seen.kernel, seen.places)):
        left = list(run)
        parts, size, longer = tile.balanced(len(left), most)
        for part in range(parts):
            count = size + (part < longer)
            first, left = left[0], left[count:]
            starts = first.source * by.source[2], first.kernel * by.kernel[2]
            yield Segment(count, *starts, first.place * by.target[2], first.places)


def _known(phases: Sequence[Axis], most: int, by: Distances) -> Iterator[Segment]:
    # Pixels of all phases in order: the origin of each window, and its places.
    pixels: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    inside = []
    for axis in phases:
        for j in range(axis.places):
            place, origin, (low, high) = (
                axis.first + j * axis.every,
                axis.origin + j * axis.step,
                axis.window(j),
            )
            seen = [(origin + t * axis.spread, axis.kernel[t]) for t in range(low, high)]
            pixels[place] = origin, seen
            if len(seen) == len(axis.kernel):
                inside.append(place)
    ends = (min(inside), len(pixels) - 1 - max(inside)) if inside else (0, 0)
    for start, count in _pieces(len(pixels), most, phases[0].every, ends):
        here = [pixels[place] for place in range(start, start + count)]
        first = min(origin for origin, _ in here)
        windows = tuple(
            tuple((place - first, column) for place, column in seen) for _, seen in here
        )
        yield Segment(count, first * by.source[2], 0, start * by.target[2], 0, windows)


def _pieces(length: int, most: int, every: int, ends: tuple[int, int]) -> Iterator[tuple[int, int]]:
    # Offsets and lengths of pieces. One piece at either end has the pixels with partial windows.
    # The pieces between have equal lengths and the same windows. Each kind is separate code, so a
    # small total of pixels in all kinds is worth more than long pieces.
    def sizes(some: int) -> list[int]:
        rest = length % some
        while rest < sum(ends) + every:
            rest += some
        first = max(min(rest // 2, rest - ends[1] - every + 1), ends[0])
        first = -(-first // every) * every
        return [size for size in (first, *[some] * ((length - rest) // some), rest - first) if size]

    cut = tile.balanced(length, most)
    balanced = [cut.size + (part < cut.longer) for part in range(cut.parts)]
    found = [sizes(some) for some in range(most - most % every, most // 2, -every)]
    found = [each for each in found if sum(each) == length and max(each) <= most]
    best = min(found, key=lambda each: sum(each[:2]) + each[-1], default=balanced)
    if cut.parts <= 2:
        best = balanced
    return zip(itertools.accumulate([0, *best[:-1]]), best, strict=True)


def column_table(line: Sequence[Segment], codes: Sequence[int]) -> list[int]:
    """Segments as numbers; the code of each takes the place of ``pixels``."""
    pairs = zip(line, codes, strict=True)
    return [number for each, code in pairs for number in (code, *each[1:5])]


def step(phases: Sequence[Axis]) -> int:
    """Distance between places of the kernel that a window uses."""
    return next((a.kernel[1] - a.kernel[0] for a in phases if len(a.kernel) > 1), 0)
