"""References of uniform and normal numbers from Philox words, in NumPy float64.

Roundings that the contract prescribes (the float32 casts and products before the transcendental
functions) are repeated here; what follows is exact to float64.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.references.philox import words

Shape = tuple[int, ...]


def uniform(seed: int, offset: int, shape: Shape, dtype: DType, device: object = None) -> HostArray:
    """float32, float16, bfloat16: the top 24, 11, 8 bits of a word; float64: the top 27 and 26 bits
    of two."""
    count = int(np.prod(shape, dtype=np.int64))
    if bits := {"float32": 24, "float16": 11, "bfloat16": 8}.get(dtype.name):
        return ((words(seed, offset, count) >> (32 - bits)) * 2.0**-bits).reshape(shape)
    pairs = words(seed, offset, 2 * count).astype(np.uint64).reshape(count, 2)
    whole = (pairs[:, 0] >> 5) * 2**26 + (pairs[:, 1] >> 6)
    return (whole * 2.0**-53).reshape(shape)


def normal(seed: int, offset: int, shape: Shape, dtype: DType, device: object = None) -> HostArray:
    """Box & Muller's cosine branch of two uniforms."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.name != "float64":
        pairs = words(seed, offset, 2 * count).reshape(count, 2)
        single = np.float32
        u = ((pairs[:, 0] >> 1).astype(single) + single(1)) * single(2.0**-31)
        v = (pairs[:, 1] >> 8).astype(single) * single(2.0**-24)
        angle = (v * single(2 * np.pi)).astype(np.float64)
        wide = u.astype(np.float64)
    else:
        both = uniform(seed, offset, (count, 2), dtype)
        wide, angle = 1.0 - both[:, 0], 2 * np.pi * both[:, 1]
    return (np.sqrt(-2 * np.log(wide)) * np.cos(angle)).reshape(shape)


def truncated_normal(
    seed: int,
    offset: int,
    shape: Shape,
    low: float,
    high: float,
    dtype: DType,
    device: object = None,
) -> HostArray:
    """The inverse distribution function of Python's statistics module, from the nearer tail."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.name == "float64":
        pairs = words(seed, offset, 2 * count).astype(np.uint64).reshape(count, 2)
        numbers, bits = (pairs[:, 0] >> 5) * 2**26 + (pairs[:, 1] >> 6), 53
    else:
        numbers, bits = words(seed, offset, count) >> 1, 31
    normal = NormalDist()
    under, over = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (low, -high))
    mass = 0.5 * math.erfc(low / math.sqrt(2)) - over if low > 0 else 1 - over - under
    if high < 0:
        mass = 0.5 * math.erfc(-high / math.sqrt(2)) - under
    found = []
    for k in numbers.tolist():
        p = under + mass * ((k + 0.5) / 2**bits)
        q = over + mass * ((2**bits - k - 0.5) / 2**bits)
        x = normal.inv_cdf(p) if p < q else -normal.inv_cdf(q)
        found.append(min(max(x, low), high))
    return np.array(found).reshape(shape)
