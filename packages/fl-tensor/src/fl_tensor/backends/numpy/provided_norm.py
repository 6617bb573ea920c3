"""Batch normalisation by a provider, and its gradients, where there is one and the work is worth a
call. Each function gives None where NumPy should do it.

A provider is asked for rows of channels where these are neighbours in memory, else for (batch,
channels, places); results lie in memory as x does.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_tensor import threads
from fl_tensor.backends.numpy import memory, provided
from fl_tensor.backends.providers import choose
from fl_tensor.backends.providers.problems import BatchNorm, BatchNormGradient
from fl_tensor.backends.providers.provider import Provider

Array: TypeAlias = np.ndarray[Any, Any]

#: Elements up to which batch normalisation is NumPy's.
LEAST = 1 << 12
#: Values of a channel up to which a provider computes their mean and variance.
MOST_SUMMED = 1 << 14
_FLOAT32 = np.dtype(np.float32)


class _Asked(NamedTuple):
    # Who is asked, and how arrays laid as x are handed over: their axes in the order of memory, and
    # some of these as one.
    provider: Provider
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def is_numpys(self) -> bool:
        # In one thread it normalises as fast where channels lie apart.
        one = threads.get_num_threads() == 1 and not choose.is_for_everything()
        return one and len(self.shape) == 3

    def handed(self, a: Array) -> Array:
        return a.transpose(self.order).reshape(self.shape)


def batch_norm(
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array | None,
    bias: Array | None,
    axis: int,
    eps: float,
) -> Array | None:
    """x normalised along ``axis`` by these statistics."""
    asked = _asked(x, axis, mean, variance, weight, bias)
    if asked is None or asked.is_numpys():
        return None
    out = provided.empty(x.shape, x.dtype, asked.order)
    beside = _or(weight, 1, x, axis), _or(bias, 0, x, axis), mean, variance
    return out if _normalised(asked, x, beside, out, eps, training=False) else None


def batch_norm_training(
    x: Array, weight: Array | None, bias: Array | None, axis: int, eps: float
) -> tuple[Array, Array, Array] | None:
    """x normalised along ``axis`` by its own statistics, and these."""
    asked = _asked(x, axis, weight, bias)
    if asked is None or asked.is_numpys():
        return None
    if x.size > MOST_SUMMED * x.shape[axis] and not choose.is_for_everything():
        return None  # a provider may add them up one after the other
    out = provided.empty(x.shape, x.dtype, asked.order)
    mean, variance = (memory.empty((x.shape[axis],), _FLOAT32) for _ in range(2))
    beside = _or(weight, 1, x, axis), _or(bias, 0, x, axis), mean, variance
    if not _normalised(asked, x, beside, out, eps, training=True):
        return None
    return out, mean, variance


def batch_norm_gradient(
    gradient: Array,
    x: Array,
    mean: Array,
    variance: Array,
    weight: Array | None,
    axis: int,
    eps: float,
) -> tuple[Array, Array, Array] | None:
    """The gradients of x, weight and bias of ``batch_norm_training``."""
    asked = _asked(x, axis, mean, variance, weight)
    if asked is None or gradient.dtype != _FLOAT32 or gradient.shape != x.shape:
        return None
    gradient = provided.laid(gradient, asked.order)
    out = provided.empty(x.shape, x.dtype, asked.order)
    to_weight, to_bias = (memory.empty((x.shape[axis],), _FLOAT32) for _ in range(2))
    given, slope, made = map(asked.handed, (x, gradient, out))
    lying = provided.layout(given), provided.layout(slope), provided.layout(made)
    problem = BatchNormGradient(*lying, eps)
    beside = _or(weight, 1, x, axis), mean, variance, to_weight, to_bias
    if not provided.compute(asked.provider, problem, given, slope, *beside, made):
        return None
    return out, to_weight, to_bias


def _asked(x: Array, axis: int, *beside: Array | None) -> _Asked | None:
    if x.ndim < 2:
        return None
    vectors = [v for v in beside if v is not None]
    provider = provided.float32_provider(x.size, LEAST, x, *vectors)
    channels = x.shape[axis]
    if provider is None or any(v.shape != (channels,) or not v.flags.c_contiguous for v in vectors):
        return None
    last = tuple([i for i in range(x.ndim) if i != axis] + [axis])
    if x.transpose(last).flags.c_contiguous:
        return _Asked(provider, last, (x.size // channels, channels))
    if x.flags.c_contiguous:
        places = math.prod(x.shape[axis + 1 :])
        shape = x.size // (channels * places), channels, places
        return _Asked(provider, tuple(range(x.ndim)), shape)
    return None


def _or(vector: Array | None, value: int, x: Array, axis: int) -> Array:
    return np.full(x.shape[axis], value, _FLOAT32) if vector is None else vector


def _normalised(
    asked: _Asked, x: Array, beside: tuple[Array, ...], out: Array, eps: float, training: bool
) -> bool:
    given, made = asked.handed(x), asked.handed(out)
    problem = BatchNorm(provided.layout(given), provided.layout(made), eps, training)
    return provided.compute(asked.provider, problem, given, *beside, made)
