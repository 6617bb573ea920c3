"""Fused rules of derived operations: less work, less memory, or better results at special points
than the composition. The forward pass runs the backend's own version.
"""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.reductions import kept
from fl_autograd.rules.table import rule
from fl_tensor import dtypes
from fl_tensor.extend import cached_composition

Shape = tuple[int, ...]

# ---- activations: keep one array instead of every intermediate -----------------------------------


def _square(ops: Any, g: Any, x: Any) -> Any:
    return ops.multiply(ops.multiply(g, ops.constant(2.0, g)), x)


@cached_composition
def _sigmoid(ops: Any, g: Any, out: Any) -> Any:
    return ops.multiply(g, ops.multiply(out, ops.subtract(ops.constant(1.0, out), out)))


@cached_composition
def _relu(ops: Any, g: Any, out: Any) -> Any:
    # 0 at x = 0, where the composition would halve a tie.
    return ops.where(ops.less(ops.constant(0.0, out), out), g, ops.constant(0.0, g))


@cached_composition
def _silu(ops: Any, g: Any, x: Any) -> Any:
    s = ops.sigmoid(x)
    one = ops.constant(1.0, x)
    slope = ops.multiply(s, ops.add(one, ops.multiply(x, ops.subtract(one, s))))
    return ops.multiply(g, slope)


@cached_composition
def _gelu(ops: Any, g: Any, x: Any, approximate: str) -> Any:
    def times(a: Any, value: float) -> Any:
        return ops.multiply(a, ops.constant(value, x))

    one = ops.constant(1.0, x)
    if approximate != "tanh":
        weight = times(ops.add(one, ops.erf(times(x, math.sqrt(0.5)))), 0.5)
        density = times(ops.exp(times(ops.multiply(x, x), -0.5)), 1.0 / math.sqrt(2.0 * math.pi))
        return ops.multiply(g, ops.add(weight, ops.multiply(x, density)))
    squared, scale = ops.multiply(x, x), math.sqrt(2.0 / math.pi)
    inner = times(ops.multiply(x, ops.add(one, times(squared, 0.044715))), scale)
    weight = ops.tanh(inner)
    steepness = times(ops.add(one, times(squared, 3.0 * 0.044715)), scale)
    flank = ops.multiply(x, ops.subtract(one, ops.multiply(weight, weight)))
    slope = times(ops.add(ops.add(one, weight), ops.multiply(flank, steepness)), 0.5)
    return ops.multiply(g, slope)


def _hypot(ops: Any, g: Any, out: Any, side: Any) -> Any:
    # side / out, and 0 at the origin.
    flat = ops.equal(out, ops.constant(0.0, out))
    length = ops.where(flat, ops.constant(1.0, out), out)
    return ops.multiply(g, ops.divide(side, length))


def _clip_x(ops: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    # Passes at the bounds too.
    zero = ops.constant(0.0, g)
    if low is not None:
        g = ops.where(ops.less(x, low), zero, g)
    if high is not None:
        g = ops.where(ops.less(high, x), zero, g)
    return g


def _clip_low(ops: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    zero = ops.constant(0.0, g)
    g = ops.where(ops.less(x, low), g, zero)
    return g if high is None else ops.where(ops.less(low, high), g, zero)


def _clip_high(ops: Any, g: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = ops.maximum(x, low)
    return ops.where(ops.less(high, x), g, ops.constant(0.0, g))


rule("square", x=_square)
rule("sigmoid", x=_sigmoid)
rule("relu", x=_relu)
rule("silu", x=_silu)
rule("gelu", x=_gelu)
rule("softplus", x=lambda ops, g, x: ops.multiply(g, ops.sigmoid(x)))
rule(
    "hypot",
    x=lambda ops, g, out, x: _hypot(ops, g, out, x),
    y=lambda ops, g, out, y: _hypot(ops, g, out, y),
)
rule("clip", x=_clip_x, low=_clip_low, high=_clip_high)

# ---- softmax and its kin -------------------------------------------------------------------------


@cached_composition
def _softmax(ops: Any, g: Any, out: Any, axis: int) -> Any:
    inner = ops.sum(ops.multiply(g, out), (axis,), True)
    return ops.multiply(out, ops.subtract(g, inner))


@cached_composition
def _log_softmax(ops: Any, g: Any, out: Any, axis: int) -> Any:
    return ops.subtract(g, ops.multiply(ops.exp(out), ops.sum(g, (axis,), True)))


@cached_composition
def _logsumexp(ops: Any, g: Any, out: Any, x: Any, axis: Shape, keepdims: bool) -> Any:
    total = kept(ops, out, x.shape, axis, keepdims)
    # Rows that are -inf throughout have no weights to hand out.
    finite = ops.where(ops.isfinite(total), total, ops.constant(0.0, total))
    weights = ops.exp(ops.subtract(x, finite))
    return ops.multiply(kept(ops, g, x.shape, axis, keepdims), weights)


@cached_composition
def _logaddexp(ops: Any, g: Any, x: Any, other: Any) -> Any:
    # The share of x. Equal infinities, which have no difference, have half of it each.
    alike = ops.logical_and(ops.equal(x, other), ops.logical_not(ops.isfinite(x)))
    zero = ops.constant(0.0, x)
    gap = ops.subtract(ops.where(alike, zero, x), ops.where(alike, zero, other))
    return ops.multiply(g, ops.sigmoid(gap))


def _cross_entropy(ops: Any, g: Any, targets: Any, log_probs_shape: Shape, axis: int) -> Any:
    rank = len(log_probs_shape)
    classes = ops.arange(0, log_probs_shape[axis], 1, dtypes.int64, g.device)
    classes = ops.reshape(classes, (*(1,) * axis, log_probs_shape[axis], *(1,) * (rank - axis - 1)))
    hit = ops.equal(classes, ops.cast(ops.expand_dims(targets, axis), dtypes.int64))
    loss = ops.expand_dims(ops.negative(g), axis)
    return ops.where(hit, loss, ops.constant(0.0, g))


rule("softmax", x=_softmax)
rule("log_softmax", x=_log_softmax)
rule("logsumexp", x=_logsumexp)
rule(
    "logaddexp",
    x=lambda ops, g, x, y: _logaddexp(ops, g, x, y),
    y=lambda ops, g, x, y: _logaddexp(ops, g, y, x),
)
rule("cross_entropy", log_probs=_cross_entropy)

# ---- products and updates ------------------------------------------------------------------------


def _rows(ops: Any, x: Any) -> Any:
    if len(x.shape) == 2:
        return x
    return ops.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _linear_x(ops: Any, g: Any, x_shape: Shape, weight: Any) -> Any:
    return ops.reshape(ops.matmul(_rows(ops, g), weight), x_shape)


def _linear_weight(ops: Any, g: Any, x: Any) -> Any:
    return ops.matmul(ops.permute(_rows(ops, g), (1, 0)), _rows(ops, x))


def _slice_update_x(ops: Any, g: Any, starts: Shape, steps: Shape, updates_shape: Shape) -> Any:
    zeros = ops.full(updates_shape, 0, g.dtype, g.device)
    return ops.slice_update(g, starts, steps, zeros)


def _slice_update(ops: Any, g: Any, starts: Shape, steps: Shape, updates_shape: Shape) -> Any:
    return ops.slice(g, starts, updates_shape, steps)


rule(
    "linear",
    x=_linear_x,
    weight=_linear_weight,
    bias=lambda ops, g: ops.sum(_rows(ops, g), (0,), False),
)
rule("slice_update", x=_slice_update_x, updates=_slice_update)
