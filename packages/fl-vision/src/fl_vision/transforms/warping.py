"""Affine maps of images: the kernel, and Pillow's function for pictures.

A map is the six numbers `(a, b, c, d, e, f)`. It says where a pixel at `(x, y)` of the result is
taken from: `(a x + b y + c, d x + e y + f)` of the image. The centre of the first pixel is at
`(0.5, 0.5)`.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_vision.transforms.pixels import (
    Fill,
    Picture,
    fill_levels,
    like,
    picture_fill,
    planes_of,
)
from fl_vision.transforms.resize import INTERPOLATIONS

Matrix = tuple[float, float, float, float, float, float]

_KINDS = {"nearest": 0, "bilinear": 1, "bicubic": 2}
_ONE = 65536.0


def inverse(matrix: Matrix) -> Matrix:
    """The map the other way. Raises ZeroDivisionError where there is none."""
    a, b, c, d, e, f = matrix
    scale = 1.0 / (a * e - b * d)
    return (
        *(e * scale, -b * scale, (b * f - e * c) * scale),
        *(-d * scale, a * scale, (d * c - a * f) * scale),
    )


def rotation(degrees: float, height: int, width: int) -> Matrix:
    """The map that turns an image counter-clockwise around its middle."""
    angle = -math.radians(degrees % 360.0)
    cosine, sine = round(math.cos(angle), 15), round(math.sin(angle), 15)
    x, y = width / 2, height / 2
    shift_x, shift_y = cosine * -x + sine * -y, -sine * -x + cosine * -y
    return (cosine, sine, shift_x + x, -sine, cosine, shift_y + y)


def warped(image: Any, matrix: Matrix, interpolation: str, fill: Fill) -> Any:
    """An image of the same size, with `fill` where the map leads outside."""
    levels = fill_levels("warp", fill, image)
    if isinstance(image, Picture):
        return image.transform(
            *(image.size, Image.Transform.AFFINE, matrix, INTERPOLATIONS[interpolation]),
            fillcolor=picture_fill(levels),
        )
    planes = planes_of(image)
    made = np.empty_like(planes)
    is_byte = planes.dtype == np.uint8
    empty = np.empty(0, np.float32 if is_byte else np.uint8)
    x, y = planes.reshape(-1), made.reshape(-1)
    arrays = (x, y, empty, empty) if is_byte else (empty, empty, x, y)
    level = np.tile(np.asarray(levels, np.float64), len(planes) // len(levels))
    numbers = np.asarray(matrix, np.float64)
    _warp(*arrays, is_byte, *planes.shape, numbers, level, _KINDS[interpolation])
    return like(image, made)


def warped_boxes(boxes: list[list[float]], matrix: Matrix) -> list[list[float]]:
    """The upright boxes around boxes that moved as the image of `matrix` did."""
    a, b, c, d, e, f = inverse(matrix)
    found = []
    for x0, y0, x1, y1 in boxes:
        corners = [(x, y) for x in (x0, x1) for y in (y0, y1)]
        xs = [a * x + b * y + c for x, y in corners]
        ys = [d * x + e * y + f for x, y in corners]
        found.append([min(xs), min(ys), max(xs), max(ys)])
    return found


@ft.kernel
def _floor(x: float) -> int:
    """The largest integer up to x."""
    k = int(x)
    if float(k) > x:
        k -= 1
    return k


@ft.kernel
def _level(x: Array[ft.uint8], xf: Array[ft.float32], is_byte: bool, at: int) -> float:
    if is_byte:
        return float(x[at])
    return xf[at]


@ft.kernel
def _cubic(p: float, q: float, r: float, s: float, d: float) -> float:
    """Keys (1981) with a = -1, between q and r, as Pillow's transforms have it."""
    return q + d * (r - p + d * (2.0 * (p - q) + r - s + d * (q - p - r + s)))


@ft.kernel
def _cubic_row(
    x: Array[ft.uint8], xf: Array[ft.float32], is_byte: bool, row: int, j: int, width: int, d: float
) -> float:
    last = width - 1
    p = _level(x, xf, is_byte, row + min(max(j - 1, 0), last))
    q = _level(x, xf, is_byte, row + min(max(j, 0), last))
    r = _level(x, xf, is_byte, row + min(max(j + 1, 0), last))
    s = _level(x, xf, is_byte, row + min(max(j + 2, 0), last))
    return _cubic(p, q, r, s, d)


@ft.kernel
def _warp(
    x: Array[ft.uint8],
    y: Array[ft.uint8],
    xf: Array[ft.float32],
    yf: Array[ft.float32],
    is_byte: bool,
    planes: int,
    height: int,
    width: int,
    matrix: Array[ft.float64],
    fill: Array[ft.float64],
    kind: int,
) -> None:
    a = matrix[0]
    b = matrix[1]
    d = matrix[3]
    e = matrix[4]
    # Nearest neighbours are found in fixed point of 16 bits.
    fixed_a = _floor(a * _ONE + 0.5)
    fixed_b = _floor(b * _ONE + 0.5)
    fixed_d = _floor(d * _ONE + 0.5)
    fixed_e = _floor(e * _ONE + 0.5)
    fixed_c = _floor((matrix[2] + a * 0.5 + b * 0.5) * _ONE + 0.5)
    fixed_f = _floor((matrix[5] + d * 0.5 + e * 0.5) * _ONE + 0.5)
    last = width - 1
    for plane in range(planes):
        start = plane * height * width
        for i in range(height):
            for j in range(width):
                to = start + i * width + j
                value = fill[plane]
                if kind == 0:
                    column = (fixed_c + i * fixed_b + j * fixed_a) >> 16
                    row = (fixed_f + i * fixed_e + j * fixed_d) >> 16
                    if 0 <= column and column < width and 0 <= row and row < height:
                        value = _level(x, xf, is_byte, start + row * width + column)
                else:
                    u = a * (j + 0.5) + b * (i + 0.5) + matrix[2]
                    v = d * (j + 0.5) + e * (i + 0.5) + matrix[5]
                    if u >= 0.0 and u < width and v >= 0.0 and v < height:
                        u -= 0.5
                        v -= 0.5
                        left = _floor(u)
                        top = _floor(v)
                        u -= left
                        v -= top
                        if kind == 1:
                            k = min(max(left, 0), last)
                            m = min(max(left + 1, 0), last)
                            upper = start + min(max(top, 0), height - 1) * width
                            lower = start + min(max(top + 1, 0), height - 1) * width
                            p = _level(x, xf, is_byte, upper + k)
                            q = _level(x, xf, is_byte, upper + m)
                            first = p + (q - p) * u
                            p = _level(x, xf, is_byte, lower + k)
                            q = _level(x, xf, is_byte, lower + m)
                            second = p + (q - p) * u
                            value = first + (second - first) * v
                        else:
                            n = height - 1
                            r0 = start + min(max(top - 1, 0), n) * width
                            r1 = start + min(max(top, 0), n) * width
                            r2 = start + min(max(top + 1, 0), n) * width
                            r3 = start + min(max(top + 2, 0), n) * width
                            value = _cubic(
                                _cubic_row(x, xf, is_byte, r0, left, width, u),
                                _cubic_row(x, xf, is_byte, r1, left, width, u),
                                _cubic_row(x, xf, is_byte, r2, left, width, u),
                                _cubic_row(x, xf, is_byte, r3, left, width, u),
                                v,
                            )
                if is_byte:
                    y[to] = int(min(max(value, 0.0), 255.0))
                else:
                    yf[to] = value
