"""The truncated normal distribution, by the inverse distribution function."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.sampling import word_bits
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.limits import finfo
from fl_tensor.roles import Ops, Shape

__all__ = ["truncated_normal"]

#: Words of the stream that one element takes; half precision is drawn in float32 and rounded.
TRUNCATED_WORDS = {dtypes.float16: 1, dtypes.bfloat16: 1, dtypes.float32: 1, dtypes.float64: 2}

# Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988: numerators
# and denominators, highest power first, for the middle, the flanks and the far tails.
_MIDDLE = (
    (
        *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4),
        *(4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3),
        *(1.3314166789178437745e2, 3.3871328727963666080e0),
    ),
    (
        *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4),
        *(2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2),
        *(4.2313330701600911252e1, 1.0),
    ),
)
_FLANK = (
    (
        *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1),
        *(1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0),
        *(4.63033784615654529590e0, 1.42343711074968357734e0),
    ),
    (
        *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2),
        *(1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0),
        *(2.05319162663775882187e0, 1.0),
    ),
)
_TAIL = (
    (
        *(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3),
        *(2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0),
        *(5.46378491116411436990e0, 6.65790464350110377720e0),
    ),
    (
        *(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5),
        *(7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1),
        *(5.99832206555887937690e-1, 1.0),
    ),
)


def _ratio(ops: Ops, polynomials: tuple[tuple[float, ...], ...], x: Any) -> Any:
    values = []
    for first, *rest in polynomials:
        value = ops.constant(first, x)
        for coefficient in rest:
            value = ops.add(ops.multiply(value, x), ops.constant(coefficient, x))
        values.append(value)
    return ops.divide(*values)


def _lower_quantile(ops: Ops, p: Any) -> Any:
    """The standard normal number with a share of ``p`` below it, for 0 < p <= 1/2."""
    centred = ops.subtract(p, ops.constant(0.5, p))
    squared = ops.multiply(centred, centred)
    middle = _ratio(ops, _MIDDLE, ops.subtract(ops.constant(0.180625, p), squared))
    depth = ops.sqrt(ops.negative(ops.log(p)))
    flank = _ratio(ops, _FLANK, ops.subtract(depth, ops.constant(1.6, p)))
    tail = _ratio(ops, _TAIL, ops.subtract(depth, ops.constant(5.0, p)))
    outside = ops.where(ops.less(ops.constant(5.0, p), depth), tail, flank)
    near = ops.less(ops.constant(0.075, p), p)
    return ops.where(near, ops.multiply(centred, middle), ops.negative(outside))


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
    x = _lower_quantile(ops, ops.minimum(ops.minimum(p, q), ops.constant(0.5, p)))
    x = ops.where(ops.less(q, p), ops.negative(x), x)
    x = x if dtype is single else ops.cast(x, dtype)
    return ops.clip(x, ops.constant(low, x), ops.constant(high, x))
