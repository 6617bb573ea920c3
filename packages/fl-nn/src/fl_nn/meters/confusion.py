"""Counts of which class is taken for which, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_nn.meters.reading import read_classes
from fl_nn.values import check_classes
from fl_tensor.annotations import explained

AVERAGES = ("macro", "micro", "weighted", "binary")


class ClassFigures(NamedTuple):
    """Figures of a class, or a mean of them, in [0, 1]; 0 where a denominator is 0.

    precision   of the samples predicted as this class, the share that are of it
    recall      of the samples of this class, the share predicted as it
    f1          the harmonic mean of both
    support     how many samples are of this class
    """

    precision: float
    recall: float
    f1: float
    support: int


class _Counted(Meter):
    """Counts of pairs (true class, predicted class). Merging is exact, whatever the order.

    classes       how many classes there are
    axis          the axis of classes in scores
    threshold     above it one score means class 1: 0.0 of logits, 0.5 of probabilities
    ignore_index  targets of this value do not count
    """

    def __init__(
        self,
        classes: int,
        *,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ) -> None:
        if classes < 2:
            raise ModuleError(f"[{type(self).__name__}] classes={classes}: give at least 2")
        self.classes, self.axis = classes, axis
        self.threshold, self.ignore_index = threshold, ignore_index
        super().__init__()

    def reset(self) -> None:
        self._counts: dict[int, int] = {}  # by true class * classes + predicted class

    @explained
    def add(self, outputs: ft.Array, targets: ft.Array) -> None:
        """`outputs` are classes in the shape of `targets`, scores with an axis of classes more, or
        one score each. Raises ShapeError for other shapes, IndexingError for other classes."""
        where = type(self).__name__
        predicted, truth = read_classes(
            where, outputs, targets, self.axis, self.threshold, self.ignore_index
        )
        hint = "build the meter with more classes, or with ignore_index"
        for name, found in (("targets", truth), ("predictions", predicted)):
            check_classes(f"[{where}] {name}", found, self.classes, hint)
        pairs, counts = ft.unique(truth * self.classes + predicted, return_counts=True)
        self._count(pairs.tolist(), counts.tolist())

    def state(self) -> dict[str, Any]:
        pairs = sorted(self._counts)
        counts = [self._counts[pair] for pair in pairs]
        return {"classes": self.classes, "pairs": pairs, "counts": counts}

    def merge(self, state: Mapping[str, Any]) -> None:
        if state["classes"] != self.classes:
            raise ModuleError(
                f"[{type(self).__name__}] {state['classes']} classes do not merge into "
                f"{self.classes}: build both meters with as many"
            )
        self._count(state["pairs"], state["counts"])

    @property
    def per_class(self) -> list[ClassFigures]:
        """The figures of each class."""
        return [_figures(*counts) for counts in self._sides()]

    def averaged(self, average: str) -> ClassFigures:
        """The mean figures over classes, as scikit-learn's for labels that occur.

        "macro"     each class that occurs, as truth or as prediction, counts once
        "weighted"  each class counts by its support
        "micro"     the figures of all counts together: all three are the accuracy
        "binary"    the figures of class 1, of two

        NaN before the first sample. Raises ModuleError for another name.
        """
        _check_average(type(self).__name__, average, self.classes)
        sides = self._sides()
        support = sum(true for _, true, _ in sides)
        if not support:
            return ClassFigures(math.nan, math.nan, math.nan, 0)
        if average == "binary":
            return _figures(*sides[1])
        if average == "micro":
            return _figures(sum(hits for hits, _, _ in sides), support, support)
        occurring = [(_figures(*side), side[1]) for side in sides if side[1] or side[2]]
        weights = [true if average == "weighted" else 1 for _, true in occurring]
        precision, recall, f1 = (
            math.fsum(figures[i] * w for (figures, _), w in zip(occurring, weights)) / sum(weights)
            for i in range(3)
        )
        return ClassFigures(precision, recall, f1, support)

    def _count(self, pairs: list[int], counts: list[int]) -> None:
        for pair, count in zip(pairs, counts, strict=True):
            self._counts[pair] = self._counts.get(pair, 0) + int(count)

    def _sides(self) -> list[tuple[int, int, int]]:
        """Of each class: samples that were hit, of this class, predicted as it."""
        hits, true, predicted = ([0] * self.classes for _ in range(3))
        for pair, count in self._counts.items():
            row, column = divmod(pair, self.classes)
            true[row] += count
            predicted[column] += count
            hits[row] += count if row == column else 0
        return list(zip(hits, true, predicted))


class ConfusionMeter(_Counted):
    """The confusion matrix: `value[i][j]` samples of class `i` were taken for class `j`.

    `per_class` and `averaged` have precision, recall and F1; `result` is the accuracy, in percent.
    `fl_nn.plot.confusion(meter)` draws it.
    """

    @property
    def value(self) -> list[list[int]]:
        n = self.classes
        return [[self._counts.get(row * n + column, 0) for column in range(n)] for row in range(n)]

    def result(self) -> float:
        return 100.0 * self.averaged("micro").recall


class _AveragedMeter(_Counted):
    """One figure of `averaged(average)`, in [0, 1]; the settings are those of ConfusionMeter."""

    figure = ""

    def __init__(
        self,
        classes: int,
        *,
        average: str = "macro",
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ) -> None:
        _check_average(type(self).__name__, average, classes)
        self.average = average
        super().__init__(classes, axis=axis, threshold=threshold, ignore_index=ignore_index)

    @property
    def value(self) -> float:
        return float(getattr(self.averaged(self.average), self.figure))


class PrecisionMeter(_AveragedMeter):
    """Precision, averaged over classes ("macro", "micro", "weighted", "binary"), in [0, 1]."""

    figure = "precision"


class RecallMeter(_AveragedMeter):
    """Recall, averaged over classes ("macro", "micro", "weighted", "binary"), in [0, 1]."""

    figure = "recall"


class F1Meter(_AveragedMeter):
    """F1, averaged over classes ("macro", "micro", "weighted", "binary"), in [0, 1]."""

    figure = "f1"


def _figures(hits: int, true: int, predicted: int) -> ClassFigures:
    return ClassFigures(
        hits / predicted if predicted else 0.0,
        hits / true if true else 0.0,
        2 * hits / (true + predicted) if true or predicted else 0.0,
        true,
    )


def _check_average(where: str, average: str, classes: int) -> None:
    if average not in AVERAGES:
        raise ModuleError(f"[{where}] average={average!r}: give one of {', '.join(AVERAGES)}")
    if average == "binary" and classes != 2:
        raise ModuleError(
            f"[{where}] average='binary' of {classes} classes: it is of 2; give 'macro', 'micro' "
            "or 'weighted'"
        )
