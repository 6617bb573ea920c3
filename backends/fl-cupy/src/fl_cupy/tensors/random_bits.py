"""Random words: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011)."""

from __future__ import annotations

from typing import Any

import cupy

__all__ = ["philox"]

#: Every thread computes a block for one of its four words.
_KERNEL = cupy.ElementwiseKernel(
    "uint64 seed, uint64 offset",
    "uint32 word",
    """
    unsigned long long place = offset + i, block = place / 4;
    unsigned int c[4] = {(unsigned int)block, (unsigned int)(block >> 32), 0u, 0u};
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        unsigned int h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0];
        unsigned int h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
        c[0] = h1 ^ c[1] ^ k0; c[1] = l1; c[2] = h0 ^ c[3] ^ k1; c[3] = l0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
    }
    word = c[place % 4];
    """,
    "fl_cupy_philox",
)


def philox(seed: int, offset: int, shape: tuple[int, ...]) -> Any:
    """Words ``offset, offset + 1, ...`` of the stream of ``seed``, int32."""
    words = cupy.empty(shape, "uint32")
    if words.size:
        _KERNEL(cupy.uint64(seed), cupy.uint64(offset), words)
    return words.view("int32")
