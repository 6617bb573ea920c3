"""Mirror images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PIL import Image

import fl_tensor as ft
from fl_vision.transforms.draws import Draws
from fl_vision.transforms.pixels import Picture, require_share
from fl_vision.transforms.transform import DrawnTransform, FixedTransform


@dataclass(frozen=True)
class HorizontalFlip(FixedTransform):
    """Left and right exchanged."""

    def change(self, image: Any) -> Any:
        if isinstance(image, Picture):
            return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return ft.flip(image, -1)

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        return [[width - x1, y0, width - x0, y1] for x0, y0, x1, y1 in boxes]

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        return ft.flip(masks, -1)


@dataclass(frozen=True)
class VerticalFlip(FixedTransform):
    """Top and bottom exchanged."""

    def change(self, image: Any) -> Any:
        if isinstance(image, Picture):
            return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        return ft.flip(image, -2)

    def change_boxes(self, boxes: list[list[float]], height: int, width: int) -> list[list[float]]:
        return [[x0, height - y1, x1, height - y0] for x0, y0, x1, y1 in boxes]

    def change_masks(self, masks: ft.Tensor) -> ft.Tensor:
        return ft.flip(masks, -2)


@dataclass(frozen=True)
class RandomHorizontalFlip(DrawnTransform):
    """`HorizontalFlip` with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        require_share("RandomHorizontalFlip", p=self.p)

    def choose(self, height: int, width: int, draws: Draws) -> HorizontalFlip | None:
        return HorizontalFlip() if draws.chance(self.p) else None


@dataclass(frozen=True)
class RandomVerticalFlip(DrawnTransform):
    """`VerticalFlip` with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        require_share("RandomVerticalFlip", p=self.p)

    def choose(self, height: int, width: int, draws: Draws) -> VerticalFlip | None:
        return VerticalFlip() if draws.chance(self.p) else None
