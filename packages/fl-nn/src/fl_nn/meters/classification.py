"""Error-rate and accuracy meters: AccuracyMeter, FrameErrorMeter, TopKMeter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_nn.meters.reading import read_classes
from fl_nn.values import tensor_of
from fl_tensor.annotations import explained


class _FractionMeter(Meter):
    """The percentage of counted things. Merging is exact, whatever the order."""

    def reset(self) -> None:
        self._hits = self._total = 0

    @property
    def value(self) -> float:
        return 100.0 * self._hits / self._total if self._total else math.nan

    def state(self) -> dict[str, Any]:
        return {"hits": self._hits, "total": self._total}

    def merge(self, state: Mapping[str, Any]) -> None:
        self._hits += int(state["hits"])
        self._total += int(state["total"])


class AccuracyMeter(_FractionMeter):
    """The percentage of samples whose prediction is their class.

    axis          the axis of classes in scores
    threshold     above it one score means class 1: 0.0 of logits, 0.5 of probabilities
    ignore_index  targets of this value do not count
    """

    def __init__(
        self,
        *,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = None,
    ) -> None:
        self.axis, self.threshold, self.ignore_index = axis, threshold, ignore_index
        super().__init__()

    @explained
    def add(self, outputs: ft.Array, targets: ft.Array) -> None:
        """`outputs` are classes in the shape of `targets`, scores with an axis of classes more, or
        one score each. Raises ShapeError for other shapes."""
        predicted, truth = read_classes(
            "AccuracyMeter", outputs, targets, self.axis, self.threshold, self.ignore_index
        )
        self._hits += int(ft.sum(ft.equal(predicted, truth)).item())
        self._total += truth.size


class FrameErrorMeter(_FractionMeter):
    """The percentage of predictions that differ from their targets; with `accuracy`, that agree."""

    def __init__(self, accuracy: bool = False, axis: int = 1) -> None:
        super().__init__()
        self.accuracy, self.axis = accuracy, axis

    @explained
    def add(self, predictions: ft.Array, targets: ft.Array) -> None:
        """`predictions` are classes in the shape of `targets`, or scores with an axis of classes
        more (`axis`), of which the largest is the prediction."""
        predictions, targets = tensor_of(predictions), tensor_of(targets)
        if predictions.ndim == targets.ndim + 1:
            predictions = ft.argmax(predictions, self.axis)
        if predictions.shape != targets.shape:
            raise ft.ShapeError(
                f"[FrameErrorMeter] predictions {predictions.shape} and targets {targets.shape}: "
                f"give classes of one shape, or scores with classes on axis {self.axis}"
            )
        agree = int(ft.sum(ft.equal(predictions, targets)).item())
        self._hits += agree if self.accuracy else targets.size - agree
        self._total += targets.size


class TopKMeter(_FractionMeter):
    """The percentage of targets among the `k` classes with the largest scores."""

    def __init__(self, k: int, axis: int = 1) -> None:
        super().__init__()
        if k < 1:
            raise ModuleError(f"[TopKMeter] k={k}: give at least 1")
        self.k, self.axis = k, axis

    @explained
    def add(self, scores: ft.Array, targets: ft.Array) -> None:
        """`scores` (N, classes, ...) and `targets` their shape without the axis of classes."""
        scores, targets = tensor_of(scores), tensor_of(targets)
        axis = self.axis + scores.ndim if self.axis < 0 else self.axis
        expected = (*scores.shape[:axis], *scores.shape[axis + 1 :])
        if targets.shape != expected or not 0 <= axis < scores.ndim:
            raise ft.ShapeError(
                f"[TopKMeter] scores {scores.shape} and targets {targets.shape}: targets must be "
                f"{expected} for classes on axis {self.axis}"
            )
        k = min(self.k, scores.shape[axis])
        _, best = ft.topk(scores, k, axis)
        found = ft.equal(best, ft.expand_dims(targets, axis))
        self._hits += int(ft.sum(found).item())
        self._total += targets.size
