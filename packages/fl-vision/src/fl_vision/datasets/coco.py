"""COCO: images with boxes and segmentations from `instances_*.json`."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import fl_tensor as ft
from fl_tensor.annotations import check
from fl_vision.datasets.coco_instances import Instances
from fl_vision.datasets.detection import BoxFiles
from fl_vision.datasets.json_entries import read_entry
from fl_vision.errors import DataFileError, UsageError

OnError = Literal["raise", "skip"]
Rasterise = Callable[[Any, "tuple[int, int]"], ft.Tensor]
"""`fn(segmentation, (height, width)) -> (height, width) bool`."""


class CocoDetection(BoxFiles):
    """The images of an instances file of COCO, which lie in the folder `images`.

    Lin et al., "Microsoft COCO: common objects in context", 2014. The file is read entry by entry:
    its size has no limit, and an object
    takes about 80 bytes of memory. Segmentations stay in
    the file until a target is asked for.

    Classes are the categories in the order of their ids: label `n` is category `category_ids[n]`.
    Images are in the order of the file. They are read as they are stored, without the turn that
    EXIF data says, because the boxes are for them. `segmentations` puts COCO's `segmentation`
    (polygons, or runs as a list or compressed) into targets. `masks` draws it for `Target.masks`,
    as `fl_vision.detection.RLE` does. `rasterise(segmentation, (height, width))` draws it in
    place of that, as a (height, width) bool mask. `max_side` shrinks larger images, and boxes and
    masks with them.

    Boxes are cut at the edge of the image. Those without area are left out; `corrections` counts
    both. With `on_error="skip"` wrong entries are left out, and `skipped` has their errors.

    Raises `DataMissingError` for a missing file. Raises `DataFileError`, naming file, entry and
    remedy, for a file that is no such JSON, for missing or wrong keys, sizes that are negative or
    not finite, ids that come twice or are not there, and names that lead out of the folder; at the
    target, for a segmentation that is no mask of its image.
    """

    def __init__(
        self,
        annotations: str | Path,
        images: str | Path,
        *,
        max_side: int | None = None,
        segmentations: bool = False,
        masks: bool = False,
        rasterise: Rasterise | None = None,
        on_error: OnError = "raise",
    ) -> None:
        check("CocoDetection", CocoDetection.__init__, (self, annotations, images), {})
        if on_error not in ("raise", "skip"):
            raise UsageError(f"[coco] on_error {on_error!r}: choose 'raise' or 'skip'")
        if rasterise is not None and not callable(rasterise):
            raise UsageError(f"[coco] rasterise {rasterise!r} is not callable")
        if masks and rasterise is not None:
            raise UsageError("[coco] masks and rasterise: give one of them")
        source = Path(annotations)
        read = Instances(source, on_error == "skip")
        table, corrections = read.table()
        super().__init__(
            "coco",
            source,
            [Path(images) / image.name for image in read.images.values()],
            tuple(read.categories[id] for id in sorted(read.categories)),
            table,
            max_side=max_side,
            corrections=corrections,
            skipped=read.skipped,
        )
        #: The ids of the categories; evaluation files need them.
        self.category_ids = tuple(sorted(read.categories))
        self._ids = array("q", read.images)
        self._sizes = [(image.height, image.width) for image in read.images.values()]
        self._segmentations = segmentations
        self._rasterise = _mask if masks else rasterise

    def original_size(self, index: int) -> tuple[int, int]:
        return self._sizes[index]

    def image_id(self, index: int) -> int:
        return self._ids[index]

    def _more(self, number: int) -> dict[str, Any]:
        found = super()._more(number)
        if not self._segmentations and self._rasterise is None:
            return found
        shapes = []
        for start, stop in self._table.places(self._table.of(number)):
            entry = read_entry(self.source, start, stop, "coco")
            shapes.append(entry.get("segmentation") if isinstance(entry, dict) else None)
        if self._segmentations:
            found["segmentations"] = tuple(shapes)
        if self._rasterise is not None:
            found["masks"] = self._masks(number, shapes)
        return found

    def _drawn(self, number: int, shape: Any, size: tuple[int, int]) -> ft.Tensor:
        assert self._rasterise is not None
        try:
            return self._rasterise(shape, size)
        except ft.ArgumentError as error:
            problem = f"image {self.image_id(number)}: a segmentation is no mask of it ({error})"
            remedy = "correct the annotation, or leave masks out"
            raise DataFileError("coco", self.source, problem, remedy) from error

    def _masks(self, number: int, shapes: list[Any]) -> ft.Tensor:
        shown, original = self.shown_size(number), self._sizes[number]
        if not shapes:
            return ft.zeros((0, *shown), dtype=ft.bool)
        masks = ft.stack([self._drawn(number, shape, original) for shape in shapes])
        if shown == original:
            return masks
        # The middle of a pixel of the smaller mask lies in one pixel of the larger.
        rows, columns = (
            ft.asarray([(2 * i + 1) * large // (2 * small) for i in range(small)], dtype=ft.int64)
            for small, large in zip(shown, original, strict=True)
        )
        return ft.take(ft.take(masks, rows, axis=1), columns, axis=2)


def _mask(segmentation: Any, size: tuple[int, int]) -> ft.Tensor:
    """COCO's segmentation as a mask; of an object without one, an empty mask."""
    from fl_vision.detection import RLE  # its kernels are for those who draw masks

    if segmentation in (None, []):
        return ft.zeros(size, dtype=ft.bool)
    pixels = RLE.from_coco(segmentation, *size).decode()
    return ft.frombytes(pixels.tobytes(), size, ft.uint8) > 0
