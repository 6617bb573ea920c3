"""Images with boxes by the text of an option: COCO, VOC, a list, or scenes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fl_tensor as ft
from fl_data import check_index
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_vision.datasets import (
    VOC_CLASSES,
    BoxList,
    CachedImages,
    CocoDetection,
    DetectionDataset,
    Scenes,
    Target,
    VocDetection,
)
from fl_vision.datasets.detection import BoxFiles
from fl_vision.errors import DataFileError, DataMissingError, UsageError

SCENES = "scenes"
INSTANCES, IMAGES, CLASSES, SETS = "instances.json", "images", "classes.txt", "ImageSets"
_MAX_SCENES = 10_000_000
#: So many errors are said in full.
_SHOWN = 20
_MAX_CLASSES_BYTES = 1 << 24


@dataclass(frozen=True)
class BoxSource:
    """Where images with boxes come from.

    name      `scenes:COUNT`, `scenes:COUNT:SEED` or `scenes:COUNT:SEED:SIZE`: drawn pictures; a
              folder with `instances.json` and `images`, as `fl-vision prepare` writes them; an
              instances file of COCO, `*.json`; a folder of VOC, which has `ImageSets`, or
              `FOLDER:SPLIT` for another split than train; or a list of lines
              `path<TAB>x1 y1 x2 y2 class...`
    images    the folder of the images; None: `images` beside a JSON file, and the folder of a list
    classes   of a list or VOC: a file with the name of a class a line; None: `classes.txt` beside
              the list, and VOC's 20 classes
    skip_bad  leave out entries that cannot be read, and images that cannot be decoded
    """

    name: str
    images: str | None = None
    classes: str | None = None
    skip_bad: bool = False

    @checked
    def open(self, cache: str | Path | None = None) -> DetectionDataset:
        """The data set; with a folder `cache`, decoded images of files are kept there. Raises
        `UsageError`, `DataMissingError` and `DataFileError`."""
        if self.name == SCENES or self.name.startswith(f"{SCENES}:"):
            return _scenes(self.name)
        data: DetectionDataset = self._files()
        if self.skip_bad:
            data = _decodable(data)
        return data if cache is None else _Cached(data, cache)

    def _files(self) -> BoxFiles:
        path = Path(self.name)
        root, _, split = self.name.rpartition(":")
        if not path.exists() and root and Path(root, SETS).is_dir():
            return self._voc(root, split)
        if (path / SETS).is_dir():
            return self._voc(self.name, "train")
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

    def _voc(self, folder: str, split: str) -> VocDetection:
        if self.images is not None:
            raise UsageError(
                f"[detect] --image-dir {self.images}: images of VOC are in JPEGImages beside its "
                "annotations; leave it out"
            )
        names = VOC_CLASSES if self.classes is None else _names(Path(self.classes))
        return VocDetection(folder, split, classes=names)


class Selected(DetectionDataset):
    """The images `numbers` of `data`."""

    def __init__(self, data: DetectionDataset, numbers: Sequence[int]) -> None:
        self.data, self.classes = data, data.classes
        self.numbers: Sequence[int] = tuple(numbers)
        #: Errors of images that were left out.
        self.skipped: list[DataFileError | DataMissingError] = []

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


class _Cached(DetectionDataset):
    """Images of files, decoded once."""

    def __init__(self, data: DetectionDataset, folder: str | Path) -> None:
        self.data, self.classes, self._numbers = data, data.classes, range(len(data))
        inner = data
        if isinstance(data, Selected):
            self._numbers, inner = data.numbers, data.data  # type: ignore[assignment]
        self._images = CachedImages(inner, folder=folder)

    def __len__(self) -> int:
        return len(self.data)

    def image(self, index: int) -> ft.Tensor:
        return self._images.image(self._numbers[check_index(index, len(self), "images")])

    def target(self, index: int) -> Target:
        return self.data.target(index)


def data_notes(data: DetectionDataset) -> list[str]:
    """What was left out or changed while `data` was read, in words: entries, images, boxes."""
    skipped: list[Any] = []
    lines = []
    while isinstance(data, Selected | _Cached):
        if isinstance(data, Selected):
            skipped = [*data.skipped, *skipped]
        data = data.data
    if isinstance(data, BoxFiles):
        skipped = [*data.skipped, *skipped]
        if data.corrections.dropped or data.corrections.clamped:
            lines.append(str(data.corrections))
    if skipped:
        lines.append(f"left out {len(skipped)} entries or images that cannot be read:")
        lines += map(str, skipped[:_SHOWN])
        if len(skipped) > _SHOWN:
            lines.append(f"and {len(skipped) - _SHOWN} more")
    return lines


def _decodable(data: DetectionDataset) -> DetectionDataset:
    """The images of `data` that can be decoded: each is read once."""
    good, bad = [], []
    for number in range(len(data)):
        try:
            data[number]
        except (DataFileError, DataMissingError) as error:
            bad.append(error)
        else:
            good.append(number)
    if not bad:
        return data
    if not good:
        raise UsageError(f"[detect] none of {len(bad)} images can be read; the first: {bad[0]}")
    chosen = Selected(data, good)
    chosen.skipped = bad
    return chosen


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
