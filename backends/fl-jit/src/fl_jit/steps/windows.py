"""Decomposition of pooling windows into boxes without bounds checks.

A box is a part of an array whose elements all meet elements of the other array at the same window
positions. So padding needs neither a copy nor a check per element.

Window o of an axis begins at element ``o * stride - low``, where ``low`` is its padding. Position k
of it is element ``o * stride - low + k``, where there is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fl_tensor.graph.strides import Shape, contiguous


class Run(NamedTuple):
    """``extent`` elements ``start``, ``start + step``, ... along one axis. The first one meets the
    elements ``others`` of the other array, at the window positions ``places``. Those of the next
    are ``pace`` further. Away from the edges there would be ``whole`` of them."""

    start: int
    step: int
    extent: int
    places: Shape
    others: Shape
    pace: int
    whole: int


class Box(NamedTuple):
    """A ``Run`` along all axes: ``places[i]`` is the number of a window position in C order, and
    ``others[i]`` the element of the other array there."""

    start: Shape
    step: Shape
    extent: Shape
    places: Shape
    others: tuple[Shape, ...]
    pace: Shape
    whole: int


class Windows(NamedTuple):
    """Windows over the spatial axes of ``image`` (batch, channels, *spatial); ``pooled`` has an
    element for each."""

    image: Shape
    pooled: Shape
    window: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]

    def of_pooled(self) -> list[Box]:
        """Boxes of windows, with the image elements in them."""
        return self._boxes(_of_windows)

    def of_image(self) -> list[Box]:
        """Boxes of image elements, with the windows that contain them."""
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
        phase = range((first + low) % stride, window, stride)  # their possible positions
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
    # (first, count, places) of neighbours at the same positions.
    for places, group in itertools.groupby(met, key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        yield numbers[0], len(numbers), places
