"""PASCAL VOC: images with boxes from a folder of XML files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_tensor.annotations import check
from fl_tensor.files import open_regular
from fl_vision.datasets.boxes import BoxTable, tensor_of
from fl_vision.datasets.detection import BoxFiles, Corrections
from fl_vision.errors import DataFileError, DataMissingError
from fl_vision.images import MAX_PIXELS

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

VOC_CLASSES = tuple(
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike "
    "person pottedplant sheep sofa train tvmonitor".split()
)
MAX_XML = 1 << 20
"""The most bytes of the annotation of an image."""


class VocDetection(BoxFiles):
    """The images of a split of PASCAL VOC (Everingham et al., 2010), in its folder layout.

    `root` is `VOC2007`, say: `ImageSets/Main/{split}.txt` has the names, `Annotations/{name}.xml`
    the boxes, `JPEGImages` the pictures. VOC's pixel numbers begin at 1 and both ends belong to the
    object; boxes here are `xmin - 1, ymin - 1, xmax, ymax`. `Target.difficult` has the flags of
    objects that do not count. Boxes are cut at the edge of the image, and those without area left
    out: `corrections` counts both. `max_side` shrinks larger images with their boxes.

    Raises `DataMissingError` for a missing file, and `DataFileError`, naming file, object and
    remedy, for one that is no such XML, declares entities, has unknown classes, missing elements or
    numbers that are not finite, and for a name that comes twice.
    """

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        *,
        classes: Sequence[str] = VOC_CLASSES,
        max_side: int | None = None,
    ) -> None:
        check("VocDetection", VocDetection.__init__, (self, root, split), {"classes": classes})
        folder = Path(root)
        source = folder / "ImageSets" / "Main" / f"{split}.txt"
        labels = {name: label for label, name in enumerate(classes)}
        table, corrections = BoxTable(), Corrections()
        self._sizes: list[tuple[int, int]] = []
        paths: list[Path] = []
        for name in _names(source):
            annotation = folder / "Annotations" / f"{name}.xml"
            parsed = _Annotation(annotation)
            size = parsed.size()
            for box, label, difficult, where in parsed.objects(labels):
                inside = corrections.clamp(box, size, f"{annotation}, {where}")
                if inside is not None:
                    area = (inside[2] - inside[0]) * (inside[3] - inside[1])
                    table.add(len(paths), inside, label, area, difficult)
            paths.append(folder / "JPEGImages" / parsed.file_name(f"{name}.jpg"))
            self._sizes.append(size)
        super().__init__(
            "voc",
            source,
            paths,
            tuple(classes),
            table,
            max_side=max_side,
            corrections=corrections,
        )

    def original_size(self, index: int) -> tuple[int, int]:
        return self._sizes[index]

    def _more(self, number: int) -> dict[str, Any]:
        numbers = self._table.of(number)
        difficult = tensor_of(self._table.flags(numbers), ft.bool)
        return {"crowd": ft.zeros(difficult.shape, dtype=ft.bool), "difficult": difficult}


class _Annotation:
    """The XML file of one image."""

    def __init__(self, path: Path) -> None:
        from xml.etree.ElementTree import TreeBuilder
        from xml.parsers import expat

        self._path = path
        content = _content(path, MAX_XML)
        builder, parser = TreeBuilder(), expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
        parser.CharacterDataHandler = builder.data
        parser.EntityDeclHandler = self._refuse  # they may expand to any size
        try:
            parser.Parse(content, True)
            self._root: Element = builder.close()
        except (expat.ExpatError, ValueError, LookupError) as error:
            if isinstance(error, DataFileError):
                raise
            raise self._error(f"is no XML ({error})", "get the file again") from None

    def size(self) -> tuple[int, int]:
        """(height, width)."""
        height, width = (
            self._number(self._root, f"size/{name}", "the image") for name in ("height", "width")
        )
        if min(height, width) < 1 or height * width > MAX_PIXELS or height % 1 or width % 1:
            problem = f"the image is {height:g} x {width:g}"
            raise self._error(problem, f"images have 1 to {MAX_PIXELS} pixels")
        return int(height), int(width)

    def file_name(self, usual: str) -> str:
        name = (self._root.findtext("filename") or usual).strip()
        if not name or "/" in name or "\\" in name or name in (".", "..") or "\0" in name:
            raise self._error(f"filename {name!r} leads out of the folder", "rename it")
        return name

    def objects(
        self, labels: dict[str, int]
    ) -> list[tuple[tuple[float, float, float, float], int, bool, str]]:
        found = []
        for number, element in enumerate(self._root.findall("object")):
            where = f"object {number}"
            name = (element.findtext("name") or "").strip()
            if name not in labels:
                raise self._error(
                    f"{where} has the unknown class {name!r}",
                    f"give classes= with it (now {', '.join(labels)})",
                )
            left, top, right, bottom = (
                self._number(element, f"bndbox/{side}", where)
                for side in ("xmin", "ymin", "xmax", "ymax")
            )
            difficult = (element.findtext("difficult") or "0").strip()
            if difficult not in ("0", "1"):
                raise self._error(f"{where}: difficult is {difficult[:20]!r}", "give 0 or 1")
            box = (left - 1, top - 1, right, bottom)
            found.append((box, labels[name], difficult == "1", where))
        return found

    def _number(self, element: Element, name: str, where: str) -> float:
        text = element.findtext(name)
        if text is None:
            raise self._error(f"{where} lacks {name}", "add it")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._error(f"{where}: {name} is {text[:20]!r}", "give a number of pixels")
        return value

    def _refuse(self, *_: object) -> None:
        raise self._error("declares entities", "remove the declarations")

    def _error(self, problem: str, remedy: str) -> DataFileError:
        return DataFileError("voc", self._path, problem, remedy)


def _names(path: Path) -> list[str]:
    """The first words of the lines of a list of names."""
    names: dict[str, int] = {}
    try:
        lines = _content(path, 1 << 30).decode().splitlines()
    except UnicodeDecodeError as error:
        raise DataFileError("voc", path, f"is no UTF-8 ({error.reason})", "save it so") from None
    for number, line in enumerate(lines, 1):
        if not (words := line.split()):
            continue
        name = words[0]
        if "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
            raise DataFileError("voc", path, f"line {number}: {name!r} is no name", "correct it")
        if name in names:
            problem = f"line {number}: line {names[name]} has {name!r} already"
            raise DataFileError("voc", path, problem, "write each image once")
        names[name] = number
    return list(names)


def _content(path: Path, most: int) -> bytes:
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise DataMissingError(
            f"[voc] {path}: no such file; give the folder that has ImageSets, Annotations and "
            "JPEGImages"
        ) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DataFileError("voc", path, problem, "check the path") from None
    if len(content) > most:
        raise DataFileError("voc", path, f"has more than {most} bytes", "check the file")
    return content
