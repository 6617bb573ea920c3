"""What rows and pixels of the result see of the source and of the kernel: tables that tell the loop
nest, so that places which would meet padding are not looked at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fl_jit.kernels.llvm import tile
from fl_jit.kernels.llvm.conv.windows import Axis
from fl_jit.kernels.llvm.depthwise.microkernel import Windows


class Bounds(NamedTuple):
    """What a place of the result sees along an axis: the first place of the source, and of the
    kernel, and how many."""

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
    """What all places of an axis see."""
    for j in range(axis.places):
        origin = axis.origin + j * axis.step
        low, high = axis.taps(j)
        count = high - low
        source, kernel = (origin + low * axis.spread, axis.kernel[low]) if count else (0, 0)
        yield Bounds(axis.first + j * axis.every, source, kernel, count)


class Run(NamedTuple):
    """Rows of the result, equally far apart, that see the same rows of the kernel: where the first
    one begins in the result, where what it sees begins in the source and in the kernel, planes and
    rows that it sees, how many there are."""

    target: int
    source: int
    kernel: int
    planes: int
    rows: int
    lines: int


def runs(axes: Sequence[Sequence[Axis]], by: Distances, step: int) -> list[list[Run]]:
    """For every ``step`` rows, of depth and height in all phases, the runs they consist of."""
    found = []
    rows, high = list(_rows(axes)), axes[1][0]
    for start in range(0, len(rows), step):
        # The last row of each run that may go on, by what it sees.
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
    """Where each row is in a result with such distances between planes and rows."""
    return [plane.place * target[0] + row.place * target[1] for plane, row in _rows(axes)]


def _rows(axes: Sequence[Sequence[Axis]]) -> Iterator[tuple[Bounds, Bounds]]:
    deep, high = (sorted(s for axis in phases for s in places(axis)) for phases in axes[:2])
    return itertools.product(deep, high)


class Stretch(NamedTuple):
    """Neighbouring pixels of a line: how many, where they and what they see begin, how many columns
    of the kernel they see; or which ones each does, and where the first column would begin."""

    pixels: int
    source: int
    kernel: int
    target: int
    places: int
    windows: Windows | None = None


def line(phases: Sequence[Axis], most: int, by: Distances, known: bool) -> list[Stretch]:
    """A line as stretches of at most so many pixels, as they lie. Unless their windows are
    ``known``, all of their pixels see the same columns."""
    if known:
        return list(_known(phases, most, by))
    found = [each for axis in phases for each in _alike(axis, most, by)]
    return sorted(found, key=lambda stretch: stretch.target)


def _alike(axis: Axis, most: int, by: Distances) -> Iterator[Stretch]:
    for _, run in itertools.groupby(places(axis), lambda seen: (seen.kernel, seen.places)):
        left = list(run)
        parts, size, longer = tile.balanced(len(left), most)
        for part in range(parts):
            count = size + (part < longer)
            first, left = left[0], left[count:]
            starts = first.source * by.source[2], first.kernel * by.kernel[2]
            yield Stretch(count, *starts, first.place * by.target[2], first.places)


def _known(phases: Sequence[Axis], most: int, by: Distances) -> Iterator[Stretch]:
    # Pixels of all phases in their order: what each would see first, and what it sees.
    pixels: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    inside = []
    for axis in phases:
        for j in range(axis.places):
            place, origin, (low, high) = (
                axis.first + j * axis.every,
                axis.origin + j * axis.step,
                axis.taps(j),
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
        yield Stretch(count, first * by.source[2], 0, start * by.target[2], 0, windows)


def _pieces(length: int, most: int, every: int, ends: tuple[int, int]) -> Iterator[tuple[int, int]]:
    # Where pieces begin, and how long they are: one at either end, where pixels do not see all, and
    # between them equal ones, which see the same. Each kind is code of its own, so that there are
    # few pixels in all kinds together is worth more than that pieces are long.
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


def column_table(line: Sequence[Stretch], codes: Sequence[int]) -> list[int]:
    """Stretches as numbers, with the code of each in the place of its pixels."""
    pairs = zip(line, codes, strict=True)
    return [number for each, code in pairs for number in (code, *each[1:5])]


def step(phases: Sequence[Axis]) -> int:
    """From a place of the kernel to the next one that is seen."""
    return next((a.kernel[1] - a.kernel[0] for a in phases if len(a.kernel) > 1), 0)
