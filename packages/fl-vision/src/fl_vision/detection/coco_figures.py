"""The figures of a COCO evaluation, made of matched detections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: IoU .50, .55, ... .95; recall 0, .01, ... 1.
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
#: Areas in pixels: all, small, medium, large.
AREA_RANGES = np.array([[0.0, 1e10], [0.0, 32.0**2], [32.0**2, 96.0**2], [96.0**2, 1e10]])
MOST_DETECTIONS = (1, 10, 100)
#: The figure of nothing, as in pycocotools.
NONE = -1.0


@dataclass(frozen=True)
class ClassPrecision:
    """Figures of one class; -1 where it has no objects."""

    name: str
    objects: int
    ap: float
    ap50: float
    ap75: float
    ar100: float


@dataclass(frozen=True)
class CocoFigures:
    """The twelve figures of COCO, each in [0, 1], or -1 where no objects count.

    ap, ap50, ap75               average precision over IoU .50 to .95, at .50 and at .75
    ap_small, ap_medium, ap_large  of objects below 32 x 32 pixels, up to 96 x 96, and above
    ar1, ar10, ar100             average recall of at most so many detections of a class an image
    ar_small, ar_medium, ar_large
    """

    ap: float
    ap50: float
    ap75: float
    ap_small: float
    ap_medium: float
    ap_large: float
    ar1: float
    ar10: float
    ar100: float
    ar_small: float
    ar_medium: float
    ar_large: float
    per_class: tuple[ClassPrecision, ...]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("class", "objects", "AP", "AP50", "AP75", "AR100")]
        for one in (
            ClassPrecision("all", -1, self.ap, self.ap50, self.ap75, self.ar100),
            *self.per_class,
        ):
            objects = one.objects
            if objects < 0:
                objects = sum(each.objects for each in self.per_class)
            figures = (one.ap, one.ap50, one.ap75, one.ar100)
            rows.append((one.name, str(objects), *("-" if f < 0 else f"{f:.3f}" for f in figures)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        )


class Matched(NamedTuple):
    """All detections, and how many objects count for each class (rows) and range of areas."""

    labels: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray
    matched: np.ndarray
    ignored: np.ndarray
    objects: np.ndarray


class _Curves(NamedTuple):
    """Precision (thresholds, recalls) and recall (thresholds,) of a class."""

    precision: np.ndarray
    recall: np.ndarray


def figures_of(found: Matched, names: Sequence[str]) -> CocoFigures:
    """The figures of detections in the order of their images."""
    curves: dict[tuple[int, int, int], _Curves] = {}
    selections = [(0, most) for most in MOST_DETECTIONS] + [(r, 100) for r in (1, 2, 3)]
    for label in range(len(names)):
        of_class = np.flatnonzero(found.labels == label)
        # Scores of all images together; of equal ones the first stays first.
        of_class = of_class[np.argsort(-found.scores[of_class], kind="stable")]
        for area, most in selections:
            if found.objects[label, area]:
                chosen = of_class[found.ranks[of_class] < most]
                curves[label, area, most] = _curves(found, chosen, area, found.objects[label, area])

    def precision(area: int, threshold: int | None = None, label: int | None = None) -> float:
        chosen = [
            c.precision if threshold is None else c.precision[threshold]
            for (k, a, m), c in curves.items()
            if a == area and m == 100 and label in (None, k)
        ]
        return float(np.mean(chosen)) if chosen else NONE

    def recall(area: int, most: int, label: int | None = None) -> float:
        chosen = [
            c.recall
            for (k, a, m), c in curves.items()
            if a == area and m == most and label in (None, k)
        ]
        return float(np.mean(chosen)) if chosen else NONE

    each = (
        ClassPrecision(
            name, int(found.objects[k, 0]), precision(0, None, k), precision(0, 0, k),
            precision(0, 5, k), recall(0, 100, k),
        )
        for k, name in enumerate(names)
    )  # fmt: skip
    return CocoFigures(
        ap=precision(0),
        ap50=precision(0, 0),
        ap75=precision(0, 5),
        ap_small=precision(1),
        ap_medium=precision(2),
        ap_large=precision(3),
        ar1=recall(0, 1),
        ar10=recall(0, 10),
        ar100=recall(0, 100),
        ar_small=recall(1, 100),
        ar_medium=recall(2, 100),
        ar_large=recall(3, 100),
        per_class=tuple(each),
    )


def _curves(found: Matched, chosen: np.ndarray, area: int, objects: int) -> _Curves:
    levels = len(IOU_THRESHOLDS)
    bits = np.int64(1) << (area * levels + np.arange(levels, dtype=np.int64))[:, None]
    matched, ignored = found.matched[chosen] & bits != 0, found.ignored[chosen] & bits != 0
    right = np.cumsum(matched & ~ignored, axis=1).astype(np.float64)
    wrong = np.cumsum(~matched & ~ignored, axis=1).astype(np.float64)
    sampled = np.zeros((levels, len(RECALLS)))
    if not len(chosen):
        return _Curves(sampled, np.zeros(levels))
    recalls = right / objects
    precisions = right / (right + wrong + np.spacing(1))
    # The best precision at this recall or a higher one.
    precisions = np.maximum.accumulate(precisions[:, ::-1], axis=1)[:, ::-1]
    for row, recall, best in zip(sampled, recalls, precisions, strict=True):
        places = np.searchsorted(recall, RECALLS, side="left")
        reached = places < len(best)
        row[reached] = best[places[reached]]
    return _Curves(sampled, recalls[:, -1])
