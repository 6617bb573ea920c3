"""Rotation, shear, translation, and all of them at once."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import Fill, image_size, require_finite
from fl_vision.transforms.resize import require_interpolation
from fl_vision.transforms.transform import DrawnTransform, FixedTransform
from fl_vision.transforms.warping import Matrix, inverse, rotation, warped, warped_boxes


class _Warp(FixedTransform):
    """What affine maps have in common. `fill` is what comes in from outside: a level for all
    channels, or one for each."""

    interpolation: str
    fill: Fill

    @abstractmethod
    def matrix(self, height: int, width: int) -> Matrix:
        """Where the pixels of the result come from."""

    def _check(self, **numbers: float) -> None:
        where = type(self).__name__
        require_interpolation(where, self.interpolation)
        require_finite(where, **numbers)

    def change(self, image: Any) -> Any:
        matrix = self.matrix(*image_size(type(self).__name__, image))
        return warped(image, matrix, self.interpolation, self.fill)

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        return warped_boxes(boxes, self.matrix(height, width))

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        height, width = masks.shape[-2:]
        return warped(masks, self.matrix(height, width), "nearest", 0.0)

    def area_scale(self, height: int, width: int) -> float:
        a, b, _, d, e, _ = self.matrix(height, width)
        return 1.0 / abs(a * e - b * d)


@dataclass(frozen=True)
class Rotate(_Warp):
    """Turned counter-clockwise by `degrees` around the middle; the size stays."""

    degrees: float
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        self._check(degrees=self.degrees)

    def matrix(self, height: int, width: int) -> Matrix:
        return rotation(self.degrees, height, width)


@dataclass(frozen=True)
class ShearX(_Warp):
    """Rows moved to the left by `factor` times their distance from the top."""

    factor: float
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        self._check(factor=self.factor)

    def matrix(self, height: int, width: int) -> Matrix:
        return (1.0, self.factor, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True)
class ShearY(_Warp):
    """Columns moved upwards by `factor` times their distance from the left."""

    factor: float
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        self._check(factor=self.factor)

    def matrix(self, height: int, width: int) -> Matrix:
        return (1.0, 0.0, 0.0, self.factor, 1.0, 0.0)


@dataclass(frozen=True)
class TranslateX(_Warp):
    """Moved to the right by `pixels`; to the left if it is negative."""

    pixels: float
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        self._check(pixels=self.pixels)

    def matrix(self, height: int, width: int) -> Matrix:
        return (1.0, 0.0, -self.pixels, 0.0, 1.0, 0.0)


@dataclass(frozen=True)
class TranslateY(_Warp):
    """Moved down by `pixels`; up if it is negative."""

    pixels: float
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        self._check(pixels=self.pixels)

    def matrix(self, height: int, width: int) -> Matrix:
        return (1.0, 0.0, 0.0, 0.0, 1.0, -self.pixels)


@dataclass(frozen=True)
class Affine(_Warp):
    """Sheared, scaled and turned around the middle, then moved, as torchvision's `affine`.

    degrees    clockwise
    translate  (x, y) in pixels, to the right and down
    scale      above 0
    shear      (x, y) in degrees, between -90 and 90
    """

    degrees: float = 0.0
    translate: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0
    shear: tuple[float, float] = (0.0, 0.0)
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        x, y = self.translate
        self._check(degrees=self.degrees, x=x, y=y, scale=self.scale)
        if self.scale <= 0.0:
            raise ImageError("Affine", f"scale {self.scale}", "give a number above 0")
        if not all(-90.0 < angle < 90.0 for angle in self.shear):
            raise ImageError("Affine", f"shear {self.shear}", "give degrees between -90 and 90")

    def matrix(self, height: int, width: int) -> Matrix:
        angle = math.radians(self.degrees)
        shear_x, shear_y = (math.radians(degrees) for degrees in self.shear)
        slope = math.tan(shear_x)
        # A shear of y, then one of x, turned by the angle.
        cosine = math.cos(angle - shear_y) / math.cos(shear_y)
        sine = math.sin(angle - shear_y) / math.cos(shear_y)
        a, b = cosine, -cosine * slope - math.sin(angle)
        d, e = sine, -sine * slope + math.cos(angle)
        a, b, d, e = (self.scale * number for number in (a, b, d, e))
        x, y = width / 2, height / 2
        moved_x, moved_y = x + self.translate[0], y + self.translate[1]
        return inverse((a, b, moved_x - a * x - b * y, d, e, moved_y - d * x - e * y))


@dataclass(frozen=True)
class RandomAffine(DrawnTransform):
    """`Affine` with numbers that are uniform in ranges.

    `degrees` turns by -degrees to degrees. `translate` moves by up to these shares of width and
    height, whole pixels. `scale` and `shear` (degrees, along x) are (low, high).
    """

    degrees: float = 0.0
    translate: tuple[float, float] = (0.0, 0.0)
    scale: tuple[float, float] = (1.0, 1.0)
    shear: tuple[float, float] = (0.0, 0.0)
    interpolation: str = "nearest"
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        where = "RandomAffine"
        require_finite(where, degrees=self.degrees)
        if not all(0.0 <= share <= 1.0 for share in self.translate):
            raise ImageError(where, f"translate {self.translate}", "give shares from 0 to 1")
        for name, bounds in (("scale", self.scale), ("shear", self.shear)):
            if not bounds[0] <= bounds[1]:
                raise ImageError(where, f"{name} {bounds}", "give (low, high)")
        for scale, shear in zip(self.scale, self.shear, strict=True):
            Affine(self.degrees, (0.0, 0.0), scale, (shear, 0.0), self.interpolation, self.fill)

    def choose(self, height: int, width: int, draws: Draws) -> Affine:
        degrees = draws.uniform(-self.degrees, self.degrees)
        x, y = self.translate[0] * width, self.translate[1] * height
        move = (float(round(draws.uniform(-x, x))), float(round(draws.uniform(-y, y))))
        scale, shear = draws.uniform(*self.scale), draws.uniform(*self.shear)
        return Affine(degrees, move, scale, (shear, 0.0), self.interpolation, self.fill)
