"""`Weighted`: sampling with weights."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

import fl_tensor as ft
from fl_data.dataset import as_dataset
from fl_data.errors import DataError
from fl_data.views.resample import Resample


class Weighted(Resample):
    """`length` samples of `ds`, drawn anew in every epoch with probabilities like `weights`.

    With `replacement` (the default) draws are independent: sample `i` comes
    `length * weights[i] / sum(weights)` times on average. Without, no sample comes twice, and the
    next is drawn among those that are left (Efraimidis and Spirakis, 2006: the largest of
    `log(u) / weight`). `weights` are a number for every sample, at least 0 (0: never), a list or a
    1-d tensor; `length` is `len(ds)` where not given.

    For classes of unequal size: `Weighted(ds, [1 / count[label] for label in labels])`.
    """

    def __init__(
        self,
        ds: object,
        weights: Iterable[float],
        length: int | None = None,
        *,
        replacement: bool = True,
        seed: int | None = None,
    ) -> None:
        source = as_dataset(ds)
        self._weights = _checked(weights, len(source))
        self._replacement = replacement
        super().__init__(source, self._choose, len(source) if length is None else length, seed)
        possible = sum(weight > 0 for weight in self._weights)
        if not replacement and len(self) > possible:
            raise DataError(
                f"[Weighted] {len(self)} samples without replacement, but only {possible} weights "
                "are above 0"
            )
        if len(self) and not possible:
            raise DataError("[Weighted] no weight is above 0: there is nothing to draw")

    def _choose(self, generator: ft.Generator) -> array[int]:
        count = len(self)
        if not ft.current_backend().has_values:  # where there are only shapes, any will do
            return array("q", (place % len(self._weights) for place in range(count)))
        if not self._replacement:
            return self._without_replacement(generator)
        total = list(accumulate(self._weights))
        last = max((i for i, weight in enumerate(self._weights) if weight > 0), default=0)
        return array(
            "q", (bisect_right(total, u * total[-1], 0, last) for u in _fractions(count, generator))
        )

    def _without_replacement(self, generator: ft.Generator) -> array[int]:
        fractions = _fractions(len(self._weights), generator)
        keys = [
            math.log(1 - u) / weight if weight > 0 else -math.inf
            for u, weight in zip(fractions, self._weights, strict=True)
        ]
        return array("q", sorted(range(len(keys)), key=keys.__getitem__, reverse=True)[: len(self)])


def _checked(weights: Iterable[float], samples: int) -> array[float]:
    values = array("d", weights.tolist() if isinstance(weights, ft.Array) else weights)
    if len(values) != samples:
        raise DataError(f"[Weighted] {len(values)} weights for {samples} samples")
    for i, weight in enumerate(values):
        if not 0 <= weight < math.inf:
            raise DataError(f"[Weighted] weight {i} is {weight}: weights are finite and at least 0")
    if not math.isfinite(math.fsum(values)):
        raise DataError("[Weighted] the sum of the weights is not finite: make them smaller")
    return values


def _fractions(count: int, generator: ft.Generator) -> list[float]:
    """`count` multiples of 2**-53 in [0, 1)."""
    draws = generator.integers(0, 1 << 31, (2 * count,)).tolist() if count else []
    return [
        (high << 22 | low >> 9) * 2.0**-53
        for high, low in zip(draws[::2], draws[1::2], strict=True)
    ]
