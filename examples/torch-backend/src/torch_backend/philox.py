"""Random words: Philox 4x32-10 (Salmon et al., SC 2011) in wrapping int64 arithmetic."""

from __future__ import annotations

import torch

_LOW = (1 << 32) - 1


def words(seed: int, offset: int, count: int, device: str) -> torch.Tensor:
    """`count` words of the stream of `seed` from word `offset` on, int32."""
    first, stop = offset // 4, (offset + count + 3) // 4
    block = torch.arange(stop - first, dtype=torch.int64, device=device) + (first & _LOW)
    c0, c1 = block & _LOW, (block >> 32) + (first >> 32) & _LOW
    c2, c3 = block & 0, block & 0
    k0, k1 = seed & _LOW, seed >> 32 & _LOW
    for _ in range(10):
        # Products of 32-bit numbers fill 64 bits; the shift drags the sign, the mask drops it.
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c2 = (p1 >> 32 & _LOW) ^ c1 ^ k0, (p0 >> 32 & _LOW) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & _LOW, (k1 + 0xBB67AE85) & _LOW
    found, skip = torch.stack([c0, c1, c2, c3], 1).reshape(-1), offset % 4
    return found[skip : skip + count].to(torch.int32)
