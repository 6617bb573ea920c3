"""Philox 4x32-10 (Salmon et al., SC 2011), vectorised over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_CHUNK = 1 << 14  # blocks at a time: their temporaries stay in cache
_FEW = 6  # blocks that Python's integers make faster than arrays do


def words(seed: int, offset: int, out: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
    """Fill 1-d ``out`` with words ``offset, offset + 1, ...`` of the stream of ``seed``."""
    first, last = offset // 4, -(-(offset + len(out)) // 4)
    skip = offset - 4 * first
    for start in range(first, last, _CHUNK):
        stop = min(start + _CHUNK, last)
        found = _blocks(seed, start, stop)
        low = max(4 * (start - first) - skip, 0)
        high = min(4 * (stop - first) - skip, len(out))
        begin = low + skip - 4 * (start - first)
        out[low:high] = found[begin : begin + high - low]


def _blocks(seed: int, start: int, stop: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    if stop - start <= _FEW:
        found = [word for index in range(start, stop) for word in _block(seed, index)]
        return np.array(found, np.uint32)
    index = np.arange(stop - start, dtype=np.uint64) + np.uint64(start & 0xFFFFFFFFFFFFFFFF)
    c0, c1 = index & _MASK, index >> _HALF
    c2 = np.zeros_like(index)
    c3 = np.zeros_like(index)
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(10):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = (product1 >> _HALF) ^ c1 ^ np.uint64(k0)
        c2 = (product0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c1, c3 = product1 & _MASK, product0 & _MASK
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32).reshape(-1)


def _block(seed: int, index: int) -> tuple[int, int, int, int]:
    mask, (multiplier0, multiplier1) = 0xFFFFFFFF, map(int, _MULTIPLIERS)
    c0, c1, c2, c3 = index & mask, (index >> 32) & mask, 0, 0
    k0, k1 = seed & mask, (seed >> 32) & mask
    for _ in range(10):
        product0, product1 = c0 * multiplier0, c2 * multiplier1
        c0, c2 = (product1 >> 32) ^ c1 ^ k0, (product0 >> 32) ^ c3 ^ k1
        c1, c3 = product1 & mask, product0 & mask
        k0, k1 = (k0 + _WEYL[0]) & mask, (k1 + _WEYL[1]) & mask
    return c0, c1, c2, c3
