"""`Instances`: the checked entries of an instances file of COCO."""

from __future__ import annotations

from array import array
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from fl_vision.datasets.boxes import BoxTable
from fl_vision.datasets.detection import Corrections
from fl_vision.datasets.json_entries import Entry, json_entries
from fl_vision.errors import DataFileError
from fl_vision.images import MAX_PIXELS

_LARGEST = 2**63


class ImageEntry(NamedTuple):
    name: str
    height: int
    width: int


class Instances:
    """An instances file: its images and categories by id, and its objects.

    Lists may come in any order, so objects are joined with their images at the end. With `skip`
    wrong entries go to `skipped` in place of being raised.
    """

    def __init__(self, path: Path, skip: bool) -> None:
        self._path, self._skip = path, skip
        self.skipped: list[DataFileError] = []
        self.images: dict[int, ImageEntry] = {}
        self.categories: dict[int, str] = {}
        self._ids: set[int] = set()
        #: Of each object: number, id, image, category, crowd, first and last byte; box and area.
        self._numbers, self._boxes = array("q"), array("d")
        take = {"images": self._image, "categories": self._category, "annotations": self._object}
        seen = set()
        for entry in json_entries(path, "coco"):
            if entry.key in take:
                seen.add(entry.key)
                try:
                    take[entry.key](entry)
                except DataFileError as error:
                    self._wrong(error)
        for key in ("images", "categories"):
            if key not in seen:
                raise DataFileError(
                    "coco", path, f"has no {key!r}", "give an instances file of COCO"
                )

    def table(self) -> tuple[BoxTable, Corrections]:
        table, corrections = BoxTable(), Corrections()
        rows = {id: row for row, id in enumerate(self.images)}
        labels = {id: label for label, id in enumerate(sorted(self.categories))}
        for at in range(len(self._numbers) // 7):
            number, id, image, category, crowd, start, stop = self._numbers[7 * at : 7 * at + 7]
            left, top, width, height, area = self._boxes[5 * at : 5 * at + 5]
            where = f"annotation {number} (id {id})"
            for name, key, known in (
                ("image", image, self.images),
                ("category", category, self.categories),
            ):
                if key not in known:
                    self._wrong(self._error(where, f"there is no {name} {key}", f"add the {name}"))
                    break
            else:
                size = self.images[image][1:]
                box = corrections.clamp((left, top, left + width, top + height), size, where)
                if box is not None:
                    table.add(rows[image], box, labels[category], area, bool(crowd), (start, stop))
        return table, corrections

    def _image(self, entry: Entry) -> None:
        where = f"image {entry.number}"
        id = self._integer(entry, "id", where)
        where += f" (id {id})"
        name = self._text(entry, "file_name", where)
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
            raise self._error(where, f"file_name {name!r} leads out of the folder", "rename it")
        height, width = (self._integer(entry, key, where) for key in ("height", "width"))
        if min(height, width) < 1 or height * width > MAX_PIXELS:
            raise self._error(
                where, f"is {height} x {width}", f"images have 1 to {MAX_PIXELS} pixels"
            )
        if id in self.images:
            raise self._error(where, "another image has this id", "give every image its own")
        self.images[id] = ImageEntry(name, height, width)

    def _category(self, entry: Entry) -> None:
        where = f"category {entry.number}"
        id = self._integer(entry, "id", where)
        if id in self.categories:
            raise self._error(where, f"another one has the id {id}", "give every one its own")
        self.categories[id] = self._text(entry, "name", where)

    def _object(self, entry: Entry) -> None:
        where = f"annotation {entry.number}"
        id = self._integer(entry, "id", where)
        where += f" (id {id})"
        image, category = (self._integer(entry, key, where) for key in ("image_id", "category_id"))
        box = self._field(entry, "bbox", where)
        if not isinstance(box, list) or len(box) != 4 or not all(map(_is_finite, box)):
            raise self._error(where, f"bbox {_short(box)}", "give 4 finite numbers: x, y, w, h")
        if min(box[2:]) < 0:
            raise self._error(where, f"bbox {box} has a negative size", "w and h are at least 0")
        area = entry.value.get("area", box[2] * box[3])
        if not _is_finite(area) or area < 0:
            raise self._error(where, f"area {_short(area)}", "give a finite number of at least 0")
        crowd = entry.value.get("iscrowd", 0)
        if crowd not in (0, 1):
            raise self._error(where, f"iscrowd {_short(crowd)}", "give 0 or 1")
        if id in self._ids:
            raise self._error(where, "another annotation has this id", "give every one its own")
        self._ids.add(id)
        self._numbers.extend(
            (entry.number, id, image, category, int(crowd), entry.start, entry.stop)
        )
        self._boxes.extend((*box, area))

    def _field(self, entry: Entry, key: str, where: str) -> Any:
        if not isinstance(entry.value, dict):
            raise self._error(where, f"is {_short(entry.value)}", "give an object")
        if key not in entry.value:
            raise self._error(where, f"lacks {key!r}", "add it")
        return entry.value[key]

    def _integer(self, entry: Entry, key: str, where: str) -> int:
        value = self._field(entry, key, where)
        if type(value) is not int or not -_LARGEST <= value < _LARGEST:
            raise self._error(where, f"{key} is {_short(value)}", "give an integer")
        return value

    def _text(self, entry: Entry, key: str, where: str) -> str:
        value = self._field(entry, key, where)
        if not isinstance(value, str) or not value:
            raise self._error(where, f"{key} is {_short(value)}", "give a text")
        return value

    def _error(self, where: str, problem: str, remedy: str) -> DataFileError:
        return DataFileError("coco", self._path, f"{where}: {problem}", remedy)

    def _wrong(self, error: DataFileError) -> None:
        if not self._skip:
            raise error
        self.skipped.append(error)


def _is_finite(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < 1e15  # type: ignore[arg-type]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
