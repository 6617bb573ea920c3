"""Exponential means of values over steps."""

from __future__ import annotations

import math
from collections.abc import Sequence


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """The exponential means of `values`, in which the past has `weight`, without their bias to the
    beginning, as in Adam (Kingma and Ba, 2015). NaN stays NaN, and is in no mean."""
    mean, share, means = 0.0, 0.0, []
    for value in values:
        if math.isnan(value):
            means.append(math.nan)
            continue
        mean = weight * mean + (1 - weight) * value
        share = weight * share + (1 - weight)
        means.append(mean / share)
    return means
