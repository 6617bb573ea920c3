"""Products of integer matrices by BLAS.

NumPy has no fast loop for them. In float64 a product is exact while all sums are below 2^53. Where
they may be larger, 32-bit operands are split into two halves: products of those are exact, and
their sum is that of integers, modulo 2^32.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from fl_tensor.backends.numpy import memory

Array: TypeAlias = np.ndarray[Any, Any]

#: Below it NumPy's loop takes no longer than the conversions, by multiplications per element.
_LEAST_REUSE = 8
_EXACT = 1 << 53
_HALF_BITS = 16


def product(a: Array, b: Array, out: Array) -> Array:
    """``np.matmul(a, b, out)`` of integers, which wraps around."""
    depth = a.shape[-1]
    work = out.size * depth
    if work <= _LEAST_REUSE * (a.size + b.size + out.size):
        return np.matmul(a, b, out)
    if _largest(a) * _largest(b) * depth < _EXACT:
        np.copyto(out, _exact(a, b), "unsafe")
        return out
    if a.itemsize > 4 or depth << (2 * _HALF_BITS) >= _EXACT:
        return np.matmul(a, b, out)
    (low, high), (other_low, other_high) = _halves(a), _halves(b)
    crossed = _exact(low, other_high) + _exact(high, other_low)
    total = _exact(low, other_low) + (crossed << _HALF_BITS)
    np.copyto(out, total, "unsafe")
    return out


def _largest(a: Array) -> int:
    return max(int(a.max()), -int(a.min()))


def _exact(a: Array, b: Array) -> Array:
    wide = np.dtype(np.float64)
    found: Array = np.matmul(memory.cast(a, wide), memory.cast(b, wide))
    return found.astype(np.int64)  # a float out of range has no low bits to keep


def _halves(a: Array) -> tuple[Array, Array]:
    # a = low + 2^16 high, modulo 2^32. Both are below 2^16.
    wide = a.astype(np.int64)
    return wide & ((1 << _HALF_BITS) - 1), wide >> _HALF_BITS
