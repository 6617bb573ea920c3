"""How much rounding may matter: NumPy's own operations, off by a few units in the last place.

What two runs with different noise agree on bit for bit must be equal bit for bit on every backend;
what noise changes a little may differ a little; what it changes much (the sign of a sum that is
nearly zero, say) cannot be compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_tensor.backends.numpy.adapter import adapt

#: Elementary functions, which may be off by some units in the last place.
ELEMENTARY = (
    "exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh "
    "erf power atan2"
).split()
#: Sums, which may be added in any order: their error grows with the sum of the magnitudes.
SUMS = ("sum", "prod", "matmul", "conv", "avg_pool")
#: What chooses among equal numbers: of 0.0 and -0.0 it may give either.
CHOOSING = ("max", "min", "maximum", "minimum")
#: Units in the last place: of elementary functions, of sums.
ULPS, SUM_ULPS = 6.0, 4.0
#: Terms from which on a sum may be off by more: as the root of their number.
MANY_TERMS = 512


@contextmanager
def noise(seed: int) -> Iterator[None]:
    """Rounding is different in this block; the same ``seed`` gives the same results."""
    count = iter(range(1 << 30))

    # Of what is one way or the other, two seeds choose the opposite of each other: one of them is
    # not what NumPy chose.
    def rng(name: str, seed: int = seed) -> np.random.Generator:
        return np.random.default_rng([seed, next(count), zlib.crc32(name.encode())])

    def elementary(name: str) -> Any:
        def operation(inner: Any, *operands: Any) -> Any:
            made = getattr(inner, name)(*operands)
            return _off(made, _floats(made), ULPS, rng(name))

        return operation

    def total(name: str) -> Any:
        def operation(inner: Any, x: Any, *rest: Any) -> Any:
            made = getattr(inner, name)(x, *rest)
            if not made.dtype.is_floating or not made.array.size:
                return made
            magnitude = inner.absolute(x)
            if name in ("matmul", "conv"):
                rest = (inner.absolute(rest[0]), *rest[1:])
            scale = _floats(getattr(inner, name)(magnitude, *rest))
            if name != "prod":
                ulps = SUM_ULPS * (_growth(x, made) if name == "sum" else 1.0)
                off = _off(made, scale, ulps, rng(name))
                return _cancelled(off, scale, rng(name, seed // 2), seed % 2 == 1)
            least = _underflow(inner, made, magnitude, *rest)
            return _overflowed(x, _off(made, scale, SUM_ULPS, rng(name), least), *rest)

        return operation

    def choosing(name: str) -> Any:
        def operation(inner: Any, x: Any, *rest: Any) -> Any:
            made = getattr(inner, name)(x, *rest)
            others = [r for r in rest if hasattr(r, "array")]
            return _either_zero(made, [x, *others], rng(name, seed // 2), seed % 2 == 1)

        return operation

    replaced = {name: elementary(name) for name in ELEMENTARY}
    replaced |= {name: total(name) for name in SUMS}

    def cast(inner: Any, x: Any, dtype: Any) -> Any:
        if (x.dtype, dtype) == (ft.float64, ft.bfloat16):  # rounded once, or in float32 before
            x = _off(x, _floats(x), 2.0**28, rng("cast"))
        return inner.cast(x, dtype)

    replaced["cast"] = cast
    replaced |= {name: choosing(name) for name in CHOOSING}
    with ft.override(**replaced):
        yield


def _floats(x: Any) -> Any:
    return np.asarray(x.array, np.complex128 if x.dtype.kind == "c" else np.float64)


def _growth(x: Any, made: Any) -> float:
    # By how much more a sum may be off, as it has many terms.
    return max((x.array.size / made.array.size / MANY_TERMS) ** 0.5, 1.0)


def _underflow(
    inner: Any, made: Any, magnitude: Any, axis: tuple[int, ...], keepdims: bool = False
) -> Any:
    # What a product may be off by where a part of it is subnormal: that was rounded to a multiple
    # of the smallest number, and then multiplied by what is left.
    if made.dtype.itemsize == 2:  # computed in float32
        return 0.0
    limits = np.finfo(made.array.dtype)
    one = adapt(np.ones((), magnitude.array.dtype), magnitude.dtype)
    smallest = _floats(inner.prod(inner.minimum(magnitude, one), axis, keepdims))
    others = _floats(inner.prod(inner.maximum(magnitude, one), axis, keepdims))
    exact = _is_zero(_floats(magnitude), axis, keepdims, np.log2(limits.smallest_subnormal))
    reached = (smallest < limits.smallest_normal) & ~exact & np.isfinite(others)
    return np.where(reached, others, 0.0) * limits.smallest_subnormal


def _is_zero(magnitude: Any, axis: tuple[int, ...], keepdims: bool, smallest: float) -> Any:
    # Whether a product is 0 in any order: a factor is, or none is above 1 and the product so far
    # below the smallest number that rounding up, which at most doubles it each time, is no help.
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log2(magnitude).sum(axis=axis, keepdims=keepdims)
    factors = magnitude.size // max(logarithm.size, 1)
    largest = magnitude.max(axis=axis, keepdims=keepdims, initial=0.0)
    least = magnitude.min(axis=axis, keepdims=keepdims, initial=1.0)
    return (least == 0) | (largest <= 1) & (logarithm + factors - 1 < smallest)


def _overflowed(x: Any, made: Any, axis: tuple[int, ...], keepdims: bool = False) -> Any:
    # Whether a product overflows before it meets what is small, or 0, depends on the order: what
    # came of it is made something else, so that it is not compared.
    factors = np.abs(_floats(x))
    factors = np.where(np.isinf(factors), 1.0, factors)
    limit = np.finfo(np.float32 if made.dtype.itemsize == 2 else made.array.dtype).max
    with np.errstate(all="ignore"):
        grown = np.maximum(factors, 1.0).prod(axis=axis, keepdims=keepdims) > limit
    small = factors.min(axis=axis, keepdims=keepdims, initial=1.0) < 1.0
    array = np.asarray(made.array)
    other = np.where(np.isfinite(array), np.nan, 0).astype(array.dtype)
    return adapt(np.where(grown & small, other, array), made.dtype)


def _off(made: Any, scale: Any, ulps: float, rng: np.random.Generator, least: Any = 0.0) -> Any:
    # Half precision is rounded from float32: a neighbour is all that another rounding gives.
    if made.dtype.kind not in "fc":
        return made
    if made.dtype.itemsize == 2:
        ulps = 1.0
    eps = float(ft.finfo(made.dtype).eps)
    shape = np.shape(made.array)
    with np.errstate(all="ignore"):
        size = rng.uniform(0.5, 1.0, shape) * rng.choice([-1.0, 1.0], shape)
        off = _floats(made) + size * (eps * ulps * np.abs(scale) + least)
        kept = np.where(np.isfinite(off), off, _floats(made)).astype(np.asarray(made.array).dtype)
    return adapt(kept, made.dtype)


def _cancelled(made: Any, scale: Any, rng: np.random.Generator, opposite: bool) -> Any:
    # A sum that may be nothing but rounding is exactly 0 in some orders.
    array = np.asarray(made.array)
    error = float(ft.finfo(made.dtype).eps) * SUM_ULPS * np.abs(scale)
    none = (np.abs(_floats(made)) <= 2 * error) & ((rng.random(array.shape) < 0.5) ^ opposite)
    return adapt(np.where(none, 0, array).astype(array.dtype), made.dtype)


def _either_zero(made: Any, operands: list[Any], rng: np.random.Generator, opposite: bool) -> Any:
    if made.dtype.kind != "f":
        return made
    zeros = [np.signbit(x.array)[x.array == 0] for x in operands]
    if len({bool(sign) for found in zeros for sign in np.ravel(found)}) < 2:
        return made
    array = np.asarray(made.array)
    negative = (rng.random(array.shape) < 0.5) ^ opposite
    signed = np.where(negative, -0.0, 0.0).astype(array.dtype)
    return adapt(np.where(array == 0, signed, array), made.dtype)
