"""Exact sums of floats, independent of the order of adding and merging."""

from __future__ import annotations

import math
from collections.abc import Iterable


class ExactSum:
    """The exact sum of floats as a few floats that do not overlap. Shewchuk, 1997.

    `float()` of it is the true sum, rounded once. Infinities and NaN add up as usual.
    """

    def __init__(self, parts: Iterable[float] = ()) -> None:
        self._parts: list[float] = []
        self._special = 0.0  # what infinities and NaN come to
        self.update(parts)

    def add(self, x: float) -> None:
        if not math.isfinite(x):
            self._special += x
            return
        kept = []
        for y in self._parts:
            if abs(x) < abs(y):
                x, y = y, x
            high = x + y
            low = y - (high - x)
            if low:
                kept.append(low)
            x = high
        if math.isfinite(x):
            self._parts = [*kept, x]
        else:
            self._parts, self._special = [], self._special + x

    def update(self, parts: Iterable[float]) -> None:
        """Add the parts of another sum, or any floats."""
        for part in parts:
            self.add(part)

    @property
    def parts(self) -> list[float]:
        """Floats with exactly this sum, the same ones for the same sum: the sum rounded, what that
        leaves rounded, and so on."""
        found, rest = [], self._parts
        while head := math.fsum(rest):
            found.append(head)
            rest = [*rest, -head]
        return [self._special, *found] if self._special else found

    def __float__(self) -> float:
        return self._special + math.fsum(self._parts)
