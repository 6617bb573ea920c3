"""Pixels of mean 0 and deviation 1, and the statistics of a data set."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_data import Dataset
from fl_tensor.kernels import Array
from fl_vision.datasets.image_data import image_and_label
from fl_vision.errors import UsageError
from fl_vision.images import pixels_of
from fl_vision.transforms.pixels import Picture, channels_of
from fl_vision.transforms.transform import FixedTransform

_STATISTICS_SAMPLES = 10_000
_BLOCK = 256


@dataclass(frozen=True)
class Normalise(FixedTransform):
    """Pixels (N, C, H, W) or (C, H, W) of any dtype to mean 0 and deviation 1 per channel.

    `mean` and `std` are in pixel levels, one number per channel; the result has `dtype`. A picture
    of Pillow becomes a tensor.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: ft.DType = ft.float32

    def __call__(self, image: Any, generator: ft.Generator | int | None = None) -> Any:
        if isinstance(image, ft.Array):
            return self.change(image)  # of any dtype, and values with gradients
        return super().__call__(image, generator)

    def change(self, image: Any) -> ft.Tensor:
        channels = len(self.mean)
        if isinstance(image, Picture) and self.dtype == ft.float32:
            if channels_of(image) == channels:
                return _normalised(image, _table(self.mean, self.std))
        pixels = pixels_of(image) if isinstance(image, Picture) else image
        if pixels.ndim < 3 or pixels.shape[-3] != channels:
            raise ft.ShapeError(
                f"[normalise] pixels {pixels.shape}: expected (..., {channels}, height, width)"
            )
        place = (pixels.device, pixels.backend)
        mean = _per_channel(self.mean, self.dtype, *place)
        deviation = _per_channel(self.std, self.dtype, *place)
        return ft.divide(ft.subtract(pixels.astype(self.dtype), mean), deviation)


@lru_cache(maxsize=32)  # the same few for every image
def _per_channel(
    values: tuple[float, ...], dtype: ft.DType, device: ft.Device, backend: ft.TensorBackend
) -> ft.Tensor:
    made = ft.asarray(list(values), dtype=dtype, device=device, backend=backend)
    return made.reshape(len(values), 1, 1)


@lru_cache(maxsize=32)
def _table(mean: tuple[float, ...], std: tuple[float, ...]) -> np.ndarray:
    """What each of 256 levels becomes, channel after channel."""
    levels = np.arange(256, dtype=np.float32)
    each = [(levels - np.float32(m)) / np.float32(d) for m, d in zip(mean, std, strict=True)]
    return np.concatenate(each)


def _normalised(image: Picture, table: np.ndarray) -> ft.Tensor:
    channels = channels_of(image)
    made = np.empty((channels, image.height, image.width), np.float32)
    data = np.frombuffer(image.tobytes(), np.uint8)
    _look_up(data, table, channels, image.height * image.width, made.reshape(-1))
    return ft.asarray(made, copy=False)


@ft.kernel
def _look_up(
    x: Array[ft.uint8], table: Array[ft.float32], channels: int, area: int, y: Array[ft.float32]
) -> None:
    for channel in range(channels):
        to = channel * area
        first = channel * 256
        for i in range(area):
            y[to + i] = table[first + x[i * channels + channel]]


def channel_statistics(dataset: Dataset) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, in pixel levels.

    Over all images, or 10,000 evenly spread ones where there are more. The sums are sums of
    integers: exact, and the same on every backend. A channel of one constant level gets 1 as its
    deviation.
    """
    if len(dataset) == 0:
        raise UsageError("[normalise] no images to take the mean of; give a larger data set")
    stride = -(-len(dataset) // _STATISTICS_SAMPLES)
    chosen = range(0, len(dataset), stride)
    count = 0
    first: list[int] = []
    second: list[int] = []
    for start in range(0, len(chosen), _BLOCK):
        block = dataset.__getitems__(list(chosen[start : start + _BLOCK]))
        pixels = image_and_label(block)[0].astype(ft.int64)
        sums = ft.sum(pixels, axis=(0, 2, 3)).tolist()
        squares = ft.sum(ft.multiply(pixels, pixels), axis=(0, 2, 3)).tolist()
        first = [a + b for a, b in zip(first or [0] * len(sums), sums, strict=True)]
        second = [a + b for a, b in zip(second or [0] * len(squares), squares, strict=True)]
        count += pixels.shape[0] * pixels.shape[2] * pixels.shape[3]
    mean = tuple(total / count for total in first)
    # n * sum(x^2) - (sum x)^2 in integers: no cancellation.
    variance = [(count * b - a * a) / count**2 for a, b in zip(first, second, strict=True)]
    return mean, tuple(math.sqrt(v) if v > 0 else 1.0 for v in variance)
