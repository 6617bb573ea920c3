"""Philox 4x32-10 in Python integers, written from the paper (Salmon et al., SC 2011)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW = 0xFFFFFFFF


def block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The four 32-bit outputs for one counter and key."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second >> 32) ^ c1 ^ k0,
            second & LOW,
            (first >> 32) ^ c3 ^ k1,
            first & LOW,
        )
        k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
    return c0, c1, c2, c3


def words(seed: int, offset: int, count: int) -> NDArray[np.uint32]:
    """Words ``offset .. offset + count - 1`` of the stream of ``seed``, in the contract's order."""
    key = (seed & LOW, (seed >> 32) & LOW)
    found: list[int] = []
    first = offset // 4
    while len(found) < offset % 4 + count:
        number = first + len(found) // 4
        found += block((number & LOW, (number >> 32) & LOW, 0, 0), key)
    return np.array(found[offset % 4 :][:count], np.uint32)


def random_bits(seed: int, offset: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """What the primitive ``random_bits`` returns."""
    count = int(np.prod(shape, dtype=np.int64))
    return words(seed, offset, count).view(np.int32).reshape(shape)
