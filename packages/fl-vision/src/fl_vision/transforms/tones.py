"""Changes of levels, pixel by pixel: the same one for all pixels of a channel."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageEnhance, ImageOps

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms.pixels import (
    Picture,
    like,
    planes_of,
    require_bytes,
    require_colour,
    require_finite,
)
from fl_vision.transforms.tables import grey_floats, grey_of, histograms, looked_up
from fl_vision.transforms.transform import FixedTransform

_LEVELS = range(256)


class _Tone(FixedTransform):
    """A picture is changed by Pillow, uint8 levels by tables, and floats by tensor operations."""

    def change(self, image: Any) -> Any:
        if isinstance(image, Picture):
            return self.change_picture(image)
        if image.dtype != ft.uint8:
            return self.change_floats(image)
        planes = planes_of(image)
        return like(image, looked_up(planes, self.tables(planes, image.shape[-3])))

    @abstractmethod
    def change_picture(self, image: Image.Image) -> Image.Image: ...

    @abstractmethod
    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        """256 levels for each of the planes (n, height, width)."""

    @abstractmethod
    def change_floats(self, image: ft.Tensor) -> ft.Tensor: ...


def require_factor(where: str, factor: float) -> None:
    """Raises `ImageError` unless a factor is finite and at least 0."""
    require_finite(where, factor=factor)
    if factor < 0.0:
        raise ImageError(where, f"factor {factor}", "give 0 or more; 1 changes nothing")


@dataclass(frozen=True)
class Brightness(_Tone):
    """Levels times `factor`: 0 is black, 1 changes nothing."""

    factor: float

    def __post_init__(self) -> None:
        require_factor("Brightness", self.factor)

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageEnhance.Brightness(image).enhance(self.factor)

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [[int(min(self.factor * level, 255.0)) for level in _LEVELS]] * len(planes)

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        return ft.clip(image * self.factor, 0.0, 1.0)


@dataclass(frozen=True)
class Contrast(_Tone):
    """The distance of levels from the mean luminance, times `factor`: 0 is grey, 1 changes
    nothing. For 1 or 3 channels."""

    factor: float

    def __post_init__(self) -> None:
        require_factor("Contrast", self.factor)

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageEnhance.Contrast(image).enhance(self.factor)

    def change(self, image: Any) -> Any:
        require_colour("Contrast", image)
        return super().change(image)

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        found: list[list[int]] = []
        for counts in histograms(grey_of("Contrast", planes, channels)).tolist():
            mean = int(sum(k * n for k, n in enumerate(counts)) / sum(counts) + 0.5)
            table = [int(min(max(mean + self.factor * (k - mean), 0.0), 255.0)) for k in _LEVELS]
            found += [table] * channels
        return found

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        mean = ft.mean(grey_floats("Contrast", image), (-3, -2, -1), keepdims=True)
        return ft.clip(mean + (image - mean) * self.factor, 0.0, 1.0)


@dataclass(frozen=True)
class AutoContrast(_Tone):
    """Each channel stretched, so that its darkest level is black, and its brightest one white."""

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageOps.autocontrast(image)

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        found = []
        for counts in histograms(planes).tolist():
            present = [level for level, count in enumerate(counts) if count]
            low, high = present[0], present[-1]
            scale = 255.0 / (high - low) if high > low else 1.0
            offset = -low * scale if high > low else 0.0
            found.append([min(max(int(level * scale + offset), 0), 255) for level in _LEVELS])
        return found

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        low = ft.amin(image, (-2, -1), keepdims=True)
        extent = ft.amax(image, (-2, -1), keepdims=True) - low
        flat = extent == 0.0
        stretched = (image - low) / ft.where(flat, 1.0, extent)
        return ft.where(flat, image, ft.clip(stretched, 0.0, 1.0))


@dataclass(frozen=True)
class Invert(_Tone):
    """White minus each level."""

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageOps.invert(image)

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [list(reversed(_LEVELS))] * len(planes)

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        return 1.0 - image


@dataclass(frozen=True)
class Solarize(_Tone):
    """Levels from `threshold` on, 0 to 256, inverted; 256 changes nothing."""

    threshold: float = 128.0

    def __post_init__(self) -> None:
        require_finite("Solarize", threshold=self.threshold)

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageOps.solarize(image, self.threshold)  # type: ignore[arg-type]

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [[k if k < self.threshold else 255 - k for k in _LEVELS]] * len(planes)

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        return ft.where(image < self.threshold / 255.0, image, 1.0 - image)


@dataclass(frozen=True)
class SolarizeAdd(_Tone):
    """`addition` levels more, 255 at most, for levels below `threshold`."""

    addition: int
    threshold: int = 128

    def __post_init__(self) -> None:
        if not -255 <= self.addition <= 255:
            raise ImageError("SolarizeAdd", f"addition {self.addition}", "give -255 to 255")

    def change_picture(self, image: Image.Image) -> Image.Image:
        return image.point(self._table() * len(image.getbands()))

    def _table(self) -> list[int]:
        return [min(max(k + self.addition, 0), 255) if k < self.threshold else k for k in _LEVELS]

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [self._table()] * len(planes)

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        more = ft.clip(image + self.addition / 255.0, 0.0, 1.0)
        return ft.where(image < self.threshold / 255.0, more, image)


class _ByteTone(_Tone):
    """A tone of 8-bit levels alone."""

    def change_floats(self, image: ft.Tensor) -> ft.Tensor:
        require_bytes(type(self).__name__, image)
        return image


@dataclass(frozen=True)
class Posterize(_ByteTone):
    """The upper `bits`, 0 to 8, of each level; uint8 alone."""

    bits: int

    def __post_init__(self) -> None:
        if not 0 <= self.bits <= 8:
            raise ImageError("Posterize", f"bits {self.bits}", "give 0 to 8")

    @property
    def _mask(self) -> int:
        return ~((1 << 8 - self.bits) - 1)

    def change_picture(self, image: Image.Image) -> Image.Image:
        return image.point([k & self._mask for k in _LEVELS] * len(image.getbands()))

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [[k & self._mask for k in _LEVELS]] * len(planes)


@dataclass(frozen=True)
class Equalize(_ByteTone):
    """Each channel with all levels about equally frequent; uint8 alone."""

    def change_picture(self, image: Image.Image) -> Image.Image:
        return ImageOps.equalize(image)

    def tables(self, planes: Any, channels: int) -> Sequence[Sequence[int]]:
        return [_equalizing(counts) for counts in histograms(planes).tolist()]


def _equalizing(counts: list[int]) -> list[int]:
    """The table that spreads levels; that of the identity for less than 255 pixels to spread."""
    present = [count for count in counts if count]
    step = (sum(present) - present[-1]) // 255
    if len(present) < 2 or step == 0:
        return list(_LEVELS)
    before = itertools.accumulate([step // 2, *counts[:-1]])
    return [min(count // step, 255) for count in before]
