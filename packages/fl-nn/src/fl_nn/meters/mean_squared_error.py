"""MSEMeter: the mean squared difference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.meters.exact_sum import ExactSum
from fl_nn.meters.meter import Meter
from fl_nn.values import widest
from fl_tensor.annotations import explained


class MSEMeter(Meter):
    """The mean of the squared differences of all elements that were added: every element counts
    once, however the batches were cut. NaN before the first.

    Flashlight's meter sums the squares within a call of `add` and takes the mean over calls, which
    depends on how the samples were batched: its value is `sum_of_squares / adds`. That of five
    differences of 3 in one call is 45 there, and 9 here.

    The squares of one `add` are summed in float64, where the backend has it; these sums are added
    exactly, so that merging gives the same bits in any order.
    """

    def reset(self) -> None:
        self._squares = ExactSum()
        self._count = 0

    @explained
    def add(self, predictions: ft.Array, targets: ft.Array) -> None:
        """Two arrays of one shape. Raises ShapeError for others: nothing is broadcast."""
        if predictions.shape != targets.shape:
            raise ft.ShapeError(
                f"[MSEMeter] predictions {predictions.shape} and targets {targets.shape}: give "
                "arrays of one shape"
            )
        squares = ft.square(widest(predictions) - widest(targets))
        self._squares.add(float(ft.sum(squares).item()))
        self._count += predictions.size

    @property
    def value(self) -> float:
        return self.sum_of_squares / self._count if self._count else math.nan

    @property
    def sum_of_squares(self) -> float:
        """What `value` is the mean of."""
        return float(self._squares)

    def state(self) -> dict[str, Any]:
        return {"squares": self._squares.parts, "count": self._count}

    def merge(self, state: Mapping[str, Any]) -> None:
        self._squares.update(state["squares"])
        self._count += int(state["count"])
