"""The truncated normal distribution, by the inverse distribution function."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.inverse_normal import lower_quantile
from fl_tensor.derived.sampling import word_bits
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.limits import finfo
from fl_tensor.roles import Ops, Shape

__all__ = ["truncated_normal"]

#: Words of the stream that one element takes; half precision is drawn in float32 and rounded.
TRUNCATED_WORDS = {dtypes.float16: 1, dtypes.bfloat16: 1, dtypes.float32: 1, dtypes.float64: 2}


def _below(x: float) -> float:
    # The share of the normal distribution below x, without cancellation in the lower tail.
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _shares(
    ops: Ops, seed: int, offset: int, shape: Shape, dtype: DType, device: Device
) -> tuple[Any, Any]:
    """(k + 1/2) / 2^b and its complement to 1, each exact near 0: b is 31 in float32, 53 in
    float64."""
    if dtype is dtypes.float32:
        bits = word_bits(ops, ops.random_bits(seed, offset, shape, device), 31)
        rest = ops.bitwise_xor(bits, ops.constant(2**31 - 1, bits))
        whole, left, scale = ops.cast(bits, dtype), ops.cast(rest, dtype), 2.0**-31
    else:
        words = ops.random_bits(seed, offset, (*shape, 2), device)
        first, second = (ops.reshape(w, shape) for w in ops.split(words, (1, 1), len(shape)))
        high = ops.cast(word_bits(ops, first, 27), dtype)
        low = ops.cast(word_bits(ops, second, 26), dtype)
        whole = ops.add(ops.multiply(high, ops.constant(2.0**26, high)), low)
        left, scale = ops.subtract(ops.constant(2.0**53 - 1, whole), whole), 2.0**-53
    half = ops.constant(0.5, whole)
    share, rest = (
        ops.multiply(ops.add(part, half), ops.constant(scale, part)) for part in (whole, left)
    )
    return share, rest


def truncated_normal(
    ops: Ops,
    seed: int,
    offset: int,
    shape: Shape,
    low: float = -2.0,
    high: float = 2.0,
    dtype: DType = dtypes.DEFAULT_FLOAT,
    device: Device = CPU,
) -> Any:
    """Standard normal numbers given that they lie in [low, high], by inversion: one word per
    element in float32, two in float64, the algorithm AS 241 of Wichura (1988) from the nearer tail.
    The distribution function is met to a few units in the last place, in both tails; within an
    interval much narrower than 1 the numbers are as coarse as that. Raises ArgumentError for an
    interval so far out that its probability is no normal number of the dtype."""
    if dtype not in TRUNCATED_WORDS:
        raise DTypeError(
            f"[truncated_normal] dtype {dtype}: expected a floating dtype; draw one and cast"
        )
    single = dtype if dtype is dtypes.float64 else dtypes.float32
    under, over = _below(low), _below(-high)
    mass = _below(-low) - over if low > 0 else _below(high) - under
    if not mass > 2.0**32 * finfo(single).smallest_normal:
        raise ArgumentError(
            f"[truncated_normal] between {low} and {high} standard deviations: expected an "
            f"interval low < high with a probability that {single} can hold"
        )
    share, rest = _shares(ops, seed, offset, shape, single, device)
    p = ops.add(ops.multiply(share, ops.constant(mass, share)), ops.constant(under, share))
    q = ops.add(ops.multiply(rest, ops.constant(mass, rest)), ops.constant(over, rest))
    half = ops.constant(0.5, p)
    nearer = ops.minimum(ops.minimum(p, q), half)
    x = lower_quantile(ops, nearer, ops.subtract(nearer, half))
    x = ops.where(ops.less(q, p), ops.negative(x), x)
    x = x if dtype is single else ops.cast(x, dtype)
    return ops.clip(x, ops.constant(low, x), ops.constant(high, x))
