"""`DetectionDataset`, the base of data sets of images with boxes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Dataset, check_count, check_index
from fl_vision.datasets.boxes import BoxTable, tensor_of
from fl_vision.datasets.target import Target
from fl_vision.errors import DataFileError
from fl_vision.images import open_image, pixels_of, resized


class DetectionDataset(Dataset):
    """Samples `(image (C, H, W) uint8, Target)`.

    Images differ in size: `Batch(ds, size, collate=detection_collate)` pads them. `image(index)`
    and `target(index)` give one part alone; the target does not need the pixels.
    """

    #: The names of the classes; labels are indices into them.
    classes: tuple[str, ...]

    @abstractmethod
    def image(self, index: int) -> ft.Tensor:
        """The picture (C, H, W) of sample `index`, uint8."""

    @abstractmethod
    def target(self, index: int) -> Target:
        """The objects in sample `index`."""

    def __getitem__(self, index: int) -> tuple[ft.Tensor, Target]:
        return self.image(index), self.target(index)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images, {len(self.classes)} classes)"


@dataclass
class Corrections:
    """What a reader did to boxes that do not lie inside their image."""

    #: Boxes without area, before or after they were cut at the edge of the image: left out.
    dropped: int = 0
    #: Boxes that were cut at the edge of the image.
    clamped: int = 0
    #: Where the first of the dropped ones were, in words.
    examples: list[str] = field(default_factory=list)

    def clamp(
        self, box: tuple[float, float, float, float], size: tuple[int, int], where: str
    ) -> tuple[float, float, float, float] | None:
        """The part of a box inside an image of (height, width), or None if there is none."""
        (left, top, right, bottom), (height, width) = box, size
        inside = (
            min(max(left, 0.0), width),
            min(max(top, 0.0), height),
            min(max(right, 0.0), width),
            min(max(bottom, 0.0), height),
        )
        if inside[2] <= inside[0] or inside[3] <= inside[1]:
            self.dropped += 1
            if len(self.examples) < 10:
                self.examples.append(where)
            return None
        self.clamped += inside != box
        return inside

    def __str__(self) -> str:
        text = f"{self.dropped} boxes without area left out, {self.clamped} cut at the edge"
        return f"{text} (first: {'; '.join(self.examples[:3])})" if self.examples else text


class BoxFiles(DetectionDataset):
    """Image files with a `BoxTable`: what readers of annotations are made of.

    With `max_side`, an image whose longer side is above it is shrunk to it, with its boxes.
    """

    _upright = False

    def __init__(
        self,
        reader: str,
        source: Path,
        paths: list[Path],
        classes: tuple[str, ...],
        table: BoxTable,
        *,
        max_side: int | None = None,
        corrections: Corrections | None = None,
        skipped: list[DataFileError] | None = None,
    ) -> None:
        if max_side is not None:
            check_count(max_side, "max_side", type(self).__name__, least=1)
        self.source, self.paths, self.classes = source, paths, classes
        self.corrections = Corrections() if corrections is None else corrections
        #: The errors of entries that were left out with `on_error="skip"`.
        self.skipped = [] if skipped is None else skipped
        self.max_side = max_side
        self._reader, self._table = reader, table

    def __len__(self) -> int:
        return len(self.paths)

    @abstractmethod
    def original_size(self, index: int) -> tuple[int, int]:
        """(height, width) of the stored image."""

    def shown_size(self, index: int) -> tuple[int, int]:
        """(height, width) of `image(index)`."""
        height, width = self.original_size(index)
        if self.max_side is None or max(height, width) <= self.max_side:
            return height, width
        longer = max(height, width)
        halves = (2 * extent * self.max_side + longer for extent in (height, width))
        high, wide = (max(1, half // (2 * longer)) for half in halves)
        return high, wide

    def image(self, index: int) -> ft.Tensor:
        number = check_index(index, len(self), type(self).__name__)
        path, expected = self.paths[number], self.original_size(number)
        with open_image(path, upright=self._upright) as image:
            if (image.height, image.width) != expected:
                raise DataFileError(
                    self._reader,
                    path,
                    f"is {image.height} x {image.width}, {self.source} says "
                    f"{expected[0]} x {expected[1]}",
                    "give the images that the annotations were made for",
                )
            return pixels_of(resized(image, self.shown_size(number)))

    def target(self, index: int) -> Target:
        number = check_index(index, len(self), type(self).__name__)
        numbers = self._table.of(number)
        original, shown = self.original_size(number), self.shown_size(number)
        down, right = shown[0] / original[0], shown[1] / original[1]
        boxes = self._table.boxes(numbers) * (right, down, right, down)
        return Target(
            boxes=tensor_of(boxes, ft.float32),
            labels=tensor_of(self._table.labels(numbers), ft.int64),
            areas=tensor_of(self._table.areas(numbers) * (down * right), ft.float32),
            image_id=self.image_id(number),
            original_size=original,
            **self._more(number),
        )

    def image_id(self, index: int) -> int | str:
        return self.paths[index].stem

    def _more(self, number: int) -> dict[str, Any]:
        """Further fields of a target: the crowd flags, at least."""
        return {"crowd": tensor_of(self._table.flags(self._table.of(number)), ft.bool)}

    def class_counts(self) -> tuple[int, ...]:
        """How many boxes each class has."""
        counts = [0] * len(self.classes)
        for label in self._table.labels().tolist():
            counts[label] += 1
        return tuple(counts)
