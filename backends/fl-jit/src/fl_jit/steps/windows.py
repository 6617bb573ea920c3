"""Windows over images as boxes: parts of an array whose elements all meet others in the same places
of a window, so that padding needs neither a copy nor a question per element.

Window o of an axis begins at element ``o * stride - low``, ``low`` being its padding; place k of it
holds element ``o * stride - low + k``, where there is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fl_tensor.graph.strides import Shape, contiguous


class Run(NamedTuple):
    """Elements ``start``, ``start + step``, ... along one axis, ``extent`` of them. Those that the
    first one meets in the other array are ``others``, in these places of the window (``places``);
    those of the next are ``pace`` further. Away from the edges there would be ``whole`` of them."""

    start: int
    step: int
    extent: int
    places: Shape
    others: Shape
    pace: int
    whole: int


class Box(NamedTuple):
    """The same along all axes: ``places[i]`` is a number of a place in C order, and ``others[i]``
    where the other array is met there."""

    start: Shape
    step: Shape
    extent: Shape
    places: Shape
    others: tuple[Shape, ...]
    pace: Shape
    whole: int


class Windows(NamedTuple):
    """Windows over the spatial axes of ``image`` (batch, channels, *spatial); ``pooled`` has a
    place for each."""

    image: Shape
    pooled: Shape
    window: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]

    def of_pooled(self) -> list[Box]:
        """The windows, which meet the elements in them."""
        return self._boxes(_of_windows)

    def of_image(self) -> list[Box]:
        """The elements of the image, which meet the windows that they are in."""
        return self._boxes(_of_elements)

    def _boxes(self, along: Callable[[int, int, int, int, int], list[Run]]) -> list[Box]:
        lows = [low for low, _ in self.padding]
        axes = zip(self.image[2:], self.window, self.stride, lows, self.pooled[2:], strict=True)
        weights = contiguous(self.window)
        found = []
        for runs in itertools.product(*(along(*axis) for axis in axes)):
            start, step, extent, places, others, pace, whole = zip(*runs, strict=True)
            met = tuple(itertools.product(*others))
            numbers = tuple(
                sum(k * weight for k, weight in zip(place, weights, strict=True))
                for place in itertools.product(*places)
            )
            found.append(Box(start, step, extent, numbers, met, pace, math.prod(whole)))
        return found


def _of_windows(size: int, window: int, stride: int, low: int, count: int) -> list[Run]:
    met = [
        (o, tuple(k for k in range(window) if 0 <= o * stride - low + k < size))
        for o in range(count)
    ]
    return [
        Run(o, 1, n, places, tuple(o * stride - low + k for k in places), stride, window)
        for o, n, places in _alike(met)
    ]


def _of_elements(size: int, window: int, stride: int, low: int, count: int) -> list[Run]:
    runs = []
    for first in range(min(stride, size)):
        phase = range((first + low) % stride, window, stride)  # the places that these are ever in
        met = [
            (i, tuple(k for k in phase if 0 <= i + low - k < count * stride))
            for i in range(first, size, stride)
        ]
        runs += [
            Run(i, stride, n, places, tuple((i + low - k) // stride for k in places), 1, len(phase))
            for i, n, places in _alike(met)
        ]
    return runs


def _alike(met: list[tuple[int, Shape]]) -> Iterator[tuple[int, int, Shape]]:
    # (first, how many, places) of neighbours that are in the same places.
    for places, group in itertools.groupby(met, key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        yield numbers[0], len(numbers), places
