"""Rules of reductions and scans."""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.table import rule

Shape = tuple[int, ...]


def kept(ops: Any, g: Any, shape: Shape, axis: Shape, keepdims: bool) -> Any:
    """``g``, the gradient of a reduction of ``shape`` over ``axis``, with the reduced axes as 1."""
    if keepdims or not axis:
        return g
    return ops.reshape(g, tuple(1 if i in axis else n for i, n in enumerate(shape)))


def _sum(ops: Any, g: Any, x_shape: Shape, axis: Shape, keepdims: bool) -> Any:
    return ops.broadcast_to(kept(ops, g, x_shape, axis, keepdims), x_shape)


def _extremum(ops: Any, g: Any, out: Any, x: Any, axis: Shape, keepdims: bool) -> Any:
    # Equal parts to all elements that reach the extremum.
    best = kept(ops, out, x.shape, axis, keepdims)
    hit = ops.cast(ops.equal(x, best), g.dtype)
    share = ops.divide(kept(ops, g, x.shape, axis, keepdims), ops.sum(hit, axis, True))
    return ops.multiply(hit, share)


def _running_product(ops: Any, x: Any, from_end: bool) -> Any:
    # Along the last axis, the product of all elements before (after) each one, in log2(n) sweeps:
    # Hillis & Steele, "Data parallel algorithms", 1986.
    rank, n = len(x.shape), x.shape[-1]
    none, ones = (0,) * rank, (1,) * rank

    def shifted(value: Any, by: int) -> Any:
        size = (*value.shape[:-1], n - by)
        places = (0,) * (rank - 1) + (by,)
        part = ops.slice(value, places if from_end else none, size, ones)
        return ops.pad(part, none if from_end else places, places if from_end else none, none, 1)

    product, step = shifted(x, 1), 1
    while step < n:
        product = ops.multiply(product, shifted(product, step))
        step *= 2
    return product


def _prod(ops: Any, g: Any, x: Any, axis: Shape, keepdims: bool) -> Any:
    # The product of the others, from both sides: dividing the result by x would fail at zeros.
    shape = x.shape
    if 0 in shape:
        return ops.full(shape, 0, g.dtype, x.device)
    outer = tuple(i for i in range(len(shape)) if i not in axis)
    order = outer + axis
    rows = tuple(shape[i] for i in outer)
    flat = ops.reshape(ops.permute(x, order), (*rows, math.prod(shape[i] for i in axis)))
    others = ops.multiply(_running_product(ops, flat, False), _running_product(ops, flat, True))
    back = tuple(order.index(i) for i in range(len(shape)))
    others = ops.permute(ops.reshape(others, tuple(shape[i] for i in order)), back)
    return ops.multiply(kept(ops, g, shape, axis, keepdims), others)


def _cumulative_sum(ops: Any, g: Any, axis: int) -> Any:
    return ops.flip(ops.cumulative_sum(ops.flip(g, (axis,)), axis), (axis,))


def _sort(ops: Any, g: Any, x: Any, axis: int, descending: bool) -> Any:
    # The inverse of a permutation is its argsort.
    places = ops.argsort(ops.argsort(x, axis, descending), axis, False)
    return ops.take_along_axis(g, places, axis)


rule("sum", x=_sum)
rule("prod", x=_prod)
rule("max", x=_extremum)
rule("min", x=_extremum)
rule("cumulative_sum", x=_cumulative_sum)
rule("sort", x=_sort)
