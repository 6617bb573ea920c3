"""Rows of the parts of complex numbers: real, imag, conj, and of their angle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import unary
from fl_tensor.testing.opcase import EXACT, NON_CONTIGUOUS, PLAIN, OpCase, Tolerance
from fl_tensor.testing.values import plane

CAPABILITY = "complex"


def _parts(dtype: DType) -> Sequence[complex]:
    """Each part keeps what it is beside any other: zeros, infinities and NaN."""
    values = (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan)
    return [*plane(dtype), *(complex(x, y) for x in values for y in values)]


CASES = (
    *(
        OpCase(
            name,
            unary(edges=_parts),
            reference,
            "c",
            result,
            EXACT,
            capability=CAPABILITY,
            grad=(PLAIN, NON_CONTIGUOUS),
        )
        for name, reference, result in (
            ("real", np.real, "real"),
            ("imag", np.imag, "real"),
            ("conj", np.conjugate, "same"),
        )
    ),
    OpCase(
        "angle",
        unary(edges=_parts),
        np.angle,
        "c",
        "real",
        Tolerance(4),
        since=(1, 1),
        capability=CAPABILITY,
        grad=(PLAIN, NON_CONTIGUOUS),
    ),
)
