"""Separable resampling with filters, as Pillow does it.

An output pixel is a weighted sum of a window of input pixels: `Windows`. Bytes are weighted in
fixed point of 22 bits, rows first, and rounded in between. Blurring is the same with other windows.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array

_BITS = 22
_HALF = 1 << (_BITS - 1)


class Windows(NamedTuple):
    """For each of n output pixels the first input pixel, how many there are, and `taps` weights."""

    first: Array[ft.int64]
    length: Array[ft.int64]
    weight: Array[ft.float64]
    fixed: Array[ft.int64]
    taps: int


def windows_of(first: np.ndarray, count: np.ndarray, weight: np.ndarray) -> Windows:
    """Weights (n, taps) as arguments of kernels."""
    scaled = weight * (1 << _BITS)
    fixed = np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)).astype(np.int64)
    return Windows(first, count, weight.reshape(-1), fixed.reshape(-1), weight.shape[1])


@lru_cache(maxsize=64)
def filter_windows(extent: int, target: int, interpolation: str, antialias: bool) -> Windows:
    """Those that resample `extent` pixels to `target`; a filter is as wide as an output pixel."""
    scale = extent / target
    place = np.arange(target)
    if interpolation == "nearest":
        first = np.minimum(((place + 0.5) * scale).astype(np.int64), extent - 1)
        return windows_of(first, np.ones(target, np.int64), np.ones((target, 1)))
    widened = max(scale, 1.0) if antialias else 1.0
    reach = (1.0 if interpolation == "bilinear" else 2.0) * widened
    centre = (place + 0.5) * scale
    first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach + 0.5).astype(np.int64), extent)
    taps = math.ceil(reach) * 2 + 1
    offset = np.arange(taps)
    distance = np.abs(first[:, None] + offset - centre[:, None] + 0.5) / widened
    weight = _triangle(distance) if interpolation == "bilinear" else _cubic(distance)
    weight[offset >= (last - first)[:, None]] = 0.0
    return windows_of(first, last - first, weight / weight.sum(1, keepdims=True))


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - distance, 0.0)


def _cubic(x: np.ndarray, a: float = -0.5) -> np.ndarray:
    """Keys (1981)."""
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def resample(planes: np.ndarray, rows: Windows, columns: Windows) -> np.ndarray:
    """(planes, height, width) of uint8 or float32, resampled to as many rows and columns as there
    are windows."""
    count, height, width = planes.shape
    is_byte = planes.dtype == np.uint8
    across = np.empty((count, height, len(columns.first)), planes.dtype)
    (_columns_of_bytes if is_byte else _columns_of_floats)(
        planes.reshape(-1), count * height, width, columns, across.reshape(-1)
    )
    target = np.empty((count, len(rows.first), across.shape[2]), planes.dtype)
    line = np.empty(across.shape[2], np.int64 if is_byte else np.float64)
    (_rows_of_bytes if is_byte else _rows_of_floats)(
        across.reshape(-1), count, height, across.shape[2], rows, line, target.reshape(-1)
    )
    return target


@ft.kernel
def _columns_of_bytes(
    x: Array[ft.uint8], lines: int, width: int, windows: Windows, y: Array[ft.uint8]
) -> None:
    target = len(windows.first)
    for line in range(lines):
        for j in range(target):
            at = line * width + windows.first[j]
            weight = j * windows.taps
            total = _HALF
            for k in range(windows.length[j]):
                total += windows.fixed[weight + k] * x[at + k]
            y[line * target + j] = min(max(total >> _BITS, 0), 255)


@ft.kernel
def _rows_of_bytes(
    x: Array[ft.uint8],
    planes: int,
    height: int,
    width: int,
    windows: Windows,
    line: Array[ft.int64],
    y: Array[ft.uint8],
) -> None:
    target = len(windows.first)
    for plane in range(planes):
        for i in range(target):
            for j in range(width):
                line[j] = _HALF
            for k in range(windows.length[i]):
                weight = windows.fixed[i * windows.taps + k]
                at = (plane * height + windows.first[i] + k) * width
                for j in range(width):
                    line[j] += weight * x[at + j]
            at = (plane * target + i) * width
            for j in range(width):
                y[at + j] = min(max(line[j] >> _BITS, 0), 255)


@ft.kernel
def _columns_of_floats(
    x: Array[ft.float32], lines: int, width: int, windows: Windows, y: Array[ft.float32]
) -> None:
    target = len(windows.first)
    for line in range(lines):
        for j in range(target):
            at = line * width + windows.first[j]
            weight = j * windows.taps
            total = 0.0
            for k in range(windows.length[j]):
                total += windows.weight[weight + k] * x[at + k]
            y[line * target + j] = total


@ft.kernel
def _rows_of_floats(
    x: Array[ft.float32],
    planes: int,
    height: int,
    width: int,
    windows: Windows,
    line: Array[ft.float64],
    y: Array[ft.float32],
) -> None:
    target = len(windows.first)
    for plane in range(planes):
        for i in range(target):
            for j in range(width):
                line[j] = 0.0
            for k in range(windows.length[i]):
                weight = windows.weight[i * windows.taps + k]
                at = (plane * height + windows.first[i] + k) * width
                for j in range(width):
                    line[j] += weight * x[at + j]
            at = (plane * target + i) * width
            for j in range(width):
                y[at + j] = line[j]
