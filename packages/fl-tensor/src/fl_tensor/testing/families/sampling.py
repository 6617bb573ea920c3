"""Rows of random numbers: bit for bit, and normals to 4 units in the last place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.opcase import DEVICE, EDGE, EMPTY, PLAIN, ZERO_D, OpCase, Sample, Tolerance
from fl_tensor.testing.references import random
from fl_tensor.testing.references.philox import random_bits

INF = float("inf")
SEEDS = (0, 1, 0xFFFFFFFF, 0x123456789ABCDEF0, 2**64 - 1)
#: The first of a block, inside one, across two, and where the counter's low half overflows.
OFFSETS = (1, 2, 3, 4, 7, 4 * 2**32 - 2, 2**40 + 5)


def _random_bits(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for seed in SEEDS:
        yield Sample(PLAIN, (seed, 0, (9,), DEVICE))
    for offset in OFFSETS:
        yield Sample(EDGE, (42, offset, (2, 3), DEVICE))
    yield Sample(ZERO_D, (7, 5, (), DEVICE))
    yield Sample(EMPTY, (7, 5, (3, 0), DEVICE))


def _draws(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for seed in SEEDS:
        yield Sample(PLAIN, (seed, 0, (3, 4), dtype, DEVICE))
    for offset in OFFSETS:
        yield Sample(EDGE, (42, offset, (5,), dtype, DEVICE))
    yield Sample(ZERO_D, (7, 5, (), dtype, DEVICE))
    yield Sample(EMPTY, (7, 5, (0, 2), dtype, DEVICE))


def _bounded(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
    for seed in SEEDS:
        yield Sample(PLAIN, (seed, 0, (3, 4), -2.0, 2.0, dtype, DEVICE))
    for low, high in ((-1.0, 3.0), (0.5, 1.5), (-3.0, -2.5), (4.0, 6.0), (-INF, 0.0), (-INF, INF)):
        yield Sample(EDGE, (7, 3, (5,), low, high, dtype, DEVICE))
    for offset in OFFSETS:
        yield Sample(EDGE, (42, offset, (5,), -2.0, 2.0, dtype, DEVICE))
    yield Sample(ZERO_D, (7, 5, (), -2.0, 2.0, dtype, DEVICE))
    yield Sample(EMPTY, (7, 5, (0, 2), -2.0, 2.0, dtype, DEVICE))


CASES = (
    OpCase(
        "random_bits",
        listed(_random_bits),
        lambda seed, offset, shape, device: random_bits(seed, offset, shape),
        "i",
        only=("int32",),
    ),
    OpCase("uniform", listed(_draws), random.uniform),
    OpCase(
        "normal",
        listed(_draws),
        random.normal,
        tolerance=Tolerance(4),
    ),
    OpCase(
        "truncated_normal",
        listed(_bounded),
        random.truncated_normal,
        tolerance=Tolerance(8, scale=1.0),
    ),
)
