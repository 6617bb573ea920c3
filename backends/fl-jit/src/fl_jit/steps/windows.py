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
    """Elements of one axis of an array that meet the other array at the same window positions.

    start, step, extent   the elements ``start``, ``start + step``, ...: ``extent`` of them
    positions             the window positions
    other_starts          the element of the other array that the first one meets at each position
    other_step            the distance of those that the next one meets
    interior_count        the number of positions away from the edges
    """

    start: int
    step: int
    extent: int
    positions: Shape
    other_starts: Shape
    other_step: int
    interior_count: int


class Box(NamedTuple):
    """A ``Run`` along all axes: ``positions[i]`` is the number of a window position in C order, and
    ``other_starts[i]`` the element of the other array there."""

    start: Shape
    step: Shape
    extent: Shape
    positions: Shape
    other_starts: tuple[Shape, ...]
    other_step: Shape
    interior_count: int


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
        boxes = []
        for runs in itertools.product(*(along(*axis) for axis in axes)):
            start, step, extent, positions, others, other_step, counts = zip(*runs, strict=True)
            numbers = tuple(
                sum(k * weight for k, weight in zip(position, weights, strict=True))
                for position in itertools.product(*positions)
            )
            other_starts = tuple(itertools.product(*others))
            count = math.prod(counts)
            boxes.append(Box(start, step, extent, numbers, other_starts, other_step, count))
        return boxes


def _of_windows(size: int, window: int, stride: int, low: int, count: int) -> list[Run]:
    positions_of = [
        (o, tuple(k for k in range(window) if 0 <= o * stride - low + k < size))
        for o in range(count)
    ]
    return [
        Run(o, 1, n, positions, tuple(o * stride - low + k for k in positions), stride, window)
        for o, n, positions in _grouped(positions_of)
    ]


def _of_elements(size: int, window: int, stride: int, low: int, count: int) -> list[Run]:
    runs = []
    for first in range(min(stride, size)):
        phase = range((first + low) % stride, window, stride)  # their possible positions
        positions_of = [
            (i, tuple(k for k in phase if 0 <= i + low - k < count * stride))
            for i in range(first, size, stride)
        ]
        for i, n, positions in _grouped(positions_of):
            windows = tuple((i + low - k) // stride for k in positions)
            runs.append(Run(i, stride, n, positions, windows, 1, len(phase)))
    return runs


def _grouped(positions_of: list[tuple[int, Shape]]) -> Iterator[tuple[int, int, Shape]]:
    # (first, count, positions) of neighbours at the same positions.
    for positions, group in itertools.groupby(positions_of, key=lambda pair: pair[1]):
        numbers = [number for number, _ in group]
        yield numbers[0], len(numbers), positions
