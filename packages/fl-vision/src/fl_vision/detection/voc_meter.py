"""VOC's average precision as a meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.arguments import choice_of, flag_of
from fl_vision.detection.boxes import BOX_FORMATS
from fl_vision.detection.coco_figures import NONE
from fl_vision.detection.coco_inputs import (
    box_iou_xywh,
    boxes_of,
    flags_of,
    labels_of,
    names_of,
    numbered,
    scores_of,
)

#: What a detection is: right, wrong, or the match of an object that counts for nothing.
_RIGHT, _WRONG, _IGNORED = 1, 0, -1
#: A detection as it is kept: class, score, kind.
_Row = tuple[int, float, int]


class VocPrecision(NamedTuple):
    """A class; `ap` is -1 where it has no objects."""

    name: str
    objects: int
    ap: float


@dataclass(frozen=True)
class VocFigures:
    """`mean_ap` in [0, 1], the mean over classes that have objects; -1 where none has."""

    mean_ap: float
    per_class: tuple[VocPrecision, ...]

    def __str__(self) -> str:
        every = VocPrecision("all", sum(one.objects for one in self.per_class), self.mean_ap)
        rows = [every, *self.per_class]
        width = max(5, *(len(row.name) for row in rows))
        lines = [f"{'class':<{width}}  objects  VOC AP"]
        for name, count, ap in rows:
            lines.append(f"{name:<{width}}  {count:>7}  {'-' if ap < 0 else f'{ap:.3f}':>6}")
        return "\n".join(lines)


class VocMeter(nn.Meter):
    """Average precision of each class by the rules of PASCAL VOC, over images of all ranks
    (Everingham et al., "The PASCAL visual object classes challenge", 2010).

    classes        how many classes there are, or their names
    iou_threshold  what a detection and an object overlap by at least
    eleven_points  as in VOC 2007: the mean of the best precision at recall 0, .1, ... 1 or above.
                   Otherwise, as from 2010 on: the area below the curve of the best precision
    box_format     of detections and objects: "xyxy", "xywh" or "cxcywh"

    A detection belongs to the object of its class with the largest overlap. It is right if no surer
    one has that object; it counts for nothing if the object is difficult. Detections and objects
    are those of `CocoMeter.add`. Boxes are those of `VocDetection`, whose width is that of VOC's
    pixels. Raises ArgumentError, DTypeError.
    """

    def __init__(
        self,
        classes: int | Sequence[str],
        *,
        iou_threshold: float = 0.5,
        eleven_points: bool = False,
        box_format: str = "xyxy",
    ) -> None:
        where = "VocMeter"
        self.names = names_of(where, classes)
        number = isinstance(iou_threshold, (int, float)) and not isinstance(iou_threshold, bool)
        if not number or not 0 < iou_threshold <= 1:
            raise ft.ArgumentError(
                f"[{where}] iou_threshold {iou_threshold!r}: give a number above 0, at most 1"
            )
        self.iou_threshold = float(iou_threshold)
        self.eleven_points = flag_of(where, eleven_points, "eleven_points")
        self.box_format = choice_of(where, box_format, "box_format", BOX_FORMATS)
        super().__init__()

    def reset(self) -> None:
        self._rows: dict[int | str, list[_Row]] = {}
        self._objects = np.zeros(len(self.names), np.int64)

    def add(self, detections: Sequence[Any], truths: Sequence[Any]) -> None:
        """Detections of some images, and their objects, as `CocoMeter.add` takes them; `difficult`
        or `ignore` are the objects that do not count. Raises as it does."""
        where = "VocMeter"
        for image, found, truth in numbered(where, detections, truths, list(self._rows)):
            self._rows[image] = self._matched(f"{where}: image {image!r}", found, truth)

    def _matched(self, where: str, found: Any, truth: Any) -> list[_Row]:
        classes = len(self.names)
        boxes = boxes_of(where, "detections", found, self.box_format)
        labels = labels_of(where, "detections", found, len(boxes), classes)
        scores = scores_of(where, found, len(boxes))
        objects = boxes_of(where, "objects", truth, self.box_format)
        object_labels = labels_of(where, "objects", truth, len(objects), classes)
        easy = np.ones(len(objects), bool)
        for name in ("difficult", "ignore", "crowd"):
            easy &= ~flags_of(where, name, truth, len(objects))
        np.add.at(self._objects, object_labels[easy], 1)
        overlaps = box_iou_xywh(boxes, objects, np.zeros(len(objects), bool))
        overlaps[labels[:, None] != object_labels[None]] = -1.0
        taken = np.zeros(len(objects), bool)
        rows: list[_Row] = []
        for index in np.argsort(-scores, kind="stable").tolist():
            kind = _WRONG
            best = int(np.argmax(overlaps[index])) if len(objects) else -1
            if best >= 0 and overlaps[index, best] >= self.iou_threshold:
                if not easy[best]:
                    kind = _IGNORED
                elif not taken[best]:
                    kind, taken[best] = _RIGHT, True
            rows.append((int(labels[index]), float(scores[index]), kind))
        return rows

    @property
    def value(self) -> VocFigures:
        """All figures so far."""
        images = sorted(self._rows, key=lambda image: (isinstance(image, str), image))
        rows = np.array([row for image in images for row in self._rows[image]]).reshape(-1, 3)
        found = []
        for label, name in enumerate(self.names):
            mine = rows[(rows[:, 0] == label) & (rows[:, 2] != _IGNORED)]
            mine = mine[np.argsort(-mine[:, 1], kind="stable")]
            objects = int(self._objects[label])
            found.append(VocPrecision(name, objects, self._precision(mine[:, 2], objects)))
        known = [one.ap for one in found if one.objects]
        return VocFigures(float(np.mean(known)) if known else NONE, tuple(found))

    def _precision(self, right: np.ndarray, objects: int) -> float:
        if not objects:
            return NONE
        hits = np.cumsum(right)
        recall, precision = hits / objects, hits / np.arange(1, len(hits) + 1)
        # The best precision at this recall or a higher one.
        best = np.maximum.accumulate(precision[::-1])[::-1]
        if self.eleven_points:
            places = np.searchsorted(recall, np.linspace(0, 1, 11) - 1e-12)
            return float(np.append(best, 0.0)[places].mean())
        return float(np.sum(np.diff(recall, prepend=0.0) * best))

    def result(self) -> float:
        """The mean average precision."""
        return self.value.mean_ap

    def state(self) -> dict[str, Any]:
        return {
            "images": [[image, [list(row) for row in rows]] for image, rows in self._rows.items()],
            "objects": self._objects.tolist(),
        }

    def merge(self, state: Mapping[str, Any]) -> None:
        objects = np.array(state["objects"], np.int64)
        if objects.shape != self._objects.shape:
            raise ft.ShapeError(
                f"[VocMeter] a state of {len(objects)} classes for {len(self.names)}"
            )
        given = {image: [(int(k), float(s), int(r)) for k, s, r in rows]
                 for image, rows in state["images"]}  # fmt: skip
        if twice := set(given) & set(self._rows):
            raise ft.ArgumentError(
                f"[VocMeter] image {min(twice, key=str)!r} was added twice, say on two ranks: "
                "share images out without repeats, and give `image_id` to all"
            )
        self._rows |= given
        self._objects = self._objects + objects
