"""Random numbers from the backend's Philox words. Element i uses words of its own, so that the same
seed and offset give the same element whatever the batch it is drawn in."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError
from fl_tensor.roles import Ops, Shape

__all__ = ["normal", "uniform"]

#: Words of the stream that one element takes.
UNIFORM_WORDS = {dtypes.float16: 1, dtypes.bfloat16: 1, dtypes.float32: 1, dtypes.float64: 2}
NORMAL_WORDS = {dtype: 2 * words for dtype, words in UNIFORM_WORDS.items()}
#: Bits of a uniform number that is made of one word: as many as the dtype's numbers below 1 have.
_BITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24}


def word_bits(ops: Ops, words: Any, count: int) -> Any:
    # The top ``count`` bits of each 32-bit word as a non-negative int32.
    shifted = ops.bitwise_right_shift(words, ops.constant(32 - count, words))
    return ops.bitwise_and(shifted, ops.constant((1 << count) - 1, words))


def _supported(dtype: DType, op: str) -> None:
    if dtype not in UNIFORM_WORDS:
        raise DTypeError(f"[{op}] dtype {dtype}: expected a floating dtype; draw one and cast")


def uniform(
    ops: Ops,
    seed: int,
    offset: int,
    shape: Shape,
    dtype: DType = dtypes.DEFAULT_FLOAT,
    device: Device = CPU,
) -> Any:
    """Uniform on [0, 1): float32, float16 and bfloat16 from the top 24, 11 and 8 bits of one word,
    float64 from 27 + 26 of two."""
    _supported(dtype, "uniform")
    if count := _BITS.get(dtype):
        x = ops.cast(word_bits(ops, ops.random_bits(seed, offset, shape, device), count), dtype)
        return ops.multiply(x, ops.constant(2.0**-count, x))
    words = ops.random_bits(seed, offset, (*shape, 2), device)
    ones = (1,) * (len(shape) + 1)

    def word(i: int) -> Any:
        return ops.reshape(ops.slice(words, (0,) * len(shape) + (i,), (*shape, 1), ones), shape)

    high = ops.cast(word_bits(ops, word(0), 27), dtype)
    low = ops.cast(word_bits(ops, word(1), 26), dtype)
    whole = ops.add(ops.multiply(high, ops.constant(2.0**26, high)), low)
    return ops.multiply(whole, ops.constant(2.0**-53, whole))


def normal(
    ops: Ops,
    seed: int,
    offset: int,
    shape: Shape,
    dtype: DType = dtypes.DEFAULT_FLOAT,
    device: Device = CPU,
) -> Any:
    """Standard normal by Box & Muller (1958): sqrt(-2 log u) cos(2 pi v), u in (0, 1]; float16 and
    bfloat16 are rounded from float32."""
    _supported(dtype, "normal")
    if dtype in dtypes.HALF:
        return ops.cast(ops.normal(seed, offset, shape, dtypes.float32, device), dtype)
    pairs = ops.uniform if dtype is dtypes.float64 else None
    ones = (1,) * (len(shape) + 1)

    def column(values: Any, i: int) -> Any:
        return ops.reshape(ops.slice(values, (0,) * len(shape) + (i,), (*shape, 1), ones), shape)

    if pairs is None:
        words = ops.random_bits(seed, offset, (*shape, 2), device)
        # 31 bits rather than 24, so that the tail reaches 6.5 standard deviations.
        u = ops.cast(word_bits(ops, column(words, 0), 31), dtype)
        u = ops.multiply(ops.add(u, ops.constant(1.0, u)), ops.constant(2.0**-31, u))
        v = ops.cast(word_bits(ops, column(words, 1), 24), dtype)
        v = ops.multiply(v, ops.constant(2.0**-24, v))
    else:
        both = pairs(seed, offset, (*shape, 2), dtype, device)
        u, v = ops.subtract(ops.constant(1.0, both), column(both, 0)), column(both, 1)
    radius = ops.sqrt(ops.multiply(ops.log(u), ops.constant(-2.0, u)))
    return ops.multiply(radius, ops.cos(ops.multiply(v, ops.constant(2.0 * math.pi, v))))
