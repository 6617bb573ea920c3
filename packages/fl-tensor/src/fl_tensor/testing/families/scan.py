"""Rows of scans along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fl_tensor.testing.builders import along_axis
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import NON_CONTIGUOUS, PLAIN, ZERO_D, OpCase, Tolerance

ORDERED = "biuf"
SMOOTH = (PLAIN, ZERO_D, NON_CONTIGUOUS)
SUMMED = Tolerance(16, scale=8.0, overrides={"float16": 64, "bfloat16": 64})
COMPOSED = Tolerance(32, scale=4.0, overrides={"float16": 64, "bfloat16": 64})
NAN, INF = float("nan"), float("inf")

ROWS = ([1.0, INF], [INF, -INF], [NAN, 1.0], [-0.0, 0.0], [NAN, NAN])


def _running(function: Any) -> Callable[[HostArray, int], HostArray]:
    def reference(x: HostArray, axis: int = -1) -> HostArray:
        exact = x.astype(object) if x.dtype.kind in "iu" else x
        return np.asarray(function.accumulate(exact, axis))

    return reference


CASES = (
    OpCase(
        "cumulative_prod",
        along_axis("near_one", edges=ROWS),
        _running(np.multiply),
        "iufc",
        result="sum",
        tolerance=SUMMED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_max",
        along_axis("distinct", edges=ROWS),
        _running(np.maximum),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_min",
        along_axis("distinct", edges=ROWS),
        _running(np.minimum),
        ORDERED,
        grad=SMOOTH,
    ),
    OpCase(
        "cumulative_logsumexp",
        along_axis(edges=(*ROWS, [1000.0, 1000.0], [-INF, -INF], [-1000.0, 0.0])),
        _running(np.logaddexp),
        tolerance=COMPOSED,
        grad=SMOOTH,
    ),
)
