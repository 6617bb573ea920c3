"""CalibrationMeter: whether probabilities are as large as the share of samples that come true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.meter import Meter
from fl_nn.meters.reading import read_probabilities
from fl_nn.values import arange_like, check_classes
from fl_tensor.annotations import explained

#: Confidences are summed as multiples of this: whole numbers, the same sum in any order.
_UNIT = 2.0**-36


class ReliabilityBin(NamedTuple):
    """The samples whose confidence is in (low, high]; the means are NaN where there are none."""

    low: float
    high: float
    samples: int
    confidence: float
    accuracy: float


class CalibrationMeter(Meter):
    """The expected calibration error, in [0, 1]: the mean distance between confidence and accuracy
    of `bins` of equal width, weighted by their samples. Guo et al., 2017.

    The confidence is the largest probability of a sample, and the accuracy of a bin the share of
    samples of that class. Of one probability each it is the probability of class 1, and the share
    of class 1. Merging is exact, whatever the order.

    axis          the axis of classes
    logits        whether outputs are logits, of which softmax or sigmoid makes probabilities
    ignore_index  targets of this value do not count, whatever their outputs
    """

    def __init__(
        self,
        bins: int = 15,
        *,
        axis: int = 1,
        logits: bool = False,
        ignore_index: int | None = None,
    ) -> None:
        if bins < 1:
            raise ModuleError(f"[CalibrationMeter] bins={bins}: give at least 1")
        self.bins, self.axis, self.logits = bins, axis, logits
        self.ignore_index = ignore_index
        super().__init__()

    def reset(self) -> None:
        self._counts, self._hits, self._sums = ([0] * self.bins for _ in range(3))

    @explained
    def add(self, outputs: ft.Array, targets: ft.Array) -> None:
        """`outputs` are probabilities (N, classes, ...), or logits with `logits`, and `targets` the
        classes; or one each, of targets that are 0 or 1. Raises ShapeError for other shapes,
        ArgumentError for what is no probability, IndexingError for other classes."""
        where = "CalibrationMeter"
        scores, truth = read_probabilities(
            where, outputs, targets, self.axis, self.logits, self.ignore_index
        )
        one = outputs.size == targets.size
        hint = "give scores of as many classes as there are"
        check_classes(f"[{where}] targets", truth, 2 if one else len(scores), hint)
        probs = ft.exp(scores) if self.logits else scores
        confidence = probs[-1] if one else ft.max(probs, 0)
        hits = ft.equal(truth, 1 if one else ft.argmax(probs, 0))
        edges = arange_like(probs, 1, self.bins, probs.dtype) / self.bins
        places = ft.searchsorted(edges, confidence)
        empty = arange_like(truth, 0, self.bins, ft.int64) * 0
        for total, values in (
            (self._counts, ft.ones_like(truth)),
            (self._hits, hits.astype(ft.int64)),
            (self._sums, ft.round(confidence / _UNIT).astype(ft.int64)),
        ):
            sums = ft.scatter(empty, places, values, mode="add").tolist()
            total[:] = [mine + more for mine, more in zip(total, sums)]

    @property
    def value(self) -> float:
        total = sum(self._counts)
        gaps = [abs(self._sums[i] * _UNIT - self._hits[i]) for i in range(self.bins)]
        return math.fsum(gaps) / total if total else math.nan

    @property
    def reliability(self) -> list[ReliabilityBin]:
        """The bins, from low confidence to high; `fl_nn.plot.reliability(meter)` draws them."""
        return [
            ReliabilityBin(
                i / self.bins,
                (i + 1) / self.bins,
                count,
                total * _UNIT / count if count else math.nan,
                hits / count if count else math.nan,
            )
            for i, (count, hits, total) in enumerate(zip(self._counts, self._hits, self._sums))
        ]

    def state(self) -> dict[str, Any]:
        return {"counts": [*self._counts], "hits": [*self._hits], "sums": [*self._sums]}

    def merge(self, state: Mapping[str, Any]) -> None:
        if len(state["counts"]) != self.bins:
            raise ModuleError(
                f"[CalibrationMeter] {len(state['counts'])} bins do not merge into {self.bins}: "
                "build both meters with as many"
            )
        for name in ("counts", "hits", "sums"):
            mine = getattr(self, f"_{name}")
            mine[:] = [own + int(more) for own, more in zip(mine, state[name])]
