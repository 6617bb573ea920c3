"""Colour: saturation, hue, grey, and random changes of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageEnhance

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.hue import turned_hue
from fl_vision.transforms.pixels import (
    Picture,
    channels_of,
    like,
    picture_of,
    pixels_of,
    planes_of,
    require_colour,
    require_share,
)
from fl_vision.transforms.tables import blended, grey_floats, grey_of
from fl_vision.transforms.tones import Brightness, Contrast, require_factor
from fl_vision.transforms.transform import (
    Compose,
    DrawnTransform,
    FixedTransform,
    ImageTransform,
)


@dataclass(frozen=True)
class Saturation(FixedTransform):
    """The distance of colours from grey, times `factor`: 0 is grey, 1 changes nothing."""

    factor: float

    def __post_init__(self) -> None:
        require_factor("Saturation", self.factor)

    def change(self, image: Any) -> Any:
        require_colour("Saturation", image)
        if isinstance(image, Picture):
            return ImageEnhance.Color(image).enhance(self.factor)
        if image.shape[-3] == 1:
            return image
        if image.dtype == ft.uint8:
            planes = planes_of(image)
            return like(image, blended(planes, grey_of("Saturation", planes, 3), self.factor))
        grey = grey_floats("Saturation", image)
        return ft.clip(grey + (image - grey) * self.factor, 0.0, 1.0)


@dataclass(frozen=True)
class Grayscale(FixedTransform):
    """Luminance (ITU-R BT.601) in `channels` equal channels, 1 or 3; by default as many as the
    image has."""

    channels: int | None = None

    def __post_init__(self) -> None:
        if self.channels not in (None, 1, 3):
            raise ImageError("Grayscale", f"channels {self.channels}", "give 1 or 3")

    def change(self, image: Any) -> Any:
        require_colour("Grayscale", image)
        count = self.channels or channels_of(image)
        if isinstance(image, Picture):
            luminance = image.convert("L")
            return luminance if count == 1 else Image.merge("RGB", (luminance,) * 3)
        if image.dtype == ft.uint8:
            planes = grey_of("Grayscale", planes_of(image), image.shape[-3])
            grey = like(image, planes.copy(), 1)
        else:
            grey = grey_floats("Grayscale", image)
        return grey if count == 1 else ft.concatenate([grey] * 3, -3)


@dataclass(frozen=True)
class Hue(FixedTransform):
    """Colours turned by `shift` of a circle, -1/2 to 1/2, in HSV. Grey images stay as they are."""

    shift: float

    def __post_init__(self) -> None:
        if not -0.5 <= self.shift <= 0.5:
            raise ImageError("Hue", f"shift {self.shift}", "give -0.5 to 0.5")

    def change(self, image: Any) -> Any:
        require_colour("Hue", image)
        if channels_of(image) == 1:
            return image
        if isinstance(image, Picture):
            return picture_of(turned_hue(pixels_of(image), self.shift))
        return turned_hue(image, self.shift)


@dataclass(frozen=True)
class RandomGrayscale(DrawnTransform):
    """`Grayscale` with probability `p`."""

    p: float = 0.1

    def __post_init__(self) -> None:
        require_share("RandomGrayscale", p=self.p)

    def choose(self, height: int, width: int, draws: Draws) -> Grayscale | None:
        return Grayscale() if draws.chance(self.p) else None


@dataclass(frozen=True)
class ColorJitter(DrawnTransform):
    """Brightness, contrast, saturation and hue, in an order that is drawn.

    The first three get factors uniform from 1 - x, at least 0, to 1 + x; the hue is shifted by
    -`hue` to `hue`, at most 1/2. Those of 0 are left out.
    """

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            value = getattr(self, name)
            if not 0.0 <= value < math.inf:
                raise ImageError("ColorJitter", f"{name} {value}", "give 0 or more")
        if not 0.0 <= self.hue <= 0.5:
            raise ImageError("ColorJitter", f"hue {self.hue}", "give 0 to 0.5")

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform:
        found: list[ImageTransform] = []
        for kind, reach in (
            (Brightness, self.brightness),
            (Contrast, self.contrast),
            (Saturation, self.saturation),
        ):
            if reach:
                found.append(kind(draws.uniform(max(0.0, 1.0 - reach), 1.0 + reach)))
        if self.hue:
            found.append(Hue(draws.uniform(-self.hue, self.hue)))
        for k in range(len(found) - 1, 0, -1):  # Fisher and Yates
            other = draws.integer(0, k)
            found[k], found[other] = found[other], found[k]
        return Compose(tuple(found))
