"""CountMeter: counts of several events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_tensor.annotations import explained


class CountMeter(Meter):
    """`size` counters, from 0: `add(index, count)`. The value is the list of them, `result` their
    sum. Merging is exact, whatever the order."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ModuleError(f"[CountMeter] size {size}: give at least 1")
        self.size = size
        super().__init__()

    def reset(self) -> None:
        self._counts = [0] * self.size

    @explained
    def add(self, index: int, count: int = 1) -> None:
        """Add `count` to counter `index`. Raises IndexingError unless 0 <= index < size."""
        if not 0 <= index < self.size:
            raise ft.IndexingError(
                f"[CountMeter] index {index}: there are counters 0 .. {self.size - 1}; build the "
                "meter with more"
            )
        self._counts[index] += int(count)

    @property
    def value(self) -> list[int]:
        return list(self._counts)

    def result(self) -> float:
        return float(sum(self._counts))

    def state(self) -> dict[str, Any]:
        return {"counts": self.value}

    def merge(self, state: Mapping[str, Any]) -> None:
        counts = state["counts"]
        if len(counts) != self.size:
            raise ModuleError(
                f"[CountMeter] {len(counts)} counters do not merge into {self.size}: build both "
                "meters with one size"
            )
        self._counts = [mine + int(other) for mine, other in zip(self._counts, counts)]
