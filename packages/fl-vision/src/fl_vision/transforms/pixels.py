"""Images as transforms take them: tensors (..., C, H, W), and pictures of Pillow.

Kernels read tensors as planes: contiguous arrays (planes, height, width) on the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from PIL import Image

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.images import pixels_of as pixels_of

Picture = Image.Image
ImageLike = ft.Tensor | Picture
#: One number for all channels, or one for each.
Fill = float | tuple[float, ...]

_MODES = ("L", "RGB")
MAX_EXTENT = 1 << 16
"""The most rows, or columns, of an image that a transform makes."""


def image_size(where: str, image: ImageLike) -> tuple[int, int]:
    """(height, width) of what is an image; raises `ImageError`, `ShapeError` or `DTypeError`."""
    if isinstance(image, Picture):
        if image.mode not in _MODES:
            raise ImageError(
                where, f"a picture of mode {image.mode}", f"convert it to {' or '.join(_MODES)}"
            )
        size = (image.height, image.width)
    elif isinstance(image, ft.Tensor):
        if image.dtype != ft.uint8 and not image.dtype.is_floating:
            raise ft.DTypeError(f"[{where}] an image of {image.dtype}: give uint8 or floats")
        if image.ndim < 3:
            raise ft.ShapeError(f"[{where}] an image {image.shape}: expected (..., C, H, W)")
        size = (image.shape[-2], image.shape[-1])
        if image.shape[-3] == 0:
            raise ImageError(where, f"an image {image.shape} without channels", "give 1 or 3")
    else:
        raise ft.DTypeError(
            f"[{where}] an image that is a {type(image).__name__}: give a tensor (..., C, H, W), "
            "or a picture of Pillow"
        )
    if min(size) < 1:
        raise ImageError(
            where, f"an empty image of {size[0]} x {size[1]} pixels", "leave it out of the data"
        )
    return size


def channels_of(image: ImageLike) -> int:
    """1 or 3 of a picture; of a tensor what it has."""
    return len(image.getbands()) if isinstance(image, Picture) else image.shape[-3]


def peak_of(image: ImageLike) -> float:
    """The level of white: 255 of bytes, 1 of floats."""
    return 255.0 if isinstance(image, Picture) or image.dtype == ft.uint8 else 1.0


def require_colour(where: str, image: ImageLike) -> None:
    """Raises `ImageError` unless there are 1 or 3 channels."""
    if channels_of(image) not in (1, 3):
        raise ImageError(
            where, f"an image of {channels_of(image)} channels", "give 1 (grey) or 3 (RGB)"
        )


def require_bytes(where: str, image: ImageLike) -> None:
    """Raises `DTypeError` unless levels are 8 bits."""
    if isinstance(image, ft.Tensor) and image.dtype != ft.uint8:
        raise ft.DTypeError(f"[{where}] an image of {image.dtype}: levels are those of uint8")


def planes_of(image: ft.Tensor) -> np.ndarray:
    """The (planes, height, width) of a tensor, uint8 or float32, not to be written to."""
    values = image.numpy()
    values = values.reshape(-1, *values.shape[-2:])
    dtype = np.uint8 if image.dtype == ft.uint8 else np.float32
    return np.ascontiguousarray(values, dtype)


def like(image: ft.Tensor, planes: np.ndarray, channels: int | None = None) -> ft.Tensor:
    """Planes that nobody else has as a tensor with the leading axes, dtype and place of `image`."""
    count = image.shape[-3] if channels is None else channels
    values = planes.reshape(*image.shape[:-3], count, *planes.shape[-2:])
    place = (image.device, image.backend)
    made: ft.Tensor | None = None
    with suppress(ft.ArgumentError):
        made = ft.asarray(values, None, *place, copy=False)
    made = ft.asarray(values, None, *place) if made is None else made
    return made if made.dtype == image.dtype else made.astype(image.dtype)


def picture_of(pixels: ft.Tensor) -> Picture:
    """The picture, of mode L or RGB, of a (1 or 3, H, W) uint8 tensor."""
    image_size("picture_of", pixels)
    require_bytes("picture_of", pixels)
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3):
        raise ft.ShapeError(f"[picture_of] pixels {pixels.shape}: expected (1 or 3, H, W)")
    values = pixels.numpy()
    if len(values) == 1:
        return Image.fromarray(np.ascontiguousarray(values[0]))
    return Image.fromarray(np.ascontiguousarray(values.transpose(1, 2, 0)))


def tensor_of(image: ImageLike) -> ft.Tensor:
    """The tensor that an image is, or has."""
    return pixels_of(image) if isinstance(image, Picture) else image


def fill_levels(where: str, fill: Fill, image: ImageLike) -> tuple[float, ...]:
    """A level for each channel, in those of the image: `fill` is from 0 to 255, whatever the image.
    A colour for a grey image counts with its luminance. Raises `ImageError` where `fill` has other
    channels, or other levels."""
    channels = channels_of(image)
    levels = tuple(fill) if isinstance(fill, Sequence) else (fill,) * channels
    if not all(0.0 <= level <= 255.0 for level in levels):
        raise ImageError(where, f"fill {fill}", "give levels from 0 to 255")
    if len(levels) == 3 and channels == 1:
        levels = (0.299 * levels[0] + 0.587 * levels[1] + 0.114 * levels[2],)
    if len(levels) != channels:
        raise ImageError(
            where, f"fill {fill} for an image of {channels} channels", "give a level for each"
        )
    is_byte = peak_of(image) == 255.0
    return tuple(round(level) if is_byte else level / 255.0 for level in levels)


def picture_fill(levels: tuple[float, ...]) -> int | tuple[int, ...]:
    """The levels as Pillow takes them."""
    whole = tuple(int(level) for level in levels)
    return whole[0] if len(whole) == 1 else whole


def require_extents(where: str, size: tuple[int, int], name: str = "size") -> None:
    """Raises `ImageError` unless (height, width) are those of an image."""
    if len(size) != 2 or not all(1 <= extent <= MAX_EXTENT for extent in size):
        raise ImageError(
            where, f"{name} {size}", f"give (height, width), each from 1 to {MAX_EXTENT}"
        )


def require_finite(where: str, **numbers: float) -> None:
    """Raises `ImageError` for NaN and infinity."""
    for name, number in numbers.items():
        if not math.isfinite(number):
            raise ImageError(where, f"{name} {number}", "give a finite number")


def require_share(where: str, **numbers: float) -> None:
    """Raises `ImageError` for what lies outside 0 to 1."""
    for name, number in numbers.items():
        if not 0.0 <= number <= 1.0:
            raise ImageError(where, f"{name} {number}", "give a number from 0 to 1")
