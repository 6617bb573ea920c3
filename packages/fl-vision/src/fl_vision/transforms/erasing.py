"""Rectangles removed from images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fl_vision.errors import ImageError
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import (
    Fill,
    Picture,
    fill_levels,
    image_size,
    picture_fill,
    require_extents,
    require_share,
)
from fl_vision.transforms.transform import DrawnTransform, FixedTransform

_TRIES = 10


@dataclass(frozen=True)
class Erase(FixedTransform):
    """`fill` in the window of `height` x `width` pixels from (`top`, `left`). Boxes and masks
    stay."""

    top: int
    left: int
    height: int
    width: int
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        require_extents("Erase", (self.height, self.width))
        if self.top < 0 or self.left < 0:
            raise ImageError("Erase", f"top {self.top}, left {self.left}", "give 0 or more")

    def change(self, image: Any) -> Any:
        height, width = image_size("Erase", image)
        bottom, right = self.top + self.height, self.left + self.width
        if bottom > height or right > width:
            raise ImageError(
                "Erase",
                f"rows {self.top} to {bottom}, columns {self.left} to {right} of an image of "
                f"{height} x {width}",
                "give a window inside it",
            )
        levels = fill_levels("Erase", self.fill, image)
        if isinstance(image, Picture):
            made = image.copy()
            made.paste(picture_fill(levels), (self.left, self.top, right, bottom))
            return made
        made = image.copy()
        for channel, level in enumerate(levels):
            made[..., channel, self.top : bottom, self.left : right] = level
        return made


@dataclass(frozen=True)
class RandomErasing(DrawnTransform):
    """With probability `p`, a window of `fill`: Zhong et al. (2020).

    The area is a share of the image, uniform in `scale`; height / width is log-uniform in `ratio`.
    If none of 10 windows fits, the image stays as it is.
    """

    p: float = 0.25
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    fill: Fill = 0.0

    def __post_init__(self) -> None:
        where = "RandomErasing"
        require_share(where, p=self.p)
        if not 0.0 < self.scale[0] <= self.scale[1] <= 1.0:
            raise ImageError(where, f"scale {self.scale}", "give 0 < low <= high <= 1")
        if not 0.0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise ImageError(where, f"ratio {self.ratio}", "give 0 < low <= high")

    def choose(self, height: int, width: int, draws: Draws) -> Erase | None:
        if not draws.chance(self.p):
            return None
        low, high = (math.log(ratio) for ratio in self.ratio)
        for _ in range(_TRIES):
            area = height * width * draws.uniform(*self.scale)
            ratio = math.exp(draws.uniform(low, high))
            rows, columns = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < rows < height and 0 < columns < width:
                top, left = draws.integer(0, height - rows), draws.integer(0, width - columns)
                return Erase(top, left, rows, columns, self.fill)
        return None
