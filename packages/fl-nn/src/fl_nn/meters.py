"""Meters: figures gathered over many batches, and over many ranks."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import fl_tensor as ft
from fl_dist import Communicator
from fl_nn.errors import ModuleError
from fl_nn.ranks import all_gather_plain
from fl_nn.values import tensor_of

M = TypeVar("M", bound="Meter")


class Meter(ABC):
    """A figure over everything that was added since the last reset.

    The state is a dict of plain numbers: it goes into checkpoints, and `merge` adds the state of
    another meter of the same kind.
    """

    def __init__(self) -> None:
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """The figure."""

    def result(self) -> float:
        """The figure as one number, for logs."""
        return float(self.value)

    @abstractmethod
    def state(self) -> dict[str, float]: ...

    @abstractmethod
    def merge(self, state: Mapping[str, float]) -> None:
        """Add what the meter with this state has seen."""

    def load_state(self, state: Mapping[str, float]) -> None:
        """Go on from `state`."""
        self.reset()
        self.merge(state)

    def fresh(self: M) -> M:
        """A meter of this kind and settings to which nothing was added."""
        twin = copy.copy(self)
        twin.reset()
        return twin

    def sync(self, communicator: Communicator) -> None:
        """Merge the meters of all ranks, on every rank, in rank order: equal results everywhere.
        Call it once, when all is added: a second call would count everything again."""
        if communicator.world_size > 1:
            states = all_gather_plain(communicator, self.state())
            self.reset()
            for state in states:
                self.merge(state)


class Average(NamedTuple):
    """mean, unbiased variance, total weight; the first two are NaN where they are not defined."""

    mean: float
    variance: float
    weight: float


class AverageValueMeter(Meter):
    """Weighted mean and unbiased variance of numbers: `add(value, weight)`, or `add(tensor)` for
    all of its elements. Updated without cancellation (West, 1979; merging: Chan et al., 1979)."""

    def reset(self) -> None:
        self._weight = self._weight_squares = 0.0
        self._mean = self._deviations = 0.0

    def add(self, value: float | ft.Array, weight: float = 1.0) -> None:
        """Add a number, or each element of a tensor, with a weight >= 0 (0: not counted)."""
        if not weight >= 0.0 or math.isinf(weight):
            raise ModuleError(f"[AverageValueMeter] weight {weight}: give a finite number >= 0")
        values = [value] if isinstance(value, (int, float)) else _flat(value)
        for number in values:
            self._merge(weight, weight * weight, float(number), 0.0)

    @property
    def value(self) -> Average:
        if not self._weight:
            return Average(math.nan, math.nan, 0.0)
        # The correction for weights that say how reliable a value is; n - 1 when all are 1.
        freedom = self._weight - self._weight_squares / self._weight
        variance = self._deviations / freedom if freedom > 0.0 else math.nan
        return Average(self._mean, variance, self._weight)

    def result(self) -> float:
        return self.value.mean

    def state(self) -> dict[str, float]:
        return {
            "weight": self._weight,
            "weight_squares": self._weight_squares,
            "mean": self._mean,
            "deviations": self._deviations,
        }

    def merge(self, state: Mapping[str, float]) -> None:
        self._merge(state["weight"], state["weight_squares"], state["mean"], state["deviations"])

    def _merge(self, weight: float, squares: float, mean: float, deviations: float) -> None:
        if not weight:
            return
        if not self._weight:
            self._weight, self._weight_squares = weight, squares
            self._mean, self._deviations = mean, deviations
            return
        total = self._weight + weight
        distance = mean - self._mean
        self._mean += distance * weight / total
        self._deviations += deviations + distance * distance * self._weight * weight / total
        self._weight, self._weight_squares = total, self._weight_squares + squares


class _ShareMeter(Meter):
    """The percentage of counted things."""

    def reset(self) -> None:
        self._hits = self._total = 0

    @property
    def value(self) -> float:
        return 100.0 * self._hits / self._total if self._total else math.nan

    def state(self) -> dict[str, float]:
        return {"hits": self._hits, "total": self._total}

    def merge(self, state: Mapping[str, float]) -> None:
        self._hits += int(state["hits"])
        self._total += int(state["total"])


class FrameErrorMeter(_ShareMeter):
    """The percentage of predictions that differ from their targets; with `accuracy`, that agree."""

    def __init__(self, accuracy: bool = False, axis: int = 1) -> None:
        super().__init__()
        self.accuracy, self.axis = accuracy, axis

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


class TopKMeter(_ShareMeter):
    """The percentage of targets among the `k` classes with the largest scores."""

    def __init__(self, k: int, axis: int = 1) -> None:
        super().__init__()
        if k < 1:
            raise ModuleError(f"[TopKMeter] k={k}: give at least 1")
        self.k, self.axis = k, axis

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


def _flat(value: ft.Array) -> list[float]:
    return tensor_of(value).reshape(-1).tolist()
