"""Sharpness, and blurring with a bell."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from PIL import ImageEnhance

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import (
    Picture,
    image_size,
    like,
    picture_of,
    pixels_of,
    planes_of,
    require_finite,
)
from fl_vision.transforms.resampling import Windows, resample, windows_of
from fl_vision.transforms.tables import blended
from fl_vision.transforms.tones import require_factor
from fl_vision.transforms.transform import DrawnTransform, FixedTransform

_LARGEST_KERNEL = 1023


@dataclass(frozen=True)
class Sharpness(FixedTransform):
    """The distance of pixels from the mean of their 3 x 3 neighbours, in which the pixel counts
    five times, times `factor`: 0 is smooth, 1 changes nothing. Pixels at the edges stay."""

    factor: float

    def __post_init__(self) -> None:
        require_factor("Sharpness", self.factor)

    def change(self, image: Any) -> Any:
        if isinstance(image, Picture):
            return ImageEnhance.Sharpness(image).enhance(self.factor)
        height, width = image_size("Sharpness", image)
        if min(height, width) < 3:
            return image
        if image.dtype == ft.uint8:
            planes = planes_of(image)
            smooth = planes.copy()
            _smooth(planes.reshape(-1), *planes.shape, smooth.reshape(-1))
            return like(image, blended(planes, smooth, self.factor))
        rows = image[..., :-2, :] + image[..., 1:-1, :] + image[..., 2:, :]
        total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + image[..., 1:-1, 1:-1] * 4
        smooth = _with_edges(image, total / 13.0)
        return ft.clip(smooth + (image - smooth) * self.factor, 0.0, 1.0)


def _with_edges(image: ft.Tensor, inner: ft.Tensor) -> ft.Tensor:
    """`inner`, with the outermost pixels of `image` around it."""
    middle = ft.concatenate([image[..., 1:-1, :1], inner, image[..., 1:-1, -1:]], -1)
    return ft.concatenate([image[..., :1, :], middle, image[..., -1:, :]], -2)


@ft.kernel
def _smooth(x: Array[ft.uint8], planes: int, height: int, width: int, y: Array[ft.uint8]) -> None:
    for plane in range(planes):
        for i in range(1, height - 1):
            at = (plane * height + i) * width
            up = at - width
            down = at + width
            for j in range(1, width - 1):
                above = x[up + j - 1] + x[up + j] + x[up + j + 1]
                beside = x[at + j - 1] + 5 * x[at + j] + x[at + j + 1]
                below = x[down + j - 1] + x[down + j] + x[down + j + 1]
                y[at + j] = (2 * (above + beside + below) + 13) // 26


@dataclass(frozen=True)
class GaussianBlur(FixedTransform):
    """A mean of `kernel_size` x `kernel_size` pixels, odd, weighted by a bell of deviation `sigma`.

    The image is mirrored at its edges, so it must have more than kernel_size / 2 rows and columns.
    """

    kernel_size: int
    sigma: float

    def __post_init__(self) -> None:
        _require_kernel("GaussianBlur", self.kernel_size, self.sigma)

    def change(self, image: Any) -> Any:
        if isinstance(image, Picture):
            return picture_of(self.change(pixels_of(image)))
        size = image_size("GaussianBlur", image)
        if min(size) <= self.kernel_size // 2:
            raise ImageError(
                "GaussianBlur",
                f"an image of {size[0]} x {size[1]} for {self.kernel_size} pixels",
                "give a smaller kernel_size",
            )
        rows, columns = (_bells(extent, self.kernel_size, self.sigma) for extent in size)
        return like(image, resample(planes_of(image), rows, columns))


def _require_kernel(where: str, kernel_size: int, sigma: float) -> None:
    if not (1 <= kernel_size <= _LARGEST_KERNEL and kernel_size % 2):
        raise ImageError(
            where, f"kernel_size {kernel_size}", f"give an odd number up to {_LARGEST_KERNEL}"
        )
    require_finite(where, sigma=sigma)
    if sigma <= 0.0:
        raise ImageError(where, f"sigma {sigma}", "give a number above 0")


@lru_cache(maxsize=16)
def _bells(extent: int, kernel_size: int, sigma: float) -> Windows:
    """Bells around each of `extent` pixels; what reaches out is added where it is mirrored to."""
    reach = kernel_size // 2
    bell = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    bell /= bell.sum()
    place = np.arange(extent)
    first = np.maximum(place - reach, 0)
    weight = np.zeros((extent, kernel_size))
    for offset, share in zip(range(-reach, reach + 1), bell, strict=True):
        at = np.abs(place + offset)
        at = np.where(at < extent, at, 2 * (extent - 1) - at)
        weight[place, at - first] += share
    count = np.minimum(place + reach + 1, extent) - first
    return windows_of(first, count, weight)


@dataclass(frozen=True)
class RandomGaussianBlur(DrawnTransform):
    """`GaussianBlur` with a deviation uniform in `sigma`."""

    kernel_size: int
    sigma: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        for sigma in self.sigma:
            _require_kernel("RandomGaussianBlur", self.kernel_size, sigma)
        if self.sigma[0] > self.sigma[1]:
            raise ImageError("RandomGaussianBlur", f"sigma {self.sigma}", "give (low, high)")

    def choose(self, height: int, width: int, draws: Draws) -> GaussianBlur:
        return GaussianBlur(self.kernel_size, draws.uniform(*self.sigma))
