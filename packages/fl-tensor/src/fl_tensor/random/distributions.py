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
    from fl_tensor.backend import TensorBackend
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
    (given,), size = parameters("exponential", (scale,), shape, device, backend)
    kind = floating("exponential", dtype)
    if dtype is None and given.dtype.is_floating and not isinstance(scale, (int, float)):
        kind = given.dtype
    x = standard_exponential(generator, size, kind, given.device, given._backend)
    return x * cast(given, kind)


def standard_exponential(
    generator: Generator,
    shape: Size,
    dtype: DType,
    device: DeviceLike,
    backend: BackendLike | None,
) -> Tensor:
    """Exponential numbers with mean 1: ``-log(u)``, from whichever end of [0, 1] is nearer to u."""
    share, rest = _share_and_rest(generator, shape, dtype, device, backend)
    near = share < 0.5
    low = -functions.log1p(-where(near, share, 0.5))
    return cast(where(near, low, -functions.log(rest)), dtype)


def _share_and_rest(
    generator: Generator, shape: Size, dtype: DType, device: DeviceLike, backend: BackendLike | None
) -> tuple[Tensor, Tensor]:
    # (k + 1/2) / 2^b and its complement to 1, each exact near 0, with more bits of float64 than a
    # truncated normal takes: the smallest numbers are 2^-63 here.
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


def poisson(generator: Generator, rate: Tensor, size: tuple[int, ...]) -> Tensor:
    """Poisson numbers, one for each of ``rate`` in every place of ``size``: by search for rates
    below 10, by the algorithm PTRS of Hörmann (1993) from there on."""
    low, high = _range("poisson", rate, "rate", 0.0, _HIGHEST_RATE)
    rate = functions.broadcast_to(rate, size)
    if high < _SEARCHED:
        searched: Tensor = _searched(rate, _uniform(generator, rate, 2)[..., 0], high)
        return searched

    def propose(stream: Generator) -> tuple[Any, Any]:
        u = _uniform(stream, rate, 2)
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


def log_gamma(
    op: str, generator: Generator, concentration: Tensor, size: tuple[int, ...], name: str
) -> tuple[Any, Any]:
    """Two logarithms whose sum is that of a gamma number, one for each of ``concentration`` in
    every place of ``size``: the algorithm of Marsaglia and Tsang (2000), and their factor for those
    below 1. ``name`` is the parameter's in errors of ``op``."""
    _range(op, concentration, name, 0.0, math.inf, open_below=True)
    concentration = functions.broadcast_to(concentration, size)
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


def parameters(
    op: str,
    values: tuple[ArrayLike, ...],
    shape: Size | None,
    device: DeviceLike,
    backend: BackendLike | None,
) -> tuple[list[Any], tuple[int, ...]]:
    """Parameters of a distribution, numbers or arrays, as arrays of one backend, that of the first
    array among them; and ``shape``, to which they broadcast (None: the one that they have
    together)."""
    placed = [v for v in values if isinstance(v, Array)]
    if placed:
        device, backend = placed[0].device, placed[0]._backend
    home, _ = place_for(device, backend)
    given = []
    for value in values:
        # A number is exact before it is rounded to the dtype of what is drawn.
        kind = _widest(home) if isinstance(value, float) else None
        given.append(value if isinstance(value, Array) else asarray(value, kind, device, home))
        if given[-1].dtype.kind not in "iuf":
            raise DTypeError(f"[{op}] parameters are {given[-1].dtype}: expected real numbers")
    size: tuple[int, ...] = ()
    for each in given:
        size = rules.broadcast(op, size, each.shape)
    if shape is None:
        return given, size
    wanted = shape_of(op, shape)
    if rules.broadcast(op, size, wanted) != wanted:
        rules.fail(op, parameters=size, shape=wanted, why="parameters must fit the shape")
    return given, wanted


def wide(parameter: Any) -> Tensor:
    """A parameter without a gradient, in float64 where the backend has it."""
    given = parameter._tensor()
    return cast(given, _widest(given._backend))


def floating(op: str, dtype: DTypeLike) -> DType:
    """``dtype`` or the default float. Raises DTypeError unless it is floating."""
    kind = dtypes.default_float() if dtype is None else dtypes.dtype(dtype)
    if not kind.is_floating:
        raise DTypeError(f"[{op}] dtype {kind}: expected a floating dtype")
    return kind


def _widest(backend: TensorBackend) -> DType:
    return dtypes.float64 if dtypes.float64 in backend.dtypes else dtypes.float32


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
