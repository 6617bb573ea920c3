"""Positions and weights of interpolation along one axis, as PyTorch 2 computes them.

Output i reads input at ``(i + 0.5) * scale - 0.5``, or at ``i * scale`` with ``align_corners``.
``scale`` is the distance of two outputs there. With ``antialias`` the kernel is as wide as that
distance when sizes shrink, as in Pillow. Cubic convolution: Keys, 1981, with a = -0.75, and
-0.5 with ``antialias``.
"""

from __future__ import annotations

import math
import struct
from array import array
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Axis", "Contributions", "contributions", "matrix", "nearest"]


class Axis(NamedTuple):
    """How an axis of ``size`` elements is resampled to ``wanted``.

    kernel         "linear" or "cubic"
    factor         the scale factor that was given, or None: the ratio of the sizes
    align_corners  whether the first and last elements keep their places
    antialias      whether the kernel is widened where the size shrinks
    """

    size: int
    wanted: int
    kernel: str = "linear"
    factor: float | None = None
    align_corners: bool = False
    antialias: bool = False

    @property
    def scale(self) -> float:
        """The distance of two outputs in the input."""
        if self.align_corners:
            return (self.size - 1) / (self.wanted - 1) if self.wanted > 1 else 0.0
        return 1.0 / self.factor if self.factor else self.size / self.wanted


class Contributions(NamedTuple):
    """Output i is the sum over t of ``weights[t][i] * x[indices[t][i]]``."""

    indices: list[array[int]]
    weights: list[array[float]]


@lru_cache(maxsize=64)
def nearest(axis: Axis, exact: bool, double: bool) -> array[int]:
    """The input element of every output. ``exact`` measures from the centres of the elements.
    PyTorch computes positions in the dtype of the values and rounds them to float32; ``double``
    says that this dtype is float64."""
    scale = axis.scale if double else _float32(axis.scale)
    shift = 0.5 if exact else 0.0
    places = (math.floor(_float32((i + shift) * scale)) for i in range(axis.wanted))
    return array("q", (min(place, axis.size - 1) for place in places))


@lru_cache(maxsize=64)
def contributions(axis: Axis) -> Contributions:
    """The elements that each output reads, and their weights."""
    rows = [_row(axis, i) for i in range(axis.wanted)]
    count = max(len(weights) for _, weights in rows)
    last = axis.size - 1
    indices, weights = [], []
    for t in range(count):
        indices.append(array("q", (min(max(start + t, 0), last) for start, _ in rows)))
        weights.append(array("d", (row[t] if t < len(row) else 0.0 for _, row in rows)))
    return Contributions(indices, weights)


@lru_cache(maxsize=64)
def matrix(axis: Axis) -> array[float]:
    """The same as a matrix (wanted, size) in C order."""
    found = array("d", bytes(8 * axis.wanted * axis.size))
    for indices, weights in zip(*contributions(axis)):
        for i, (index, weight) in enumerate(zip(indices, weights)):
            found[i * axis.size + index] += weight
    return found


def _row(axis: Axis, i: int) -> tuple[int, list[float]]:
    # The first element that output i reads, which may lie outside, and the weights from there on.
    if axis.antialias:
        return _antialiased_row(axis, i)
    place = i * axis.scale if axis.align_corners else (i + 0.5) * axis.scale - 0.5
    start = min(math.floor(place), axis.size - 1)
    t = min(max(place - start, 0.0), 1.0)
    if axis.kernel == "linear":
        return start, [1.0 - t, t]
    return start - 1, [_cubic(t + 1.0 - k, -0.75) for k in range(4)]


def _antialiased_row(axis: Axis, i: int) -> tuple[int, list[float]]:
    width = max(axis.scale, 1.0)
    center = axis.scale * (i + 0.5)
    support = width * (1.0 if axis.kernel == "linear" else 2.0)
    start = max(int(center - support + 0.5), 0)
    end = min(int(center + support + 0.5), axis.size)
    places = [(j - center + 0.5) / width for j in range(start, end)]
    if axis.kernel == "linear":
        found = [max(1.0 - abs(place), 0.0) for place in places]
    else:
        found = [_cubic(place, -0.5) for place in places]
    total = math.fsum(found)
    return start, [weight / total for weight in found] if total else found


def _cubic(x: float, a: float) -> float:
    x = abs(x)
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    return (((x - 5.0) * x + 8.0) * x - 4.0) * a if x < 2.0 else 0.0


def _float32(x: float) -> float:
    return float(struct.unpack("f", struct.pack("f", x))[0])
