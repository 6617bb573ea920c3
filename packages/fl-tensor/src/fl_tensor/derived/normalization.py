"""Normalisation by statistics that are computed here (layer) or given (batch)."""

from __future__ import annotations

from typing import Any

from fl_tensor.composition import traced_once
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ShapeError
from fl_tensor.roles import Axes, Axis, Ops, S, Shape

__all__ = ["batch_norm", "layer_norm"]


def _aligned(ops: Ops, name: str, op: str, value: Any, x: Any, axes: Axes) -> Any:
    # A parameter over ``axes`` of x, reshaped so that it broadcasts against x.
    wanted: Shape = tuple(x.shape[a] for a in axes)
    if tuple(value.shape) != wanted:
        raise ShapeError(f"[{op}] {name} {value.shape}: x {x.shape} needs {wanted} for axes {axes}")
    shape = tuple(n if i in axes else 1 for i, n in enumerate(x.shape))
    return ops.reshape(value, shape)


@traced_once
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


@traced_once
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
