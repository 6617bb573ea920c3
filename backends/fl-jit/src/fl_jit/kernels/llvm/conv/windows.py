"""Sliding windows, one axis at a time, and the gradient of a convolution's data as convolutions.

A convolution and the gradient of its data are the same sum. Along each axis,

    result[first + j * every] = sum over t: source[origin + j * step + t * spread] * w[kernel[t]]

where the source is zero outside of itself. A convolution is one such sum. The gradient of its data,
with stride s, is s of them, one per remainder of the place by s (its *phase*): only every s-th
place of the kernel meets a place of the gradient there, so nothing is ever multiplied by the zeros
between them. V. Dumoulin and F. Visin, "A guide to convolution arithmetic for deep learning"
(2016), draws both.
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

    source   places of the source
    places   places of the result: j is below it
    kernel   the place of the kernel for each t; none: the result is zero
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
        """Source places from the first to the last one that so many results see."""
        return (places - 1) * self.step + max(len(self.kernel) - 1, 0) * self.spread + 1

    def taps(self, place: int) -> tuple[int, int]:
        """The first t, and the last one + 1, for which a place of the result sees the source."""
        first = self.origin + place * self.step
        low = min(max(-(first // self.spread), 0), len(self.kernel))
        high = min(max(-((first - self.source) // self.spread), low), len(self.kernel))
        return low, high

    def each_taps(self) -> Iterator[tuple[int, int]]:
        """``taps`` of all places."""
        return map(self.taps, range(self.places))

    def seen(self, t: int) -> tuple[int, int]:
        """The first place of the result, and the last one + 1, that sees the source at t."""
        first = self.origin + t * self.spread
        low = min(max(-(first // self.step), 0), self.places)
        high = min(max(-((first - self.source) // self.step), low), self.places)
        return low, high

    @property
    def is_inside(self) -> bool:
        """Whether no result sees anything but the source."""
        return self.origin >= 0 and self.origin + self.reach(self.places) <= self.source

    @property
    def is_pointwise(self) -> bool:
        """Whether result j sees source j, and that is all."""
        return self == Axis(self.source, self.source, (0,))


#: An axis that is not there.
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
    """The axes of each phase of the gradient of a convolution's data. ``source`` is the size of the
    convolution's result, whose gradient is known, ``result`` that of the data."""
    each = zip(source, result, kernel, stride, padding, dilation, strict=True)
    phases = [list(_phases(*axis)) for axis in each]
    for axes in itertools.product(*phases):
        yield _three(axes)


def _phases(
    source: int, result: int, kernel: int, stride: int, padding: tuple[int, int], dilation: int
) -> Iterator[Axis]:
    # Place i of the data meets place o of the gradient through k: o * stride + k * dilation - low
    # is i. The larger k, the smaller o, so kernels are walked backwards.
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
