"""Comparison of arrays within a Tolerance, and descriptions of differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.hostdata import EPSILON, SMALLEST_NORMAL, HostArray, round_to
from fl_tensor.testing.opcase import Tolerance
from fl_tensor.testing.references.exact import wrap

#: From so many eps on, it is no matter of rounding, and the number says nothing.
PLAINLY_WRONG = 1e5


def expected(want: Any, dtype: DType) -> HostArray:
    """A reference's result in ``dtype``: integers modulo 2^bits, floats rounded (or overflowed)."""
    values = np.asarray(want)
    if dtype.is_integer and values.dtype.kind in "iuO":
        return wrap(values, np.dtype(dtype.name))
    return round_to(values, dtype)


def difference(
    got: HostArray,
    want: Any,
    dtype: DType,
    tolerance: Tolerance,
    beside: Mapping[str, HostArray] = {},
) -> str:
    """ "" when they agree, otherwise the worst place in words, with the elements that the arrays
    ``beside``, which broadcast to the shape of the result, have there."""
    wanted = expected(want, dtype)
    if got.shape != wanted.shape:
        return f"shape is {got.shape}, expected {wanted.shape}"
    if dtype.kind not in "fc":
        return _describe((got != wanted).astype(float), got, wanted, beside)
    if tolerance.signed and dtype.kind == "f":
        zeros = (got == 0) & (wanted == 0) & (np.signbit(got) != np.signbit(wanted))
        if message := _describe(zeros.astype(float), got, wanted, beside):
            return f"{message}; zeros differ in sign"
    excess = _excess(got, wanted, dtype, tolerance)
    message = _describe(excess, got, wanted, beside)
    if message and (worst := excess.max()) < PLAINLY_WRONG:
        message += f"; off by {worst:.3g} eps where {tolerance.eps_for(dtype):g} are allowed"
    return message


def _excess(got: HostArray, wanted: HostArray, dtype: DType, tolerance: Tolerance) -> HostArray:
    """How far each element is off, in units of epsilon; 0 within the tolerance, infinite where one
    of the two is not finite."""
    with np.errstate(all="ignore"):
        a, b = (v.astype(np.complex128 if dtype.kind == "c" else np.float64) for v in (got, wanted))
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        error = np.abs(a - b)
        unit = EPSILON[dtype.name] * np.maximum(np.abs(b), tolerance.scale)
        # Results below the normal range may be flushed to zero, except where values only move.
        floor = 0.0 if tolerance.signed else SMALLEST_NORMAL[dtype.name]
        allowed = np.maximum(tolerance.eps_for(dtype) * unit, floor)
        in_units = np.where(finite, error / np.maximum(unit, floor or 1e-300), np.inf)
        return np.asarray(np.where(equal | (finite & (error <= allowed)), 0.0, in_units))


def _describe(
    excess: HostArray, got: HostArray, wanted: HostArray, beside: Mapping[str, HostArray]
) -> str:
    excess = np.asarray(excess)
    if not excess.any():
        return ""
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
    where = f" at {place}" if place else ""
    there = {name: np.broadcast_to(a, got.shape)[place] for name, a in beside.items()}
    given = " for " + ", ".join(f"{k} = {v!s}" for k, v in there.items()) if there else ""
    count, size = int(np.count_nonzero(excess)), excess.size
    more = f"; {count} of {size} elements differ" if size > 1 else ""
    return f"got {got[place]!s}{where}, expected {wanted[place]!s}{given}{more}"
