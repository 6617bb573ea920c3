"""The inverse of the normal distribution function, and of the error function."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.derived.precision import in_float32
from fl_tensor.roles import Ops, S

__all__ = ["erfinv"]

SINCE = {"erfinv": "1.1"}

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


def lower_quantile(ops: Ops, p: Any, centred: Any) -> Any:
    """The standard normal number with a share of ``p`` below it, for 0 < p <= 1/2; ``centred`` is
    p - 1/2."""
    squared = ops.multiply(centred, centred)
    middle = _ratio(ops, _MIDDLE, ops.subtract(ops.constant(0.180625, p), squared))
    depth = ops.sqrt(ops.negative(ops.log(p)))
    flank = _ratio(ops, _FLANK, ops.subtract(depth, ops.constant(1.6, p)))
    tail = _ratio(ops, _TAIL, ops.subtract(depth, ops.constant(5.0, p)))
    outside = ops.where(ops.less(ops.constant(5.0, p), depth), tail, flank)
    near = ops.less(ops.constant(0.075, p), p)
    return ops.where(near, ops.multiply(centred, middle), ops.negative(outside))


@in_float32
def erfinv(ops: Ops, x: S) -> Any:
    """The y with ``erf(y) = x``: infinite at -1 and 1, NaN outside [-1, 1]. By the algorithm AS 241
    of Wichura (1988); the relative error is below 4 epsilons."""
    half, one = ops.constant(0.5, x), ops.constant(1.0, x)
    size = ops.absolute(x)
    centred = ops.multiply(size, ops.constant(-0.5, x))
    below = ops.multiply(ops.subtract(one, size), half)
    found = ops.multiply(lower_quantile(ops, below, centred), ops.constant(-math.sqrt(0.5), x))
    found = ops.where(ops.equal(size, one), ops.constant(math.inf, x), found)
    return ops.where(ops.less(x, ops.constant(0.0, x)), ops.negative(found), found)
