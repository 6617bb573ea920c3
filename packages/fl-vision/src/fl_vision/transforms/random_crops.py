"""Windows that are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fl_vision.errors import ImageError
from fl_vision.transforms.crops import Crop, Pad
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import Fill, require_extents
from fl_vision.transforms.resize import Resize, require_interpolation
from fl_vision.transforms.transform import Compose, DrawnTransform, ImageTransform

_TRIES = 10


@dataclass(frozen=True)
class RandomCrop(DrawnTransform):
    """A window of `size` (height, width), every place equally likely.

    Before, `padding` pixels are added on each side, of `fill` or by the `mode` of `Pad`. An image
    that is smaller than the window raises `ImageError`.
    """

    size: tuple[int, int]
    padding: int = 0
    fill: Fill = 0.0
    mode: str = "constant"

    def __post_init__(self) -> None:
        require_extents("RandomCrop", self.size)
        self._pad()

    def _pad(self) -> Pad:
        return Pad(*(self.padding,) * 4, self.fill, self.mode)

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform:
        down = height + 2 * self.padding - self.size[0]
        right = width + 2 * self.padding - self.size[1]
        if down < 0 or right < 0:
            raise ImageError(
                "RandomCrop",
                f"an image of {height} x {width} for a window of {self.size[0]} x {self.size[1]}",
                "give a smaller window, or more padding",
            )
        crop = Crop(draws.integer(0, down), draws.integer(0, right), *self.size)
        return Compose((self._pad(), crop)) if self.padding else crop


@dataclass(frozen=True)
class RandomResizedCrop(DrawnTransform):
    """A window of random area and shape, resized to `size` (height, width).

    The area is a share of the image, uniform in `scale`; width / height is log-uniform in `ratio`
    (Szegedy et al., 2015). If none of 10 windows fits, it is the largest one in the middle whose
    ratio lies within `ratio`.
    """

    size: tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"

    def __post_init__(self) -> None:
        where = "RandomResizedCrop"
        require_extents(where, self.size)
        require_interpolation(where, self.interpolation)
        if not 0.0 < self.scale[0] <= self.scale[1] <= 1.0:
            raise ImageError(where, f"scale {self.scale}", "give 0 < low <= high <= 1")
        if not 0.0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise ImageError(where, f"ratio {self.ratio}", "give 0 < low <= high")

    def window(self, height: int, width: int, draws: Draws) -> Crop:
        """The window of an image of this size."""
        low, high = (math.log(ratio) for ratio in self.ratio)
        for _ in range(_TRIES):
            area = height * width * draws.uniform(*self.scale)
            ratio = math.exp(draws.uniform(low, high))
            rows, columns = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < rows <= height and 0 < columns <= width:
                top, left = draws.integer(0, height - rows), draws.integer(0, width - columns)
                return Crop(top, left, rows, columns)
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        rows = min(height, max(1, round(width / ratio)))
        columns = min(width, max(1, round(height * ratio)))
        return Crop((height - rows) // 2, (width - columns) // 2, rows, columns)

    def choose(self, height: int, width: int, draws: Draws) -> ImageTransform:
        resize = Resize(self.size, self.interpolation)
        return Compose((self.window(height, width, draws), resize))


@dataclass(frozen=True)
class RandomSizeCrop(DrawnTransform):
    """A window whose height and width are drawn, each from `least` to `most` pixels or to those of
    the image. What is smaller than `least` stays whole. Carion et al. (2020)."""

    least: int
    most: int

    def __post_init__(self) -> None:
        require_extents("RandomSizeCrop", (self.least, self.most), "least and most")
        if self.least > self.most:
            raise ImageError(
                "RandomSizeCrop", f"least {self.least}, most {self.most}", "exchange them"
            )

    def choose(self, height: int, width: int, draws: Draws) -> Crop:
        rows, columns = (
            draws.integer(min(self.least, extent), min(self.most, extent))
            for extent in (height, width)
        )
        top, left = draws.integer(0, height - rows), draws.integer(0, width - columns)
        return Crop(top, left, rows, columns)
