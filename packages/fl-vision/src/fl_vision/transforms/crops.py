"""Windows of images, and edges around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import ImageOps

import fl_tensor as ft
from fl_vision.errors import ImageError
from fl_vision.transforms.pixels import (
    MAX_EXTENT,
    Fill,
    Picture,
    fill_levels,
    image_size,
    picture_fill,
    picture_of,
    pixels_of,
    require_extents,
)
from fl_vision.transforms.transform import FixedTransform

_MODES = ("constant", "edge", "reflect")


@dataclass(frozen=True)
class Crop(FixedTransform):
    """The window of `height` x `width` pixels whose upper left one is (`top`, `left`).

    Raises `ImageError` for an image that has no such window.
    """

    top: int
    left: int
    height: int
    width: int

    def __post_init__(self) -> None:
        require_extents("Crop", (self.height, self.width))
        if self.top < 0 or self.left < 0:
            raise ImageError("Crop", f"top {self.top}, left {self.left}", "give 0 or more")

    def change(self, image: Any) -> Any:
        height, width = image_size("Crop", image)
        bottom, right = self.top + self.height, self.left + self.width
        if bottom > height or right > width:
            raise ImageError(
                "Crop",
                f"rows {self.top} to {bottom}, columns {self.left} to {right} of an image of "
                f"{height} x {width}",
                "give a window inside it, or pad it before",
            )
        if isinstance(image, Picture):
            return image.crop((self.left, self.top, right, bottom))
        return image[..., self.top : bottom, self.left : right]

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        x, y = self.left, self.top
        return [[x0 - x, y0 - y, x1 - x, y1 - y] for x0, y0, x1, y1 in boxes]

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        return masks[..., self.top : self.top + self.height, self.left : self.left + self.width]


@dataclass(frozen=True)
class Pad(FixedTransform):
    """Pixels added at the `left`, `top`, `right` and `bottom`.

    `mode` says which: "constant" ones of `fill`, those of the "edge", or of the image mirrored at
    the edge ("reflect", which has fewer pixels than the image).
    """

    left: int
    top: int
    right: int
    bottom: int
    fill: Fill = 0.0
    mode: str = "constant"

    def __post_init__(self) -> None:
        if not all(0 <= extent <= MAX_EXTENT for extent in self._widths):
            raise ImageError("Pad", f"{self._widths} pixels", f"give 0 to {MAX_EXTENT} for each")
        if self.mode not in _MODES:
            raise ImageError("Pad", f"mode {self.mode!r}", f"give one of {', '.join(_MODES)}")

    @property
    def _widths(self) -> tuple[int, int, int, int]:
        return (self.left, self.top, self.right, self.bottom)

    def change(self, image: Any) -> Any:
        size = image_size("Pad", image)
        levels = fill_levels("Pad", self.fill, image)
        if self.mode == "reflect" and not (
            max(self.top, self.bottom) < size[0] and max(self.left, self.right) < size[1]
        ):
            raise ImageError(
                "Pad",
                f"{self._widths} mirrored pixels at an image of {size[0]} x {size[1]}",
                "give fewer than it has",
            )
        if isinstance(image, Picture):
            if self.mode == "constant":
                return ImageOps.expand(image, self._widths, picture_fill(levels))
            return picture_of(self._padded(pixels_of(image), levels))
        return self._padded(image, levels)

    def _padded(self, image: ft.Tensor, levels: tuple[float, ...]) -> ft.Tensor:
        widths = [(0, 0)] * (image.ndim - 2) + [(self.top, self.bottom), (self.left, self.right)]
        if self.mode != "constant":
            return ft.pad(image, widths, self.mode)
        if len(set(levels)) == 1:
            return ft.pad(image, widths, value=levels[0])
        parts = [
            ft.pad(image[..., channel : channel + 1, :, :], widths, value=level)
            for channel, level in enumerate(levels)
        ]
        return ft.concatenate(parts, -3)

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        x, y = self.left, self.top
        return [[x0 + x, y0 + y, x1 + x, y1 + y] for x0, y0, x1, y1 in boxes]

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        return ft.pad(masks, [(0, 0), (self.top, self.bottom), (self.left, self.right)])


@dataclass(frozen=True)
class CenterCrop(FixedTransform):
    """The window of `size` (height, width) in the middle; smaller images raise `ImageError`."""

    size: tuple[int, int]

    def __post_init__(self) -> None:
        require_extents("CenterCrop", self.size)

    def window(self, height: int, width: int) -> Crop:
        """The window of an image of this size; odd rests are rounded as Python rounds."""
        if height < self.size[0] or width < self.size[1]:
            raise ImageError(
                "CenterCrop",
                f"an image of {height} x {width} for a window of {self.size[0]} x {self.size[1]}",
                "resize it before",
            )
        top, left = round((height - self.size[0]) / 2), round((width - self.size[1]) / 2)
        return Crop(top, left, *self.size)

    def change(self, image: Any) -> Any:
        return self.window(*image_size("CenterCrop", image)).change(image)

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        return self.window(height, width).change_boxes(boxes, height, width)

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        height, width = masks.shape[-2:]
        return self.window(height, width).change_masks(masks)
