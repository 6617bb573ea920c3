"""Reduction of convolution and dgrad to one index formula per axis (``Axis``).

``convolution`` returns the axes of a convolution. ``gradient`` yields the axes of each phase of a
dgrad. Both are sums of one form. Along each axis,

    result[first + j * every] = sum over t: source[origin + j * step + t * spread] * w[kernel[t]]

where the source is zero outside its bounds. A convolution is one such sum. The dgrad of a
convolution with stride s is s of them, one per remainder of the position by s (its *phase*). Only
every s-th kernel position meets a position of the gradient there. Zeros between the positions are
never multiplied. V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning"
(2016), illustrates both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fl_jit.kernels.descriptors import Padding, Shape
from fl_jit.kernels.library import UnsupportedError


class Axis(NamedTuple):
    """The sum above, along one axis.

    source   size of the source
    places   positions of the result: j is less than it
    kernel   the kernel position for each t; if empty, the result is zero
    """

    source: int
    places: int
    kernel: tuple[int, ...]
    step: int = 1
    origin: int = 0
    spread: int = 1
    first: int = 0
    every: int = 1

    def reach(self, places: int) -> int:
        """The extent of the source positions that ``places`` adjacent results read."""
        return (places - 1) * self.step + max(len(self.kernel) - 1, 0) * self.spread + 1

    def window(self, place: int) -> tuple[int, int]:
        """The range (first, end) of t for which a result position reads the source."""
        first = self.origin + place * self.step
        low = min(max(-(first // self.spread), 0), len(self.kernel))
        high = min(max(-((first - self.source) // self.spread), low), len(self.kernel))
        return low, high

    def windows(self) -> Iterator[tuple[int, int]]:
        """``window`` of all positions."""
        return map(self.window, range(self.places))

    def readers(self, t: int) -> tuple[int, int]:
        """The range (first, end) of result positions that read the source at t."""
        first = self.origin + t * self.spread
        low = min(max(-(first // self.step), 0), self.places)
        high = min(max(-((first - self.source) // self.step), low), self.places)
        return low, high

    @property
    def is_inside(self) -> bool:
        """Whether all results read only the source, and no padding."""
        return self.origin >= 0 and self.origin + self.reach(self.places) <= self.source

    @property
    def is_pointwise(self) -> bool:
        """Whether result j reads only source j."""
        return self == Axis(self.source, self.source, (0,))


#: An axis of size 1, for missing axes.
ABSENT = Axis(1, 1, (0,))


def convolution(
    source: Shape, result: Shape, kernel: Shape, stride: Shape, padding: Padding, dilation: Shape
) -> tuple[Axis, Axis, Axis]:
    """The axes of a convolution: depth, height, width. Raises UnsupportedError for more."""
    each = zip(source, result, kernel, stride, padding, dilation, strict=True)
    axes = [Axis(n, o, tuple(range(k)), s, -low, d) for n, o, k, s, (low, _), d in each]
    return _three(axes)


def gradient(
    source: Shape, result: Shape, kernel: Shape, stride: Shape, padding: Padding, dilation: Shape
) -> Iterator[tuple[Axis, Axis, Axis]]:
    """The axes of each phase of the dgrad of a convolution. ``source`` is the size of the
    convolution's output gradient, ``result`` that of its data."""
    each = zip(source, result, kernel, stride, padding, dilation, strict=True)
    phases = [list(_phases(*axis)) for axis in each]
    for axes in itertools.product(*phases):
        yield _three(axes)


def _phases(
    source: int, result: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int
) -> Iterator[Axis]:
    # Position i of the data meets position o of the gradient through k, where o * stride + k *
    # dilation - low is i. The larger k, the smaller o, so kernels are traversed backwards.
    low, _ = padding
    spread = dilation // math.gcd(dilation, stride)
    for first in range(min(stride, result)):
        places = -(-(result - first) // stride)
        met = [k for k in range(kernel) if (first + low - k * dilation) % stride == 0][::-1]
        origin = (first + low - met[0] * dilation) // stride if met else 0
        yield Axis(source, places, tuple(met), 1, origin, spread, first, stride)


def _three(axes: Sequence[Axis]) -> tuple[Axis, Axis, Axis]:
    if len(axes) > 3:
        raise UnsupportedError(f"{len(axes)} axes of space: expected at most 3")
    depth, height, width = [ABSENT] * (3 - len(axes)) + list(axes)
    return depth, height, width
