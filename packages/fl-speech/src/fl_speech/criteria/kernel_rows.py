"""Rows of scores in kernels: loads from either precision, sums and maxima in four lanes.

A sum of one variable waits for each addition; four of them do not. Compilers of kernels keep the
order of additions, so the lanes are written out.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array


class Values(NamedTuple):
    """Floats in one of two precisions; the other array is empty."""

    single: Array[ft.float32]
    double: Array[ft.float64]
    is_double: bool


def values_of(array: np.ndarray) -> Values:
    """A float32 or float64 array as an argument of kernels."""
    if array.dtype == np.float64:
        return Values(np.empty(0, np.float32), array.reshape(-1), True)
    return Values(array.reshape(-1), np.empty(0, np.float64), False)


@ft.kernel
def load_row(x: Values, at: int, n: int, row: Array[ft.float64]) -> None:
    """The first ``n`` of ``row`` become those of ``x`` from ``at`` on."""
    if x.is_double:
        for i in range(n):
            row[i] = x.double[at + i]
    else:
        for i in range(n):
            row[i] = x.single[at + i]


@ft.kernel
def store_row(x: Values, at: int, n: int, row: Array[ft.float64], factor: float) -> None:
    """``x`` from ``at`` on becomes the first ``n`` of ``row``, times ``factor``."""
    if x.is_double:
        for i in range(n):
            x.double[at + i] = row[i] * factor
    else:
        for i in range(n):
            x.single[at + i] = row[i] * factor


@ft.kernel
def biggest(x: Array[ft.float64], first: int, last: int) -> float:
    """The largest of ``x[first:last]``; minus infinity of nothing."""
    a = -math.inf
    b = -math.inf
    c = -math.inf
    d = -math.inf
    stop = first + (max(last - first, 0) // 4) * 4
    for i in range(first, stop, 4):
        a = max(a, x[i])
        b = max(b, x[i + 1])
        c = max(c, x[i + 2])
        d = max(d, x[i + 3])
    for i in range(stop, last):
        a = max(a, x[i])
    return max(max(a, b), max(c, d))


@ft.kernel
def summed(x: Array[ft.float64], first: int, last: int) -> float:
    """The sum of ``x[first:last]``."""
    a = 0.0
    b = 0.0
    c = 0.0
    d = 0.0
    stop = first + (max(last - first, 0) // 4) * 4
    for i in range(first, stop, 4):
        a += x[i]
        b += x[i + 1]
        c += x[i + 2]
        d += x[i + 3]
    for i in range(stop, last):
        a += x[i]
    return (a + b) + (c + d)


@ft.kernel
def softmax_row(x: Values, at: int, n: int, row: Array[ft.float64]) -> float:
    """``row`` becomes ``exp(x - top)``, with ``top`` the largest of ``x``; returns ``top``.

    Its sum is NaN if a score is NaN or infinity, or if all are minus infinity.
    """
    load_row(x, at, n, row)
    top = biggest(row, 0, n)
    for i in range(n):
        row[i] = math.exp(row[i] - top)
    return top


@ft.kernel
def fill(x: Values, first: int, last: int, value: float) -> None:
    """``x[first:last]`` becomes ``value``."""
    if x.is_double:
        for i in range(first, last):
            x.double[i] = value
    else:
        for i in range(first, last):
            x.single[i] = value
