"""Sample values of operations: valid ranges and edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.hostdata import LARGEST, SMALLEST_NORMAL, HostArray
from fl_tensor.testing.opcase import Operand, operand

Shape = tuple[int, ...]

#: Ranges of floating values by name (low, high, random sign).
DOMAINS = {
    "any": (0.05, 4.0, True),
    "positive": (0.1, 4.0, False),
    "nonzero": (0.3, 3.0, True),
    "unit": (0.05, 0.95, True),
    "above_one": (1.1, 4.0, False),
    "near_one": (0.5, 1.5, True),
    "exponent": (0.3, 2.5, True),
    "probability": (0.05, 0.95, False),
}
#: Ranges of integers by the same names (low, high inclusive; low is clipped to 0 for unsigned).
INTEGER_DOMAINS = {
    "any": (-9, 9),
    "positive": (1, 9),
    "nonzero": (1, 9),
    "near_one": (-2, 3),
    "exponent": (0, 3),
    "shift": (0, 5),
}


def numbers(dtype: DType, rng: np.random.Generator, shape: Shape, domain: str = "any") -> Operand:
    """Random values of ``dtype`` inside ``domain``; all distinct for ``domain="distinct"``."""
    if dtype.kind == "b":
        return operand(rng.integers(0, 2, shape).astype(bool), dtype)
    if domain == "distinct":
        return operand(_distinct(dtype, rng, shape), dtype)
    if dtype.is_integer:
        low, high = INTEGER_DOMAINS.get(domain, INTEGER_DOMAINS["any"])
        return operand(
            rng.integers(max(low, 0) if dtype.kind == "u" else low, high + 1, shape), dtype
        )
    if dtype.kind == "c":
        parts = [numbers_float(rng, shape, domain) for _ in range(2)]
        return operand(parts[0] + 1j * parts[1], dtype)
    return operand(numbers_float(rng, shape, domain), dtype)


def numbers_float(rng: np.random.Generator, shape: Shape, domain: str = "any") -> HostArray:
    """Float64 values of one of the DOMAINS."""
    low, high, signed = DOMAINS[domain]
    size = rng.uniform(low, high, shape)
    return np.asarray(size * rng.choice([-1.0, 1.0], shape) if signed else size)


def _distinct(dtype: DType, rng: np.random.Generator, shape: Shape) -> HostArray:
    count = int(np.prod(shape))
    start = 0 if dtype.kind == "u" else -(count // 2)
    ranks = rng.permutation(count) + start
    # an eighth is exact in every floating dtype, and the offset keeps values away from zero
    return np.asarray(ranks * 0.5 + 0.125 if dtype.kind in "fc" else ranks).reshape(shape)


def extremes(dtype: DType) -> list[Any]:
    """The values of ``dtype`` at which implementations go wrong."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind == "c":
        return [0j, *plane(dtype)]
    if dtype.is_integer:
        info = np.iinfo(dtype.name)
        return sorted(
            {int(info.min), int(info.max), 0, 1, 2} | ({-1, -2} if info.min < 0 else set())
        )
    largest, tiny = LARGEST[dtype.name], SMALLEST_NORMAL[dtype.name]
    finite = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, largest, -largest, tiny]
    return [*finite, float("inf"), float("-inf"), float("nan")]


def plane(dtype: DType) -> list[complex]:
    """Numbers in every quadrant, on both sides of the branch cuts along the axes, large and small;
    no zero, pole or branch point."""
    inner = [complex(x, y) for x in (0.5, -1.5) for y in (0.25, -2.0)]
    cuts = [complex(x, y) for x in (2.0, -2.0) for y in (0.0, -0.0)]
    cuts += [complex(y, x) for x, y in ((2.0, 0.0), (2.0, -0.0), (-2.0, 0.0), (-2.0, -0.0))]
    return [*inner, *cuts, 1e-3 - 1e-3j, -1e-4 + 2e-3j, 3.0 + 4.0j, -20.0 + 30.0j, 1.25j]


def relaid(value: Operand, layout: str) -> Operand:
    """The same value, to be built non-contiguously."""
    return Operand(value.values, value.dtype, layout)
