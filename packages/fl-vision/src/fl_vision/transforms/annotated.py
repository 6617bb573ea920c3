"""An image with what is known of the objects in it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_tensor.annotations import Checked
from fl_vision.errors import ImageError
from fl_vision.transforms.pixels import ImageLike, image_size

_PER_BOX = ("labels", "masks", "areas", "crowd")


@dataclass(frozen=True)
class AnnotatedImage(Checked):
    """An image, and n objects in it. Geometric transforms move boxes and masks along.

    image    (C, H, W), uint8 or floats, or a picture of Pillow of mode L or RGB
    boxes    (n, 4) floats, x0, y0, x1, y1 in pixels from the upper left corner; x1 and y1 are
             beyond the last column and row
    labels   (n,) integers
    masks    (n, H, W), uint8 of 0 and 1, or None
    areas    (n,) in pixels, or None; resizing scales them, a crop leaves them as they are
    crowd    (n,) bools or integers, or None
    name     of the image, for messages of errors: a path, say
    dropped  how many boxes transforms removed, because nothing of them was left in the image

    Raises `ImageError` for boxes that are not finite, or of negative extent, or for fields that do
    not fit; it names the image and the first bad box.
    """

    image: ImageLike
    boxes: ft.Tensor
    labels: ft.Tensor
    masks: ft.Tensor | None = None
    areas: ft.Tensor | None = None
    crowd: ft.Tensor | None = None
    name: str = ""
    dropped: int = 0

    def __post_init__(self) -> None:
        size = image_size(self._where, self.image)
        boxes = self.boxes
        if boxes.ndim != 2 or boxes.shape[1] != 4 or not boxes.dtype.is_floating:
            raise self._error(f"boxes {boxes.shape} of {boxes.dtype}", "give (n, 4) floats")
        count = boxes.shape[0]
        for field in _PER_BOX:
            value = getattr(self, field)
            shape = (count, *size) if field == "masks" else (count,)
            if value is not None and value.shape != shape:
                raise self._error(
                    f"{field} {value.shape} for {count} boxes in {size[0]} x {size[1]} pixels",
                    f"give {shape}",
                )
        for number, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
            # Comparisons with NaN are false. An extent of 0 is allowed: `clipped` drops it.
            if not (-1e9 < x0 <= x1 < 1e9 and -1e9 < y0 <= y1 < 1e9):
                raise self._error(
                    f"box {number} is {(x0, y0, x1, y1)}",
                    "give finite x0 <= x1 and y0 <= y1, in pixels",
                )

    @property
    def _where(self) -> str:
        return f"image {self.name}" if self.name else "image"

    def _error(self, problem: str, remedy: str) -> ImageError:
        return ImageError(self._where, problem, remedy)

    def replace(self, **fields: Any) -> AnnotatedImage:
        """A copy with other values of some fields."""
        return dataclasses.replace(self, **fields)

    def clipped(self) -> AnnotatedImage:
        """Boxes cut at the edges of the image; those of which nothing is left are dropped, with
        all that belongs to them, and counted in `dropped`."""
        height, width = image_size(self._where, self.image)
        kept, boxes = [], []
        for number, (x0, y0, x1, y1) in enumerate(self.boxes.tolist()):
            x0, x1 = (min(max(x, 0.0), float(width)) for x in (x0, x1))
            y0, y1 = (min(max(y, 0.0), float(height)) for y in (y0, y1))
            if x1 > x0 and y1 > y0:
                kept.append(number)
                boxes.append([x0, y0, x1, y1])
        fields: dict[str, Any] = {}
        if len(kept) < self.boxes.shape[0]:
            chosen = ft.asarray(kept, dtype=ft.int64)
            for field in _PER_BOX:
                value = getattr(self, field)
                fields[field] = None if value is None else ft.take(value, chosen, axis=0)
        made = ft.asarray(boxes, dtype=self.boxes.dtype).reshape(len(kept), 4)
        dropped = self.dropped + self.boxes.shape[0] - len(kept)
        return self.replace(boxes=made, dropped=dropped, **fields)
