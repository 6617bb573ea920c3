"""AUC and average precision: how well scores rank the samples of a class before the others."""

from __future__ import annotations

import math
from abc import abstractmethod
from array import array
from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_nn.meters.reading import read_probabilities, read_scores
from fl_nn.values import check_classes, widest
from fl_tensor.annotations import explained


class _RankingMeter(Meter):
    """Keeps the scores of all samples: 8 bytes for each score, and 8 for each sample.

    average       "macro": each class counts once; "weighted": by how many samples are of it
    axis          the axis of classes in scores
    logits        whether scores of several classes are logits: softmax makes probabilities of them
    ignore_index  targets of this value do not count, whatever their scores

    One score each, or two classes: the figure is that of class 1. Several classes: each against the
    rest by its probability, and the mean over those that some samples are of and some are not.
    """

    def __init__(
        self,
        *,
        average: str = "macro",
        axis: int = 1,
        logits: bool = False,
        ignore_index: int | None = None,
    ) -> None:
        if average not in ("macro", "weighted"):
            raise ModuleError(
                f"[{type(self).__name__}] average={average!r}: give 'macro' or 'weighted'"
            )
        self.average, self.axis, self.logits = average, axis, logits
        self.ignore_index = ignore_index
        super().__init__()

    def reset(self) -> None:
        self._scores: list[array[float]] = []  # of each class
        self._truth = array("q")

    @explained
    def add(self, outputs: ft.Array, targets: ft.Array) -> None:
        """`outputs` are probabilities (N, classes, ...), or logits with `logits`, and `targets` the
        classes; or one score each, any number, of targets that are 0 or 1. Raises ShapeError for
        other shapes, ArgumentError for scores that are NaN or no probabilities, IndexingError for
        other classes."""
        where = type(self).__name__
        scores, truth = read_scores(where, outputs, targets, self.axis, self.ignore_index)
        if len(scores) > 1:
            scores, truth = read_probabilities(
                where, outputs, targets, self.axis, self.logits, self.ignore_index
            )
            scores = scores[1:] if len(scores) == 2 else scores
        elif scores.size and bool(ft.any(ft.isnan(scores)).item()):
            raise ft.ArgumentError(f"[{where}] outputs hold NaN: a score is a number")
        hint = "give scores of as many classes as there are"
        check_classes(f"[{where}] targets", truth, max(len(scores), 2), hint)
        self._extend(widest(scores).tolist(), truth.tolist())

    def state(self) -> dict[str, Any]:
        return {"scores": [column.tolist() for column in self._scores], "truth": list(self._truth)}

    def merge(self, state: Mapping[str, Any]) -> None:
        self._extend(state["scores"], state["truth"])

    @property
    def per_class(self) -> list[float]:
        """The figure of each class against the rest, NaN of classes that none or all samples are
        of; of class 1 alone where there are two."""
        if not self._truth:
            return []
        truth = ft.asarray(self._truth)
        first = 1 if len(self._scores) == 1 else 0
        found = []
        for number, column in enumerate(self._scores, start=first):
            scores, positive = widest(ft.asarray(column)), ft.equal(truth, number)
            positives, negatives = scores[positive], scores[ft.logical_not(positive)]
            defined = positives.size and negatives.size
            found.append(
                self._figure(ft.sort(positives), ft.sort(negatives)) if defined else math.nan
            )
        return found

    @property
    def value(self) -> float:
        """In [0, 1]; NaN where no class has a figure."""
        figures = self.per_class
        if len(figures) <= 1:
            return figures[0] if figures else math.nan
        weights = [1] * len(figures)
        if self.average == "weighted":
            weights = [self._truth.count(number) for number in range(len(figures))]
        defined = [(x, weight) for x, weight in zip(figures, weights) if not math.isnan(x)]
        total = sum(weight for _, weight in defined)
        return math.fsum(x * weight for x, weight in defined) / total if total else math.nan

    @abstractmethod
    def _figure(self, positives: ft.Tensor, negatives: ft.Tensor) -> float:
        """The figure of ascending scores, some of each."""

    def _extend(self, scores: list[list[float]], truth: list[int]) -> None:
        if not truth:
            return
        if not self._scores:
            self._scores = [array("d") for _ in scores]
        if len(scores) != len(self._scores):
            raise ModuleError(
                f"[{type(self).__name__}] scores of {len(scores)} classes after those of "
                f"{len(self._scores)}: give all samples scores of the same classes"
            )
        for column, more in zip(self._scores, scores):
            column.extend(more)
        self._truth.extend(truth)


class AUCMeter(_RankingMeter):
    """The area under the ROC curve: the probability that a sample of the class has a larger score
    than one of the rest, where equal scores count one half. Hanley and McNeil, 1982."""

    def _figure(self, positives: ft.Tensor, negatives: ft.Tensor) -> float:
        # Pairs that are in order count two, equal ones one: whole numbers, without rounding.
        below = ft.sum(ft.searchsorted(negatives, positives, "left"))
        up_to = ft.sum(ft.searchsorted(negatives, positives, "right"))
        return int((below + up_to).item()) / (2 * positives.size * negatives.size)


class AveragePrecisionMeter(_RankingMeter):
    """The area under the curve of precision over recall as a sum of steps: the mean, over samples
    of the class, of the precision among samples with no smaller score."""

    def _figure(self, positives: ft.Tensor, negatives: ft.Tensor) -> float:
        hits = positives.size - ft.searchsorted(positives, positives, "left")
        others = negatives.size - ft.searchsorted(negatives, positives, "left")
        return float(ft.mean(widest(hits) / widest(hits + others)).item())
