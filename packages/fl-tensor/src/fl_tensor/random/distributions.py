"""Distributions that are made of uniform numbers and random words: the other half of Generator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fl_tensor import dtypes, functions, rules
from fl_tensor.arguments import shape_of
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.derived.sampling import UNIFORM_WORDS
from fl_tensor.dispatch.frontend import ArrayLike, cast
from fl_tensor.dispatch.registry import BackendLike
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.functions.creation import DeviceLike, DTypeLike, asarray, place_for
from fl_tensor.functions.elementwise import where
from fl_tensor.random.rejection import until_accepted

if TYPE_CHECKING:
    from fl_tensor.random.generator import Generator, Size

#: Below this rate a Poisson number is found by search, from it on by rejection.
_SEARCHED = 10.0
_HIGHEST_RATE = 1e9


def exponential(
    generator: Generator,
    scale: ArrayLike,
    shape: Size | None,
    dtype: DTypeLike,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Any:
    """``Generator.exponential``."""
    kind = dtypes.default_float() if dtype is None else dtypes.dtype(dtype)
    if isinstance(scale, Array):
        device, backend = scale.device, scale._backend
        shape = scale.shape if shape is None else shape
        kind = scale.dtype if dtype is None and scale.dtype.is_floating else kind
    if not kind.is_floating:
        raise DTypeError(f"[exponential] dtype {kind}: expected a floating dtype")
    size = () if shape is None else shape_of("exponential", shape)
    x = standard_exponential(generator, size, kind, device, backend)
    return x if isinstance(scale, float) and scale == 1.0 else x * scale


def standard_exponential(
    generator: Generator,
    shape: Size,
    dtype: DType,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Tensor:
    """Exponential numbers with mean 1: ``-log(u)``, from whichever end of [0, 1] is nearer to u."""
    share, rest = _shares(generator, shape, dtype, device, backend)
    near = share < 0.5
    low = -functions.log1p(-where(near, share, 0.5))
    return cast(where(near, low, -functions.log(rest)), dtype)


def _shares(
    generator: Generator, shape: Size, dtype: DType, device: DeviceLike, backend: BackendLike | None
) -> tuple[Tensor, Tensor]:
    # (k + 1/2) / 2^b and its complement to 1, each exact near 0.
    if dtype is dtypes.float64:
        keys, bits, kind = (
            generator._keys(shape_of("exponential", shape), device, backend),
            62,
            dtype,
        )
    else:
        words = generator._words(shape, device, backend)
        keys, bits, kind = functions.bitwise_and(words, 0x7FFFFFFF), 31, dtypes.float32
    others = functions.bitwise_xor(keys, (1 << bits) - 1)
    share, rest = ((cast(k, kind) + 0.5) * 2.0**-bits for k in (keys, others))
    return share, rest


def poisson(generator: Generator, rate: Tensor) -> Tensor:
    """Poisson numbers, one for each of ``rate``: by search for rates below 10, by the algorithm
    PTRS of Hörmann (1993) from there on."""
    low, high = _range("poisson", rate, "rate", 0.0, _HIGHEST_RATE)

    def propose(stream: Generator) -> tuple[Any, Any]:
        u = _uniform(stream, rate, 2)
        if high < _SEARCHED:
            return _searched(rate, u[..., 0], high), rate >= 0.0
        values, accepted = _transformed(functions.maximum(rate, _SEARCHED), u[..., 0], u[..., 1])
        if low < _SEARCHED:
            few = rate < _SEARCHED
            found = _searched(functions.minimum(rate, _SEARCHED), u[..., 0], _SEARCHED)
            values = where(few, found, values)
            accepted = functions.logical_or(few, accepted)
        return values, accepted

    found: Tensor = until_accepted(generator, _words(rate, 2), propose)
    return found


def _searched(rate: Tensor, u: Tensor, high: float) -> Any:
    # The number of running sums of the probabilities that are not above u.
    term = functions.exp(-rate)
    total, found = term, cast(u >= term, rate.dtype)
    for k in range(1, int(high + 12.0 * math.sqrt(high)) + 14):
        term = term * (rate * (1.0 / k))
        total = total + term
        found = found + cast(u >= total, rate.dtype)
    return found


def _transformed(rate: Tensor, u: Tensor, v: Tensor) -> tuple[Any, Any]:
    b = 0.931 + 2.53 * functions.sqrt(rate)
    a = -0.059 + 0.02483 * b
    u = u - 0.5
    edge = 0.5 - functions.absolute(u)
    k = functions.floor((2.0 * a / edge + b) * u + rate + 0.43)
    quick = functions.logical_and(edge >= 0.07, v <= 0.9277 - 3.6224 / (b - 2.0))
    outside = functions.logical_or(k < 0.0, functions.logical_and(edge < 0.013, v > edge))
    k = where(outside, 0.0, k)
    ratio = functions.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (edge * edge) + b))
    fits = ratio <= k * functions.log(rate) - rate - functions.lgamma(k + 1.0)
    slow = functions.logical_and(functions.logical_not(outside), fits)
    return k, functions.logical_or(quick, slow)


def log_gamma(generator: Generator, concentration: Tensor) -> tuple[Any, Any]:
    """Two logarithms whose sum is that of a gamma number, one for each of ``concentration``: the
    algorithm of Marsaglia and Tsang (2000), and their factor for those below 1."""
    _range("gamma", concentration, "concentration", 0.0, math.inf, open_below=True)
    few = concentration < 1.0
    d = where(few, concentration + 1.0, concentration) - 1.0 / 3.0
    c = 1.0 / functions.sqrt(9.0 * d)
    first: list[Any] = []

    def propose(stream: Generator) -> tuple[Any, Any]:
        u = 1.0 - _uniform(stream, concentration, 4)
        first.append(u[..., 3])
        angle = functions.cos(2.0 * math.pi * u[..., 1])
        x = functions.sqrt(-2.0 * functions.log(u[..., 0])) * angle
        root = 1.0 + c * x
        positive = root > 0.0
        log_v = 3.0 * functions.log(where(positive, root, 1.0))
        bound = 0.5 * x * x + d - d * functions.exp(log_v) + d * log_v
        accepted = functions.logical_and(positive, functions.log(u[..., 2]) < bound)
        return functions.log(d) + log_v, accepted

    found = until_accepted(generator, _words(concentration, 4), propose)
    return found, where(few, functions.log(first[0]) / where(few, concentration, 1.0), 0.0)


def parameter(
    op: str,
    value: ArrayLike,
    shape: Size | None,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Tensor:
    """A parameter of a distribution, one number or an array, in every place of ``shape`` (None: its
    own shape): without a gradient, in float64 where the backend has it."""
    if isinstance(value, Array):
        given = value._tensor()
    else:
        backend, _ = place_for(device, backend)
        given = asarray(value, device=device, backend=backend)
    if given.dtype.kind not in "iuf":
        raise DTypeError(f"[{op}] parameters are {given.dtype}: expected real numbers")
    wide = dtypes.float64 if dtypes.float64 in given._backend.dtypes else dtypes.float32
    given = cast(given, wide)
    if shape is None:
        return given
    size = shape_of(op, shape)
    if rules.broadcast(op, given.shape, size) != size:
        rules.fail(op, parameter=given.shape, shape=size, why="the parameter must fit the shape")
    return functions.broadcast_to(given, size)


def _uniform(stream: Generator, like: Tensor, count: int) -> Tensor:
    return stream.uniform(
        (*like.shape, count), dtype=like.dtype, device=like.device, backend=like._backend
    )


def _words(like: Tensor, count: int) -> int:
    return like.size * count * UNIFORM_WORDS[like.dtype]


def _range(
    op: str, x: Tensor, name: str, low: float, high: float, open_below: bool = False
) -> tuple[float, float]:
    # The smallest and the largest element, which have to be in the range; all of it unseen.
    if not x.size or not x._backend.has_values:
        return low, high
    least, most = float(x.min().item()), float(x.max().item())
    if not (low < least if open_below else low <= least) or not most <= high:
        bound = f"above {low:g}" if open_below else f"from {low:g} to {high:g}"
        wrong = most if low < least else least
        raise ArgumentError(f"[{op}] {name} {wrong:g}: expected numbers {bound}")
    return least, most
