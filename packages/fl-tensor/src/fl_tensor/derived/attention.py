"""Scaled dot-product attention."""

from __future__ import annotations

import functools
import math
from typing import Any

from fl_tensor import dtypes
from fl_tensor.composition import cached_composition
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ShapeError
from fl_tensor.roles import A, Ops, S, Shape

__all__ = ["attention"]

SINCE = {"attention": "1.1"}

#: Less than every score, and finite: a query without any key would divide zero by zero.
LOWEST = {dtypes.float32: -3.0e38, dtypes.float64: -1.0e308}


@cached_composition
@in_float32
def attention(
    ops: Ops,
    query: S,
    key: S,
    value: S,
    bias: S | None = None,
    allowed: A | None = None,
    keep: S | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """``softmax(query key^T * scale + bias) * keep`` times ``value``: for each of the queries
    (batch, heads, queries, size) a mean of the values (batch, groups, keys, any), by how well it
    fits their keys (batch, groups, keys, size). Vaswani et al., 2017. Each group serves heads /
    groups heads in a row: Ainslie et al., 2023.

    ``bias``, the bools ``allowed`` (where a query may look) and the factors ``keep`` (for dropout)
    broadcast to (batch, heads, queries, keys); a bias of -inf forbids, too. ``causal``: no query
    sees a later key, where the last query stands at the last key. ``scale`` is 1 / sqrt(size)
    unless given. A query that may look nowhere gets zeros.
    """
    _fitting(query, key, value, bias, allowed, keep)
    weights, total, sees = attention_weights(ops, query, key, bias, allowed, causal, scale)
    if keep is not None:
        weights = ops.multiply(weights, keep)
    mixed = ops.matmul(grouped(ops, weights, key.shape[1]), value)
    mixed = ops.reshape(mixed, (*query.shape[:3], value.shape[3]))
    mixed = ops.divide(mixed, total)
    return mixed if sees is None else ops.where(sees, mixed, ops.constant(0.0, mixed))


def attention_weights(
    ops: Ops, query: Any, key: Any, bias: Any, allowed: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    """The weights (batch, heads, queries, keys) before they are divided by their sums, these sums,
    and bools that broadcast to them: which queries see any key, None where all do. Weights of the
    others mean nothing."""
    across = ops.permute(key, (0, 1, 3, 2))
    scores = ops.matmul(grouped(ops, scaled(ops, query, scale), key.shape[1]), across)
    scores = ops.reshape(scores, (*query.shape[:3], key.shape[2]))
    allowed = _allowed(ops, scores, bias, allowed, causal)
    if bias is not None:
        scores = ops.add(scores, bias)
    sees = None
    if allowed is not None:
        zero, lowest = (ops.constant(v, scores) for v in (0.0, LOWEST[scores.dtype]))
        if bias is None:  # one pass less over all of the scores than ``where``
            scores = ops.add(scores, ops.where(allowed, zero, lowest))
        else:
            scores = ops.where(allowed, scores, lowest)
        sees = ops.any(allowed, (len(allowed.shape) - 1,), True) if allowed.shape else allowed
    weights = ops.exp(ops.subtract(scores, ops.max(scores, (3,), True)))
    return weights, ops.sum(weights, (3,), True), sees


def _allowed(ops: Ops, scores: Any, bias: Any, allowed: Any, causal: bool) -> Any:
    # Everything that forbids, together; None where nothing does.
    queries, keys = scores.shape[2:]
    masks = [] if allowed is None else [allowed]
    if bias is not None:
        masks.append(ops.less(ops.constant(-math.inf, bias), bias))
    if causal:
        stands = ops.arange(keys - queries, keys, 1, dtypes.int64, scores.device)
        places = ops.arange(0, keys, 1, dtypes.int64, scores.device)
        masks.append(ops.less_equal(places, ops.reshape(stands, (queries, 1))))
    return functools.reduce(ops.logical_and, masks) if masks else None


def scaled(ops: Ops, x: Any, scale: float | None) -> Any:
    """Queries or keys times ``scale``, by default 1 / sqrt(size)."""
    size = x.shape[3]
    factor = scale if scale is not None else 1.0 / math.sqrt(size) if size else 1.0
    return ops.multiply(x, ops.constant(factor, x))


def grouped(ops: Ops, x: Any, groups: int) -> Any:
    """(batch, heads, rows, any) as (batch, groups, heads / groups * rows, any): heads that share
    keys become rows of one product."""
    batch, heads, rows, columns = x.shape
    return ops.reshape(x, (batch, groups, heads // groups * rows, columns))


def _fitting(query: Any, key: Any, value: Any, bias: Any, allowed: Any, keep: Any) -> None:
    shapes = f"[attention] query {query.shape}, key {key.shape}, value {value.shape}"
    if (
        not (len(query.shape) == len(key.shape) == len(value.shape) == 4)
        or key.shape[:3] != value.shape[:3]
    ):
        raise ShapeError(f"{shapes}: expected (batch, heads, steps, size), as many keys as values")
    (batch, heads, queries, size), (_, groups, keys, _) = query.shape, key.shape
    if not keys:
        raise ShapeError(f"{shapes}: there are no keys")
    if key.shape[0] != batch or key.shape[3] != size or not groups or heads % groups:
        raise ShapeError(
            f"{shapes}: batch and size must agree, and the heads of key divide those of query"
        )
    wanted: Shape = (batch, heads, queries, keys)
    for name, x in (("bias", bias), ("allowed", allowed), ("keep", keep)):
        if x is not None and not _broadcasts(x.shape, wanted):
            raise ShapeError(f"{shapes}: {name} {x.shape} does not broadcast to {wanted}")


def _broadcasts(shape: Shape, wanted: Shape) -> bool:
    pairs = zip(reversed(shape), reversed(wanted))
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in pairs)
