"""Histograms of sample lengths."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import fl_tensor as ft
from fl_data.dataset import check_count
from fl_data.errors import DataError
from fl_tensor.annotations import Checked

_BAR = 40


@dataclass(frozen=True)
class Bucket:
    """`count` numbers in `start <= number < end`; the last bucket includes its end."""

    start: float
    end: float
    count: int


class Histogram(Checked):
    """`values` (a list or 1-d tensor of finite numbers) counted in `buckets` of equal width between
    `begin` and `end`, by default the smallest and largest. Numbers beyond count in the outermost.

    `print(Histogram(lengths))` draws it.
    """

    def __init__(
        self,
        values: Iterable[float],
        buckets: int = 10,
        begin: float | None = None,
        end: float | None = None,
    ) -> None:
        numbers = list(values.tolist() if isinstance(values, ft.Array) else values)
        count = check_count(buckets, "buckets", "Histogram", least=1)
        if not all(map(math.isfinite, numbers)):
            raise DataError("[Histogram] there are numbers that are not finite")
        self.count, self.sum = len(numbers), math.fsum(numbers)
        self.min, self.max = min(numbers, default=math.nan), max(numbers, default=math.nan)
        self.mean = self.sum / self.count if numbers else math.nan
        low = begin if begin is not None else min(numbers, default=0.0)
        high = end if end is not None else max(numbers, default=1.0)
        if begin is None and end is None and low == high:
            high = low + 1  # one value: any width will do
        if not (math.isfinite(high - low) and low < high):
            raise DataError(f"[Histogram] begin {low} must be less than end {high}")
        edges = [low + (high - low) * i / count for i in range(count)] + [high]
        counts = [0] * count
        for number in numbers:
            counts[min(max(bisect_right(edges, number) - 1, 0), count - 1)] += 1
        self.buckets = tuple(map(Bucket, edges[:-1], edges[1:], counts))

    def __str__(self) -> str:
        most = max(bucket.count for bucket in self.buckets) or 1
        edges = [f"{bucket.start:.6g} .. {bucket.end:.6g}" for bucket in self.buckets]
        wide, digits = max(map(len, edges)), len(str(most))
        lines = [f"{self.count} numbers, {self.min:.6g} .. {self.max:.6g}, mean {self.mean:.6g}"]
        for edge, bucket in zip(edges, self.buckets, strict=True):
            bar = "#" * math.ceil(_BAR * bucket.count / most)
            lines.append(f"{edge:>{wide}} {bucket.count:>{digits}} {bar}".rstrip())
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Histogram({self.count} numbers in {len(self.buckets)} buckets)"
