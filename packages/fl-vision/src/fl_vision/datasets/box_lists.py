"""Lists of images with boxes: a line `path<TAB>x1 y1 x2 y2 class<TAB>...` for each image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fl_data import check_count
from fl_tensor.annotations import check, checked
from fl_tensor.files import open_regular, replacing
from fl_vision.datasets.boxes import BoxTable
from fl_vision.datasets.detection import BoxFiles, DetectionDataset
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import image_size

MAX_LINE = 1 << 20
"""The most bytes of a line: some 30,000 boxes."""

_FORM = "write: path, a tab, x1 y1 x2 y2 class, a tab, ..."


class BoxList(BoxFiles):
    """The images of a list file, the format of Flashlight's `CocoDataset`.

    A line is the path of an image and its boxes, separated by tabs; a box is left, top, right,
    bottom in pixels and the number of the class, separated by spaces. A line without boxes is an
    image without objects. Blank lines are skipped. Relative paths begin at `root`, or else at the
    folder of the list file. `classes` are names, or how many there are. Images are read as they are
    stored, without the turn that EXIF data says. `max_side` shrinks larger images with their boxes.
    With `on_error="skip"` wrong lines are left out, and `skipped` has their errors.

    Raises `DataMissingError` for a missing file. Raises `DataFileError`, naming file, line and
    remedy, for a line of another form, a box without area, a class that does not exist, and an
    image that comes twice; and at the sample, for a box that is not inside its image.
    """

    def __init__(
        self,
        path: str | Path,
        classes: int | Sequence[str],
        *,
        root: str | Path | None = None,
        max_side: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> None:
        check("BoxList", BoxList.__init__, (self, path, classes), {"root": root})
        if on_error not in ("raise", "skip"):
            raise UsageError(f"[box list] on_error {on_error!r}: choose 'raise' or 'skip'")
        if isinstance(classes, int):
            count = check_count(classes, "classes", "BoxList", least=1)
            classes = [str(label) for label in range(count)]
        source, names = Path(path), tuple(classes)
        folder = source.parent if root is None else Path(root)
        table = BoxTable()
        paths: list[Path] = []
        skipped: list[DataFileError] = []
        seen: dict[str, int] = {}
        for number, line in _lines(source):
            try:
                image, boxes = _parsed(source, number, line, len(names))
                if image in seen:
                    problem = f"line {seen[image]} has this image already"
                    raise _error(source, number, problem, "write each image once")
            except DataFileError as error:
                if on_error == "raise":
                    raise
                skipped.append(error)
                continue
            seen[image] = number
            for *box, label in boxes:
                left, top, right, bottom = box
                area = (right - left) * (bottom - top)
                table.add(
                    len(paths), (left, top, right, bottom), int(label), area, place=(number, 0)
                )
            paths.append(folder / image)
        super().__init__(
            "box list", source, paths, names, table, max_side=max_side, skipped=skipped
        )

    def original_size(self, index: int) -> tuple[int, int]:
        size = image_size(self.paths[index])
        numbers = self._table.of(index)
        for box, place in zip(
            self._table.boxes(numbers).tolist(), self._table.places(numbers), strict=True
        ):
            if min(box) < 0 or box[2] > size[1] or box[3] > size[0]:
                raise _error(
                    self.source,
                    place[0],
                    f"the box {box} is not inside {self.paths[index]}, {size[0]} x {size[1]}",
                    "cut it at the edge of the image",
                )
        return size


@checked
def write_box_list(path: str | Path, data: DetectionDataset, folder: str | Path) -> tuple[int, int]:
    """Write a list file of the images and boxes of `data`, for `BoxList`; how many images and boxes
    it has. It replaces one of that name once it is complete.

    `data` has image files: `CocoDetection` or `VocDetection`, say. Paths are written relative to
    `folder` where they lie in it, otherwise absolute. A list cannot say that a box is a crowd, so
    crowds are left out. Boxes lie inside their images already: the reader of `data` has cut them,
    and its `corrections` count what it left out.

    Raises `UsageError` for data without image files, of shrunk images, and a path with a tab or a
    line break.
    """
    if not isinstance(data, BoxFiles) or data.max_side is not None:
        raise UsageError("[box list] give a data set of image files, without max_side")
    count = 0
    with replacing(path) as file:
        for number, image in enumerate(data.paths):
            place = image.relative_to(folder) if image.is_relative_to(folder) else image.absolute()
            if set("\t\n\r") & set(str(place)):
                raise UsageError(f"[box list] {str(place)!r} has a tab or line break; rename it")
            target = data.target(number)
            fields = [str(place)]
            for box, label, crowd in zip(
                target.boxes.tolist(), target.labels.tolist(), target.crowd.tolist(), strict=True
            ):
                if not crowd:
                    fields.append(" ".join(f"{x:.9g}" for x in box) + f" {label}")
            count += len(fields) - 1
            file.write(("\t".join(fields) + "\n").encode())
    return len(data), count


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    found = []
    try:
        with open_regular(path) as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    problem = f"is longer than {MAX_LINE} bytes"
                    raise _error(path, number, problem, "give a list of images with boxes")
                if line.strip():
                    found.append((number, line.decode().rstrip("\r\n")))
    except FileNotFoundError:
        raise DataMissingError(f"[box list] {path}: no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise _error(path, number, f"is no UTF-8 ({error.reason})", "save it as UTF-8") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DataFileError("box list", path, problem, "check the path") from None
    return found


def _parsed(
    path: Path, number: int, line: str, classes: int
) -> tuple[str, list[tuple[float, float, float, float, float]]]:
    image, *fields = line.split("\t")
    if not image.strip() or "\0" in image:
        raise _error(path, number, "has no path", _FORM)
    boxes = []
    for field in fields:
        if not field.strip():
            continue
        try:
            left, top, right, bottom, label = (float(text) for text in field.split())
        except ValueError:
            raise _error(path, number, f"{field[:60]!r} is no box", _FORM) from None
        where = f"the box {field[:60]!r}"
        if not all(map(math.isfinite, (left, top, right, bottom))):
            raise _error(path, number, f"{where} is not finite", "give numbers of pixels")
        if right <= left or bottom <= top:
            raise _error(path, number, f"{where} has no area", "x1 < x2 and y1 < y2: remove it")
        if label not in range(classes):
            problem = f"{where} has an unknown class"
            raise _error(path, number, problem, f"classes are 0 to {classes - 1}")
        boxes.append((left, top, right, bottom, label))
    return image, boxes


def _error(path: Path, line: int, problem: str, remedy: str) -> DataFileError:
    return DataFileError("box list", path, f"line {line}: {problem}", remedy)
