"""How many samples classes have, weights from that, and statistics of boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fl_data import Dataset
from fl_tensor.annotations import checked
from fl_vision.datasets.detection import DetectionDataset
from fl_vision.datasets.target import Target
from fl_vision.errors import UsageError

SMALL, LARGE = 32**2, 96**2
"""Areas in pixels between which COCO calls an object medium."""


@checked
def class_counts(data: Dataset, classes: int | None = None) -> tuple[int, ...]:
    """How many samples, or boxes, of `data` each class has. Pictures are not read where the data
    set has targets apart. `classes` is needed for data sets without `classes`.

    Raises `UsageError` without the number of classes, and for labels that are no class.
    """
    names = getattr(data, "classes", None)
    if classes is None and names is None:
        raise UsageError("[class_counts] the data set does not name its classes: give classes=")
    counts = [0] * (len(names) if classes is None and names is not None else classes or 0)
    target_of = getattr(data, "target", None)
    for index in range(len(data)):
        target = target_of(index) if target_of is not None else data[index][1]  # type: ignore[index]
        labels = target.labels.tolist() if isinstance(target, Target) else [int(target)]
        for label in labels:
            if not 0 <= label < len(counts):
                raise UsageError(
                    f"[class_counts] sample {index} has the label {label} of {len(counts)} classes"
                )
            counts[label] += 1
    return tuple(counts)


@checked
def class_weights(counts: Sequence[int], *, power: float = 1.0) -> tuple[float, ...]:
    """A weight for each class, proportional to `count ** -power`; over all samples their mean is 1.

    With power 1 every class has the same total weight; 0.5 is a usual compromise, 0 no weights. For
    the `weight` of a loss, or by sample for `fl_data.Weighted`.

    Raises `UsageError` for classes without samples, which have no such weight, negative counts, and
    a power that is not finite.
    """
    if not counts or min(counts) < 0 or not math.isfinite(power):
        raise UsageError(
            f"[class_weights] counts {list(counts)[:10]} and power {power}: give counts of at "
            "least 0, one for each class, and a finite power"
        )
    if empty := [label for label, count in enumerate(counts) if count == 0]:
        raise UsageError(
            f"[class_weights] {len(empty)} classes have no samples (first: {empty[:5]}): leave "
            "them out, or add samples"
        )
    raw = [(count / max(counts)) ** -power for count in counts]
    scale = sum(counts) / math.fsum(w * n for w, n in zip(raw, counts, strict=True))
    return tuple(weight * scale for weight in raw)


@dataclass(frozen=True)
class BoxStatistics:
    """What a data set for detection holds; `str()` is a table."""

    images: int
    without_boxes: int
    boxes: int
    crowds: int
    #: Boxes by area as in COCO: below 32 x 32 pixels, below 96 x 96, and the others.
    small: int
    medium: int
    large: int
    #: (smallest, largest) of the stored images.
    heights: tuple[int, int]
    widths: tuple[int, int]
    classes: tuple[str, ...]
    class_counts: tuple[int, ...]

    def __str__(self) -> str:
        empty = [n for n, count in zip(self.classes, self.class_counts, strict=True) if not count]
        rows = [
            ("images", f"{self.images}, {self.without_boxes} without boxes"),
            ("height", "{} to {}".format(*self.heights)),
            ("width", "{} to {}".format(*self.widths)),
            ("boxes", f"{self.boxes}, {self.crowds} crowds"),
            ("small, medium, large", f"{self.small}, {self.medium}, {self.large}"),
            *((name, str(n)) for name, n in zip(self.classes, self.class_counts, strict=True) if n),
        ]
        if empty:
            rows.append(("without boxes", ", ".join(empty)))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {text}" for name, text in rows)


@checked
def box_statistics(data: DetectionDataset) -> BoxStatistics:
    """Counts and sizes of the boxes and images of `data`, from its targets. Raises `UsageError` for
    a data set without images."""
    if not len(data):
        raise UsageError("[box_statistics] the data set has no images")
    counts, areas, crowds, without = [0] * len(data.classes), [], 0, 0
    sizes = []
    for index in range(len(data)):
        target = data.target(index)
        sizes.append(target.original_size)
        without += not len(target)
        areas += target.areas.tolist()
        crowds += sum(target.crowd.tolist())
        for label in target.labels.tolist():
            counts[label] += 1
    heights, widths = zip(*sizes, strict=True)
    small, large = sum(a < SMALL for a in areas), sum(a >= LARGE for a in areas)
    return BoxStatistics(
        images=len(data),
        without_boxes=without,
        boxes=len(areas),
        crowds=crowds,
        small=small,
        medium=len(areas) - small - large,
        large=large,
        heights=(min(heights), max(heights)),
        widths=(min(widths), max(widths)),
        classes=tuple(data.classes),
        class_counts=tuple(counts),
    )
