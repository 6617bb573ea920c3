"""Fused rules of means, variances, norms and normalisation.

They save less, or are more accurate at special points, than their compositions. ``fused.py`` has
others of that kind.
"""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.complex_parts import absolute, times_conjugate
from fl_autograd.rules.reductions import kept
from fl_autograd.rules.table import rule
from fl_tensor import dtypes
from fl_tensor.composition import traced_once

Shape = tuple[int, ...]


@traced_once
def _var(ops: Any, g: Any, x: Any, axis: Shape, keepdims: bool, correction: float) -> Any:
    freedom = max(math.prod(x.shape[a] for a in axis) - correction, 0.0)
    share = ops.divide(kept(ops, g, x.shape, axis, keepdims), ops.constant(freedom / 2.0, g))
    return times_conjugate(ops, share, ops.subtract(x, ops.mean(x, axis, True)))


@traced_once
def _std(ops: Any, g: Any, out: Any, x: Any, axis: Shape, keepdims: bool, correction: float) -> Any:
    # 0 where all elements are equal.
    freedom = max(math.prod(x.shape[a] for a in axis) - correction, 0.0)
    g, out = (kept(ops, v, x.shape, axis, keepdims) for v in (g, out))
    zero = ops.constant(0.0, out)
    flat = ops.equal(out, zero)
    total = ops.multiply(ops.where(flat, ops.constant(1.0, out), out), ops.constant(freedom, out))
    share = ops.where(flat, zero, ops.divide(g, total))
    return times_conjugate(ops, share, ops.subtract(x, ops.mean(x, axis, True)))


def _norm(ops: Any, g: Any, out: Any, x: Any, axis: Shape, keepdims: bool, ord: float) -> Any:
    if x.dtype.kind == "c":
        return absolute(ops, _norm(ops, g, out, ops.absolute(x), axis, keepdims, ord), x)
    g, out = (kept(ops, v, x.shape, axis, keepdims) for v in (g, out))
    if ord == 0:
        return ops.full(x.shape, 0, g.dtype, g.device)
    if ord == 1:
        return ops.multiply(g, ops.sign(x))
    if math.isinf(ord):
        hit = ops.cast(ops.equal(ops.absolute(x), out), g.dtype)
        share = ops.divide(g, ops.sum(hit, axis, True))
        return ops.multiply(ops.multiply(hit, ops.sign(x)), share)
    # (|x| / out)^(ord - 1) sign(x), and 0 where all of x is 0.
    zero, one = ops.constant(0.0, x), ops.constant(1.0, x)
    ratio = ops.divide(x, ops.where(ops.equal(out, zero), one, out))
    if ord == 2:
        return ops.multiply(g, ratio)
    flat = ops.equal(x, zero)
    magnitude = ops.absolute(ops.where(flat, one, ratio))
    slope = ops.multiply(ops.power(magnitude, ops.constant(ord - 1.0, x)), ops.sign(x))
    return ops.multiply(g, ops.where(flat, zero, slope))


@traced_once
def _mean(ops: Any, g: Any, x_shape: Shape, axis: Shape, keepdims: bool) -> Any:
    count = float(math.prod(x_shape[a] for a in axis))
    share = ops.divide(g, ops.constant(count, g))
    return ops.broadcast_to(kept(ops, share, x_shape, axis, keepdims), x_shape)


@traced_once
def _batch_norm(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any,
    axis: int,
    eps: float,
) -> tuple[Any, ...]:
    # Of all but x by two sums over the samples: of g, and of g (x - mean).
    given = x.dtype
    if given in dtypes.HALF:
        g, x, mean, variance, weight = (
            v if v is None else ops.cast(v, dtypes.float32) for v in (g, x, mean, variance, weight)
        )
    others = tuple(i for i in range(len(x.shape)) if i != axis)
    along = tuple(n if i == axis else 1 for i, n in enumerate(x.shape))
    scale = ops.rsqrt(ops.add(variance, ops.constant(eps, x)))
    factor = scale if weight is None else ops.multiply(scale, weight)
    made: list[Any] = [None] * 5
    if needs[0]:
        made[0] = ops.multiply(g, ops.reshape(factor, along))
    if needs[1] or needs[4]:
        total = ops.sum(g, others, False)
        made[1] = ops.negative(ops.multiply(total, factor)) if needs[1] else None
        made[4] = total if needs[4] else None
    if needs[2] or needs[3]:
        centred = ops.subtract(x, ops.reshape(mean, along))
        moved = ops.multiply(ops.sum(ops.multiply(g, centred), others, False), scale)
        made[3] = moved if needs[3] else None
        if needs[2]:
            slope = ops.multiply(ops.multiply(scale, factor), ops.constant(-0.5, x))
            made[2] = ops.multiply(moved, slope)
    if given in dtypes.HALF:
        made = [v if v is None else ops.cast(v, given) for v in made]
    return tuple(made)


def _batch_norm_training(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    x: Any,
    weight: Any,
    result_1: Any,
    result_2: Any,
    axis: int,
    eps: float,
    result: int,
) -> tuple[Any, ...]:
    # One operation, which a backend may have a kernel for, where the composition has three nodes.
    others = tuple(i for i in range(len(x.shape)) if i != axis)
    if result == 1:
        return _mean(ops, g, x.shape, others, False), None, None
    if result == 2:
        return _var(ops, g, x, others, False, 0.0), None, None
    if needs[0]:
        return ops.batch_norm_gradient(g, x, result_1, result_2, weight, axis, eps)
    needs = (False, False, False, needs[1], needs[2])
    return _batch_norm(ops, g, needs, x, result_1, result_2, weight, axis, eps)[2:]


@traced_once
def _layer_norm(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    x: Any,
    weight: Any,
    axis: Shape,
    eps: float,
) -> tuple[Any, ...]:
    # The statistics are computed again: keeping them would keep two more arrays per layer.
    rank, axis = len(x.shape), tuple(sorted(axis))
    others = tuple(i for i in range(rank) if i not in axis)
    size = tuple(x.shape[a] for a in axis)
    centred = ops.subtract(x, ops.mean(x, axis, True))
    variance = ops.mean(ops.square(centred), axis, True)
    scale = ops.rsqrt(ops.add(variance, ops.constant(eps, x)))
    unit = ops.multiply(centred, scale)
    to_x = to_weight = to_bias = None
    if needs[2]:
        to_bias = ops.reshape(ops.sum(g, others, False), size)
    if needs[1]:
        to_weight = ops.reshape(ops.sum(ops.multiply(g, unit), others, False), size)
    if needs[0]:
        if weight is not None:
            g = ops.multiply(
                g, ops.reshape(weight, tuple(n if i in axis else 1 for i, n in enumerate(x.shape)))
            )
        along = ops.multiply(unit, ops.mean(ops.multiply(g, unit), axis, True))
        to_x = ops.multiply(ops.subtract(ops.subtract(g, ops.mean(g, axis, True)), along), scale)
    return to_x, to_weight, to_bias


rule("mean", x=_mean)
rule("var", x=_var)
rule("std", x=_std)
rule("norm", x=_norm)
rule("batch_norm", joint=_batch_norm, operands=("x", "mean", "variance", "weight", "bias"))
rule("batch_norm_training", joint=_batch_norm_training, operands=("x", "weight", "bias"))
rule("layer_norm", joint=_layer_norm, operands=("x", "weight", "bias"))
