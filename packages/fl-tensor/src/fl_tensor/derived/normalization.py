"""Layer and batch normalisation, with computed or given statistics."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor.composition import cached_composition
from fl_tensor.derived.moments import squared_deviations
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ShapeError
from fl_tensor.roles import Axes, Axis, Ops, S, Shape

__all__ = ["batch_norm", "batch_norm_gradient", "batch_norm_training", "layer_norm"]

SINCE = {"batch_norm_gradient": "1.1", "batch_norm_training": "1.1"}


def _aligned(ops: Ops, name: str, op: str, value: Any, x: Any, axes: Axes) -> Any:
    # A parameter over ``axes`` of x, reshaped so that it broadcasts against x.
    wanted: Shape = tuple(x.shape[a] for a in axes)
    if tuple(value.shape) != wanted:
        raise ShapeError(f"[{op}] {name} {value.shape}: x {x.shape} needs {wanted} for axes {axes}")
    shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return ops.reshape(value, shape)


@cached_composition
@in_float32
def layer_norm(
    ops: Ops,
    x: S,
    weight: S | None = None,
    bias: S | None = None,
    axis: Axes = (-1,),
    eps: float = 1e-5,
) -> Any:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with mean and biased variance over ``axis``;
    weight and bias have the sizes of those axes, in increasing order. Ba et al., 2016."""
    axis = tuple(sorted(axis))
    centred = ops.subtract(x, ops.mean(x, axis, True))
    variance = ops.mean(ops.multiply(centred, centred), axis, True)
    y = ops.multiply(centred, ops.rsqrt(ops.add(variance, ops.constant(eps, x))))
    if weight is not None:
        y = ops.multiply(y, _aligned(ops, "weight", "layer_norm", weight, x, axis))
    if bias is not None:
        y = ops.add(y, _aligned(ops, "bias", "layer_norm", bias, x, axis))
    return y


@cached_composition
@in_float32
def batch_norm(
    ops: Ops,
    x: S,
    mean: S,
    variance: S,
    weight: S | None = None,
    bias: S | None = None,
    axis: Axis = 1,
    eps: float = 1e-5,
) -> Any:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``; all parameters have the size of
    ``axis``. Ioffe & Szegedy, 2015."""
    axes = (axis,)
    variance = _aligned(ops, "variance", "batch_norm", variance, x, axes)
    scale = ops.rsqrt(ops.add(variance, ops.constant(eps, x)))
    if weight is not None:
        scale = ops.multiply(scale, _aligned(ops, "weight", "batch_norm", weight, x, axes))
    centred = ops.subtract(x, _aligned(ops, "mean", "batch_norm", mean, x, axes))
    y = ops.multiply(centred, scale)
    if bias is not None:
        y = ops.add(y, _aligned(ops, "bias", "batch_norm", bias, x, axes))
    return y


@cached_composition
@in_float32
def batch_norm_training(
    ops: Ops,
    x: S,
    weight: S | None = None,
    bias: S | None = None,
    axis: Axis = 1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    """``batch_norm`` of ``x`` by its own statistics, and these: the mean and the biased variance
    over all axes but ``axis``."""
    others, size = tuple(i for i in range(len(x.shape)) if i != axis), (x.shape[axis],)
    mean = ops.mean(x, others, True)
    centred = ops.subtract(x, mean)
    count = float(math.prod([x.shape[i] for i in others]))
    total = squared_deviations(ops, centred, count, others, True)
    variance = ops.divide(total, ops.constant(count, total))
    scale = ops.rsqrt(ops.add(variance, ops.constant(eps, x)))
    if weight is not None:
        weight = _aligned(ops, "weight", "batch_norm_training", weight, x, (axis,))
        scale = ops.multiply(scale, weight)
    y = ops.multiply(centred, scale)
    if bias is not None:
        y = ops.add(y, _aligned(ops, "bias", "batch_norm_training", bias, x, (axis,)))
    return y, ops.reshape(mean, size), ops.reshape(variance, size)


@cached_composition
@in_float32
def batch_norm_gradient(
    ops: Ops,
    gradient: S,
    x: S,
    mean: S,
    variance: S,
    weight: S | None = None,
    axis: Axis = 1,
    eps: float = 1e-5,
) -> tuple[Any, Any, Any]:
    """The gradients of ``x``, weight and bias, ``gradient`` being that of what
    ``batch_norm_training`` makes of them; ``mean`` and ``variance`` are the statistics that it
    gave. Raises ShapeError where ``gradient`` is not shaped as ``x``."""
    if tuple(gradient.shape) != tuple(x.shape):
        raise ShapeError(f"[batch_norm_gradient] gradient {gradient.shape}: x is {x.shape}")

    def along(name: str, value: Any) -> Any:
        return _aligned(ops, name, "batch_norm_gradient", value, x, (axis,))

    others = tuple(i for i in range(len(x.shape)) if i != axis)
    centred = ops.subtract(x, along("mean", mean))
    scale = ops.rsqrt(ops.add(along("variance", variance), ops.constant(eps, x)))
    to_bias = ops.sum(gradient, others, True)
    to_weight = ops.multiply(ops.sum(ops.multiply(gradient, centred), others, True), scale)
    # What a change of x does to the statistics takes out of the gradient its mean, and what of it
    # goes along with x.
    count = ops.constant(float(math.prod(x.shape[i] for i in others)), x)
    factor = scale if weight is None else ops.multiply(scale, along("weight", weight))
    slope = ops.divide(ops.multiply(to_weight, scale), count)
    rest = ops.subtract(gradient, ops.divide(to_bias, count))
    rest = ops.subtract(rest, ops.multiply(centred, slope))
    size = (x.shape[axis],)
    return ops.multiply(rest, factor), ops.reshape(to_weight, size), ops.reshape(to_bias, size)
