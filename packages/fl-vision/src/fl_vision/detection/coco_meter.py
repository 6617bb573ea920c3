"""COCO's average precision and recall as a meter."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.arguments import choice_of, flag_of
from fl_vision.detection.boxes import BOX_FORMATS
from fl_vision.detection.coco_figures import (
    AREA_RANGES,
    IOU_THRESHOLDS,
    MOST_DETECTIONS,
    CocoFigures,
    Matched,
    figures_of,
)
from fl_vision.detection.coco_inputs import Sorted, names_of, numbered, read_image
from fl_vision.detection.coco_kernel import match_image

_COLUMNS = ("labels", "ranks", "matched", "ignored")


class CocoMeter(nn.Meter):
    """Average precision and recall by COCO's rules, over images of all ranks. The figures are those
    of pycocotools.

    classes     how many classes there are, or their names
    box_format  of detections and objects: "xyxy", "xywh" or "cxcywh"
    masks       overlaps and areas are those of masks, not of boxes

    48 bytes are kept for each detection, at most 100 of each class an image; images themselves are
    not kept. Lin et al., "Microsoft COCO", 2014. Raises ArgumentError, DTypeError.
    """

    def __init__(
        self, classes: int | Sequence[str], *, box_format: str = "xyxy", masks: bool = False
    ) -> None:
        where = "CocoMeter"
        self.names = names_of(where, classes)
        self.box_format = choice_of(where, box_format, "box_format", BOX_FORMATS)
        self.masks = flag_of(where, masks, "masks")
        super().__init__()

    def reset(self) -> None:
        #: Images in the order of their addition, and the detections of each.
        self._images: list[int | str] = []
        self._sizes = array("q")
        self._scores = array("d")
        self._columns = {name: array("q") for name in _COLUMNS}
        self._objects = np.zeros((len(self.names), len(AREA_RANGES)), np.int64)

    def add(self, detections: Sequence[Any], truths: Sequence[Any]) -> None:
        """Detections of some images, and their objects.

        detections  `Detections` of each image, or other objects or mappings with `boxes` (D, 4),
                    `scores` (D,) and `labels` (D,); with `masks` where these are evaluated
        truths      `GroundTruth` of each image, or others with `boxes` (T, 4) and `labels` (T,),
                    and optionally `image_id`, `areas`, `crowd`, `ignore` or `difficult`, `masks`

        Of equal scores that of the image with the smaller `image_id` comes first. Raises
        ShapeError, DTypeError, IndexingError for labels that are no classes, ArgumentError for bad
        boxes or scores, and for an image that was added before. Errors name the image.
        """
        where = "CocoMeter"
        for image, found, truth in numbered(where, detections, truths, self._images):
            here = f"{where}: image {image!r}"
            most = MOST_DETECTIONS[-1]
            self._record(
                image,
                read_image(here, found, truth, len(self.names), self.box_format, self.masks, most),
            )

    def _record(self, image_id: int | str, found: Sorted) -> None:
        image, number = found.image, len(found.scores)
        matched, ignored = np.zeros(number, np.int64), np.zeros(number, np.int64)
        taken = np.zeros(len(found.object_labels), np.uint8)
        match_image(image, IOU_THRESHOLDS, AREA_RANGES.reshape(-1), taken, matched, ignored)
        for r, (low, high) in enumerate(AREA_RANGES):
            areas = np.asarray(image.object_areas)
            counted = (np.asarray(image.ignore) == 0) & (areas >= low) & (areas <= high)
            np.add.at(self._objects[:, r], found.object_labels[counted], 1)
        self._images.append(image_id)
        self._sizes.append(number)
        self._scores.extend(found.scores.tolist())
        columns = (found.labels, found.ranks, matched, ignored)
        for name, column in zip(_COLUMNS, columns, strict=True):
            self._columns[name].extend(column.tolist())

    @property
    def value(self) -> CocoFigures:
        """All figures so far."""
        images = sorted(
            range(len(self._images)),
            key=lambda i: (isinstance(self._images[i], str), self._images[i]),
        )
        ends = np.cumsum(np.frombuffer(self._sizes, np.int64) if self._sizes else [0])
        order = [np.arange(ends[i] - self._sizes[i], ends[i]) for i in images]
        chosen = np.concatenate([np.zeros(0, np.int64), *order])
        columns = {k: np.array(column, np.int64)[chosen] for k, column in self._columns.items()}
        scores = np.array(self._scores, np.float64)[chosen]
        return figures_of(Matched(scores=scores, objects=self._objects, **columns), self.names)

    def result(self) -> float:
        """The average precision over IoU .50 to .95."""
        return self.value.ap

    def state(self) -> dict[str, Any]:
        return {
            "images": list(self._images),
            "sizes": self._sizes.tolist(),
            "scores": self._scores.tolist(),
            "objects": self._objects.tolist(),
            **{name: column.tolist() for name, column in self._columns.items()},
        }

    def merge(self, state: Mapping[str, Any]) -> None:
        twice = set(self._images) & set(state["images"])
        if twice:
            raise ft.ArgumentError(
                f"[CocoMeter] image {min(twice, key=str)!r} was added twice, say on two ranks: "
                "share images out without repeats, and give `image_id` to all"
            )
        objects = np.array(state["objects"], np.int64)
        if objects.shape != self._objects.shape:
            raise ft.ShapeError(
                f"[CocoMeter] a state of {len(objects)} classes for {len(self.names)}"
            )
        self._images.extend(state["images"])
        self._sizes.extend(state["sizes"])
        self._scores.extend(state["scores"])
        self._objects = self._objects + objects
        for name, column in self._columns.items():
            column.extend(state[name])
