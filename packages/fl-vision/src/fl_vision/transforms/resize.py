"""Other sizes of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import Image

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import (
    ImageLike,
    Picture,
    image_size,
    like,
    picture_of,
    pixels_of,
    planes_of,
    require_extents,
)
from fl_vision.transforms.resampling import filter_windows, resample
from fl_vision.transforms.transform import DrawnTransform, FixedTransform

#: The filters by name, as Pillow numbers them.
INTERPOLATIONS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def require_interpolation(where: str, interpolation: str) -> None:
    """Raises `ImageError` for a name that there is not."""
    if interpolation not in INTERPOLATIONS:
        raise ImageError(
            where, f"interpolation {interpolation!r}", f"give one of {', '.join(INTERPOLATIONS)}"
        )


def resized(
    image: ImageLike, size: tuple[int, int], interpolation: str, antialias: bool = True
) -> ImageLike:
    """An image of `size` (height, width)."""
    if image_size("Resize", image) == size:
        return image
    if isinstance(image, Picture):
        if antialias or interpolation == "nearest":
            return image.resize((size[1], size[0]), INTERPOLATIONS[interpolation])
        return picture_of(_resampled(pixels_of(image), size, interpolation, antialias))
    return _resampled(image, size, interpolation, antialias)


def _resampled(
    pixels: ft.Tensor, size: tuple[int, int], interpolation: str, antialias: bool
) -> ft.Tensor:
    rows, columns = (
        filter_windows(extent, target, interpolation, antialias)
        for extent, target in zip(pixels.shape[-2:], size, strict=True)
    )
    return like(pixels, resample(planes_of(pixels), rows, columns))


class _Resizing(FixedTransform):
    """What transforms to another size have in common."""

    def target(self, height: int, width: int) -> tuple[int, int]:
        """The size that an image of this size gets."""
        raise NotImplementedError

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        target = self.target(height, width)
        x, y = target[1] / width, target[0] / height
        return [[x0 * x, y0 * y, x1 * x, y1 * y] for x0, y0, x1, y1 in boxes]

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        height, width = masks.shape[-2:]
        return _resampled(masks, self.target(height, width), "nearest", True)

    def area_scale(self, height: int, width: int) -> float:
        target = self.target(height, width)
        return (target[0] / height) * (target[1] / width)


@dataclass(frozen=True)
class Resize(_Resizing):
    """An image of `size` (height, width).

    `interpolation` is nearest, bilinear or bicubic (Keys, 1981, a = -1/2). With `antialias`, a
    filter is as wide as an output pixel where an image becomes smaller, as in Pillow.
    """

    size: tuple[int, int]
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        require_extents("Resize", self.size)
        require_interpolation("Resize", self.interpolation)

    def target(self, height: int, width: int) -> tuple[int, int]:
        return self.size

    def change(self, image: Any) -> Any:
        return resized(image, self.size, self.interpolation, self.antialias)


@dataclass(frozen=True)
class ResizeShortestSide(_Resizing):
    """The shorter side becomes `size` pixels long, and the other one in proportion, rounded down.

    With `max_size` the longer side becomes no longer than that: then the shorter one is shorter.
    """

    size: int
    max_size: int | None = None
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        where = "ResizeShortestSide"
        require_extents(where, (self.size, self.max_size or self.size))
        require_interpolation(where, self.interpolation)
        if self.max_size is not None and self.max_size < self.size:
            raise ImageError(
                where, f"max_size {self.max_size} for size {self.size}", "give a larger max_size"
            )

    def target(self, height: int, width: int) -> tuple[int, int]:
        short, long = sorted((height, width))
        one, other = self.size, self.size * long // short
        if self.max_size is not None and other > self.max_size:
            one, other = max(1, self.max_size * one // other), self.max_size
        if other > 1 << 16:
            raise ImageError(
                "ResizeShortestSide", f"an image of {height} x {width} would be {other} long",
                "give max_size",
            )  # fmt: skip
        return (one, other) if height <= width else (other, one)

    def change(self, image: Any) -> Any:
        target = self.target(*image_size("ResizeShortestSide", image))
        return resized(image, target, self.interpolation, self.antialias)


@dataclass(frozen=True)
class RandomResize(DrawnTransform):
    """`ResizeShortestSide` to one of `sizes`, each equally likely."""

    sizes: tuple[int, ...]
    max_size: int | None = None
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        if not self.sizes:
            raise ImageError("RandomResize", "sizes ()", "give at least one")
        for size in self.sizes:
            ResizeShortestSide(size, self.max_size, self.interpolation)

    def choose(self, height: int, width: int, draws: Draws) -> ResizeShortestSide:
        return ResizeShortestSide(draws.choice(self.sizes), self.max_size, self.interpolation)
