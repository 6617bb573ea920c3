"""Images with boxes by the text of an option: a folder or file of COCO, a list, or scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fl_tensor as ft
from fl_data import check_index
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_vision.datasets import BoxList, CocoDetection, DetectionDataset, Scenes, Target
from fl_vision.errors import DataMissingError, UsageError

SCENES = "scenes"
INSTANCES, IMAGES, CLASSES = "instances.json", "images", "classes.txt"
_MAX_SCENES = 10_000_000
_MAX_CLASSES_BYTES = 1 << 24


@dataclass(frozen=True)
class BoxSource:
    """Where images with boxes come from.

    name      `scenes:COUNT`, `scenes:COUNT:SEED` or `scenes:COUNT:SEED:SIZE`: drawn pictures; a
              folder with `instances.json` and `images`, as `fl-vision prepare` writes them; an
              instances file of COCO, `*.json`; or a list of lines `path<TAB>x1 y1 x2 y2 class...`
    images    the folder of the images; None: `images` beside a JSON file, and the folder of a list
    classes   of a list: a file with the name of a class a line; None: `classes.txt` beside it
    skip_bad  leave out entries that cannot be read
    """

    name: str
    images: str | None = None
    classes: str | None = None
    skip_bad: bool = False

    @checked
    def open(self) -> DetectionDataset:
        """The data set. Raises `UsageError`, `DataMissingError` and `DataFileError`."""
        if self.name == SCENES or self.name.startswith(f"{SCENES}:"):
            return _scenes(self.name)
        path = Path(self.name)
        if path.is_dir():
            path = path / INSTANCES
            if not path.is_file():
                raise DataMissingError(
                    f"[detect] {path}: no such file; give a folder with {INSTANCES} and {IMAGES}, "
                    "an instances file of COCO, or a list"
                )
        on_error: Literal["raise", "skip"] = "skip" if self.skip_bad else "raise"
        if path.suffix.lower() == ".json":
            folder = path.parent / IMAGES if self.images is None else Path(self.images)
            return CocoDetection(path, folder, on_error=on_error)
        names = Path(self.classes) if self.classes is not None else path.parent / CLASSES
        return BoxList(path, _names(names), root=self.images, on_error=on_error)


class Selected(DetectionDataset):
    """The images `numbers` of `data`."""

    def __init__(self, data: DetectionDataset, numbers: Sequence[int]) -> None:
        self.data, self.numbers, self.classes = data, tuple(numbers), data.classes

    def __len__(self) -> int:
        return len(self.numbers)

    def image(self, index: int) -> ft.Tensor:
        return self.data.image(self._number(index))

    def target(self, index: int) -> Target:
        return self.data.target(self._number(index))

    def __getitem__(self, index: int) -> Any:
        return self.data[self._number(index)]

    def _number(self, index: int) -> int:
        return self.numbers[check_index(index, len(self), "Selected")]


@checked
def held_out(data: DetectionDataset, share: float) -> tuple[Selected, Selected]:
    """The images to train on, and a share of them, spread evenly, to measure on. Raises
    `UsageError` for a share that leaves none of either."""
    count = len(data)
    held = [int((i + 1) * share) > int(i * share) for i in range(count)] if 0 < share < 1 else []
    if not any(held) or all(held):
        raise UsageError(
            f"[detect] a share of {share:g} of {count} images leaves none to train or none to "
            "measure on: give another share, or --valid"
        )
    parts = [[i for i in range(count) if held[i] is which] for which in (False, True)]
    return Selected(data, parts[0]), Selected(data, parts[1])


def _scenes(name: str) -> Scenes:
    numbers = name.split(":")[1:] or ["2000"]
    if len(numbers) > 3 or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in numbers):
        raise UsageError(f"[detect] {name}: write scenes:COUNT, scenes:COUNT:SEED or with :SIZE")
    count, seed, size = (*map(int, numbers), *(0, 128)[len(numbers) - 1 :])
    if not 0 < count <= _MAX_SCENES:
        raise UsageError(f"[detect] {name}: give 1 to {_MAX_SCENES} scenes")
    if not 32 <= size <= 1024:
        raise UsageError(f"[detect] {name}: scenes are 32 to 1024 pixels large")
    return Scenes(count, seed, size=size)


def _names(path: Path) -> list[str]:
    try:
        with open_regular(path) as file:
            text = file.read(_MAX_CLASSES_BYTES + 1)
    except FileNotFoundError:
        raise DataMissingError(
            f"[detect] {path}: no such file; give the names of the classes, a line each, with "
            "--classes"
        ) from None
    try:
        names = [line.strip() for line in text.decode().splitlines() if line.strip()]
    except UnicodeDecodeError:
        names = []
    if len(text) > _MAX_CLASSES_BYTES or not names:
        raise UsageError(f"[detect] {path}: give the names of classes, UTF-8, a line each")
    return names
