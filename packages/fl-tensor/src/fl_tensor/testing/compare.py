"""Whether two arrays agree within a Tolerance, and words for where they do not."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.hostdata import EPSILON, SMALLEST_NORMAL, HostArray, round_to
from fl_tensor.testing.opcase import Tolerance
from fl_tensor.testing.references.exact import wrap


def expected(want: Any, dtype: DType) -> HostArray:
    """A reference's result in ``dtype``: integers modulo 2^bits, floats rounded (or overflowed)."""
    values = np.asarray(want)
    if dtype.is_integer and values.dtype.kind in "iuO":
        return wrap(values, np.dtype(dtype.name))
    return round_to(values, dtype)


def difference(got: HostArray, want: Any, dtype: DType, tolerance: Tolerance) -> str:
    """ "" when they agree, otherwise the worst place in words."""
    wanted = expected(want, dtype)
    if got.shape != wanted.shape:
        return f"shape is {got.shape}, expected {wanted.shape}"
    if dtype.kind not in "fc":
        return _describe(got != wanted, got, wanted, "")
    if tolerance.signed and dtype.kind == "f":
        zeros = (got == 0) & (wanted == 0) & (np.signbit(got) != np.signbit(wanted))
        if message := _describe(zeros, got, wanted, "zeros differ in sign"):
            return message
    bad, note = _outside(got, wanted, dtype, tolerance)
    return _describe(bad, got, wanted, note)


def _outside(
    got: HostArray, wanted: HostArray, dtype: DType, tolerance: Tolerance
) -> tuple[HostArray, str]:
    with np.errstate(all="ignore"):
        a, b = (v.astype(np.complex128 if dtype.kind == "c" else np.float64) for v in (got, wanted))
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        error = np.where(finite, np.abs(a - b), np.inf)
        unit = EPSILON[dtype.name] * np.maximum(np.abs(b), tolerance.scale)
        # Results below the normal range may be flushed to zero, except where values only move.
        floor = 0.0 if tolerance.signed else SMALLEST_NORMAL[dtype.name]
        allowed = tolerance.eps_for(dtype) * unit
        bad = np.asarray(~equal & ~(finite & (error <= np.maximum(allowed, floor))))
        excess = np.where(bad, error / np.maximum(unit, floor or 1e-300), 0)
        worst: float = np.max(excess, initial=0)
    return bad, f"off by {worst:.3g} eps where {tolerance.eps_for(dtype):g} are allowed"


def _describe(bad: HostArray, got: HostArray, wanted: HostArray, note: str) -> str:
    bad = np.asarray(bad)
    if not bad.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    more = f"; {int(bad.sum())} of {bad.size} elements differ" if bad.size > 1 else ""
    where = f" at {place}" if place else ""
    return (
        f"got {got[place]!s}{where}, expected {wanted[place]!s}{more}{'; ' + note if note else ''}"
    )
