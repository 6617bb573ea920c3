"""Changes of single levels: by tables of 256 entries for bytes, and kernels that read bytes."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_vision.transforms.pixels import (
    Picture,
    image_size,
    pixels_of,
    planes_of,
    require_bytes,
    require_colour,
)


def looked_up(planes: np.ndarray, tables: Sequence[Sequence[int]]) -> np.ndarray:
    """uint8 (planes, height, width) with each level replaced by that of a table of 256; there is
    one table for each plane."""
    table = np.clip(np.asarray(tables), 0, 255).astype(np.uint8).reshape(-1)
    made = np.empty_like(planes)
    _look_up(planes.reshape(-1), table, len(planes), planes[0].size, made.reshape(-1))
    return made


def histograms(planes: np.ndarray) -> np.ndarray:
    """How many pixels of each plane have each of 256 levels: int64 (planes, 256)."""
    counts = np.zeros((len(planes), 256), np.int64)
    _count_levels(planes.reshape(-1), len(planes), planes[0].size, counts.reshape(-1))
    return counts


def histogram(image: ft.Tensor | Picture) -> ft.Tensor:
    """How many pixels of each channel have each level: int64 (..., C, 256) of uint8 (..., C, H, W)
    or of a picture. Raises `DTypeError` for floats."""
    image_size("histogram", image)
    pixels = pixels_of(image) if isinstance(image, Picture) else image
    require_bytes("histogram", pixels)
    counts = histograms(planes_of(pixels)).reshape(*pixels.shape[:-2], 256)
    return ft.asarray(counts, None, pixels.device, pixels.backend)


def grey_of(where: str, planes: np.ndarray, channels: int) -> np.ndarray:
    """Luminance (images, height, width) of uint8 planes, as ITU-R BT.601 weights and Pillow rounds
    it."""
    if channels == 1:
        return planes
    count, height, width = planes.shape
    made = np.empty((count // 3, height, width), np.uint8)
    _luminance(planes.reshape(-1), count // 3, height * width, made.reshape(-1))
    return made


def blended(planes: np.ndarray, other: np.ndarray, factor: float) -> np.ndarray:
    """other + factor (planes - other), cut to 0 to 255 and rounded down; `other` may have one plane
    for several ones."""
    made = np.empty_like(planes)
    _blend(
        *(planes.reshape(-1), other.reshape(-1), factor, len(planes)),
        *(len(planes) // len(other), planes[0].size, made.reshape(-1)),
    )
    return made


def grey_floats(where: str, image: ft.Tensor) -> ft.Tensor:
    """Luminance (..., 1, H, W) of floats."""
    require_colour(where, image)
    if image.shape[-3] == 1:
        return image
    red, green, blue = (image[..., k : k + 1, :, :] for k in range(3))
    return red * 0.299 + green * 0.587 + blue * 0.114


@ft.kernel
def _look_up(
    x: Array[ft.uint8], table: Array[ft.uint8], planes: int, area: int, y: Array[ft.uint8]
) -> None:
    for plane in range(planes):
        start = plane * area
        first = plane * 256
        for i in range(area):
            y[start + i] = table[first + x[start + i]]


@ft.kernel
def _count_levels(x: Array[ft.uint8], planes: int, area: int, counts: Array[ft.int64]) -> None:
    for plane in range(planes):
        first = plane * 256
        for i in range(area):
            counts[first + x[plane * area + i]] += 1


@ft.kernel
def _luminance(x: Array[ft.uint8], images: int, area: int, y: Array[ft.uint8]) -> None:
    for image in range(images):
        red = 3 * image * area
        green = red + area
        blue = green + area
        to = image * area
        for i in range(area):
            weighted = 19595 * x[red + i] + 38470 * x[green + i] + 7471 * x[blue + i]
            y[to + i] = (weighted + 0x8000) >> 16


@ft.kernel
def _blend(
    x: Array[ft.uint8],
    other: Array[ft.uint8],
    factor: float,
    planes: int,
    shared: int,
    area: int,
    y: Array[ft.uint8],
) -> None:
    for plane in range(planes):
        at = plane * area
        base = plane // shared * area
        for i in range(area):
            low = other[base + i]
            y[at + i] = int(min(max(low + factor * (x[at + i] - low), 0.0), 255.0))
