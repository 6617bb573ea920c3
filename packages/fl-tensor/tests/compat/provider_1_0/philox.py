"""Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""

from __future__ import annotations

import numpy as np

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)


def words(seed: int, offset: int, count: int) -> np.ndarray:
    first, last = offset // 4, (offset + count + 3) // 4
    block = np.arange(last - first, dtype=np.uint64) + np.uint64(first)
    c0, c1 = block & LOW, block >> HALF
    c2, c3 = np.zeros_like(block), np.zeros_like(block)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c2 = (p1 >> HALF) ^ c1 ^ np.uint64(k0), (p0 >> HALF) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & LOW, p0 & LOW
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    stream = np.stack([c0, c1, c2, c3], 1).astype(np.uint32).reshape(-1)
    return stream[offset - 4 * first :][:count].view(np.int32)
