"""AverageValueMeter: mean and variance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_nn.values import widest
from fl_tensor.annotations import explained


class Average(NamedTuple):
    """mean, unbiased variance, total weight; the first two are NaN where they are not defined."""

    mean: float
    variance: float
    weight: float


class AverageValueMeter(Meter):
    """Weighted mean and unbiased variance of numbers: `add(value, weight)`, or `add(tensor)` for
    all of its elements. Updated without cancellation (West, 1979; merging: Chan et al., 1979), so
    that another order of adding or merging differs in the last bits alone."""

    def reset(self) -> None:
        self._weight = self._weight_squares = 0.0
        self._mean = self._deviations = 0.0

    @explained
    def add(self, value: float | ft.Array, weight: float = 1.0) -> None:
        """Add a number, or each element of a tensor, with a weight >= 0 (0: not counted)."""
        if not weight >= 0.0 or math.isinf(weight):
            raise ModuleError(f"[AverageValueMeter] weight {weight}: give a finite number >= 0")
        if isinstance(value, (int, float)):
            self._merge(weight, weight * weight, float(value), 0.0)
        elif value.size:
            numbers, count = widest(value), value.size
            mean = ft.mean(numbers)
            deviations = float(ft.sum(ft.square(numbers - mean)).item()) * weight
            self._merge(count * weight, count * weight**2, float(mean.item()), deviations)

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

    def state(self) -> dict[str, Any]:
        return {
            "weight": self._weight,
            "weight_squares": self._weight_squares,
            "mean": self._mean,
            "deviations": self._deviations,
        }

    def merge(self, state: Mapping[str, Any]) -> None:
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
