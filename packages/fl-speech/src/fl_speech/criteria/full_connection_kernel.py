"""Kernels of the full-connect score: the logarithm of a sum over all paths.

Per frame, probabilities are normalised to a sum of 1, and logarithms of the sums are added up. The
step from a frame to the next one is then a product of a matrix and a vector. This is exact unless a
probability falls below the smallest float64. An entry is at least ``exp(-spread)`` times the
largest, where ``spread`` is the range of a frame's emissions plus that of transitions to a class.
Samples with a larger spread than `LIMIT`, and transitions of -inf, go through logarithms.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array

#: A sum of at least exp(-LIMIT) loses nothing with terms below 1e-308, the smallest float64.
LIMIT = 600.0


class Transitions(NamedTuple):
    """Scores of (to, from), and their exponentials after the largest of each row is taken away."""

    scores: Array[ft.float64]
    exps: Array[ft.float64]
    by_source: Array[ft.float64]
    """The exponentials, transposed."""
    tops: Array[ft.float64]
    """The largest score of each row."""
    spread: float
    """The largest range of a row."""


class Lattice(NamedTuple):
    """What the gradient needs: per sample, frame and class."""

    forward: Array[ft.float64]
    """Forward probabilities with a sum of 1, or their logarithms."""
    arrived: Array[ft.float64]
    """The sum over the classes of the frame before, without the frame's emission."""
    scaled: Array[ft.int64]
    """(B,): 1 where probabilities are held, 0 for logarithms."""


@ft.kernel
def full_connection(
    x: Array[ft.float64],
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
    scores: Array[ft.float64],
) -> None:
    """Writes the score of each sample; emissions ``x`` are (B, frames, classes)."""
    for sample in range(len(lengths)):
        at = sample * frames * classes
        length = lengths[sample]
        spread = trans.spread + widest_frame(x, at, length, classes, trans)
        if length == 0:
            scores[sample] = 0.0
        elif spread != spread:
            scores[sample] = math.nan
        elif spread < LIMIT:
            scores[sample] = scaled_score(x, at, length, classes, trans, lattice)
            lattice.scaled[sample] = 1
        else:
            scores[sample] = logarithmic_score(x, at, length, classes, trans, lattice)
            lattice.scaled[sample] = 0


@ft.kernel
def widest_frame(
    x: Array[ft.float64], at: int, length: int, classes: int, trans: Transitions
) -> float:
    """The largest range of a frame's emissions with the tops of transitions.

    It is infinity where a frame has no finite maximum, and NaN where there is one. Scores of -inf
    have probability 0, which is exact, and do not count.
    """
    widest = 0.0
    for t in range(length):
        high = -math.inf
        low = math.inf
        for i in range(classes):
            value = x[at + t * classes + i]
            if value != value:
                return math.nan
            if t > 0:
                value += trans.tops[i]
            high = value if value > high else high
            low = value if value < low and value > -math.inf else low
        if high == math.inf or high == -math.inf:
            widest = math.inf
        widest = max(widest, high - low)
    return widest


@ft.kernel
def scaled_score(
    x: Array[ft.float64],
    at: int,
    length: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
) -> float:
    """The score of one sample by scaled probabilities."""
    forward = lattice.forward
    arrived = lattice.arrived
    total = 0.0
    for t in range(length):
        now = at + t * classes
        high = -math.inf
        if t == 0:
            for i in range(classes):
                arrived[now + i] = 1.0
                forward[now + i] = x[now + i]
                high = max(high, x[now + i])
        else:
            arrive(trans.by_source, classes, forward, now - classes, arrived, now)
            for i in range(classes):
                value = x[now + i] + trans.tops[i]
                forward[now + i] = value
                high = value if value > high else high
        for i in range(classes):
            forward[now + i] = math.exp(forward[now + i] - high) * arrived[now + i]
        mass = 0.0
        for i in range(classes):
            mass += forward[now + i]
        for i in range(classes):
            forward[now + i] /= mass
        total += high + math.log(mass)
    return total


@ft.kernel
def arrive(
    matrix: Array[ft.float64],
    classes: int,
    vector: Array[ft.float64],
    first: int,
    result: Array[ft.float64],
    place: int,
) -> None:
    """``result[place:] = vector[first:] @ matrix``, four rows at a time."""
    for i in range(classes):
        result[place + i] = 0.0
    whole = classes & ~3
    for j in range(0, whole, 4):
        a = vector[first + j]
        b = vector[first + j + 1]
        c = vector[first + j + 2]
        d = vector[first + j + 3]
        row = j * classes
        for i in range(classes):
            result[place + i] += (
                a * matrix[row + i]
                + b * matrix[row + classes + i]
                + c * matrix[row + 2 * classes + i]
                + d * matrix[row + 3 * classes + i]
            )
    for j in range(whole, classes):
        a = vector[first + j]
        row = j * classes
        for i in range(classes):
            result[place + i] += a * matrix[row + i]


@ft.kernel
def logarithmic_score(
    x: Array[ft.float64],
    at: int,
    length: int,
    classes: int,
    trans: Transitions,
    lattice: Lattice,
) -> float:
    """The score of one sample by logarithms."""
    forward = lattice.forward
    for i in range(classes):
        forward[at + i] = x[at + i]
    for t in range(1, length):
        now = at + t * classes
        before = now - classes
        for i in range(classes):
            high = -math.inf
            for j in range(classes):
                high = max(high, forward[before + j] + trans.scores[i * classes + j])
            found = high
            if high > -math.inf:
                mass = 0.0
                for j in range(classes):
                    mass += math.exp(forward[before + j] + trans.scores[i * classes + j] - high)
                found = high + math.log(mass)
            lattice.arrived[now + i] = found
            forward[now + i] = found + x[now + i]
    last = at + (length - 1) * classes
    high = -math.inf
    mass = 0.0
    for i in range(classes):
        high = max(high, forward[last + i])
    if high == -math.inf:
        return high
    for i in range(classes):
        mass += math.exp(forward[last + i] - high)
    return high + math.log(mass)
