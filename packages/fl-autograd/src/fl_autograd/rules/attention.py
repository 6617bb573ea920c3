"""The rule of ``attention``: attention weights are computed again in the backward pass.

So no array of queries times keys lives until then (Rabe & Staats, "Self-attention does not need
O(n^2) memory", 2021).
"""

from __future__ import annotations

from typing import Any

from fl_autograd.rules.contractions import transposed
from fl_autograd.rules.precision import in_float32
from fl_autograd.rules.table import rule
from fl_tensor.derived.attention import attention_weights, grouped, scaled


@in_float32
def _attention(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    out: Any,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    allowed: Any,
    keep: Any,
    causal: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    groups = key.shape[1]
    weights, total, sees = attention_weights(ops, query, key, bias, allowed, causal, scale)
    g = ops.divide(g, total)
    if sees is not None:
        g = ops.where(sees, g, ops.constant(0.0, g))
    to_query = to_key = to_value = to_bias = to_keep = None
    if needs[2]:
        kept = weights if keep is None else ops.multiply(weights, keep)
        to_value = ops.matmul(transposed(ops, grouped(ops, kept, groups)), grouped(ops, g, groups))
    if any(needs[:2]) or any(needs[3:]):
        to_weights = ops.matmul(grouped(ops, g, groups), transposed(ops, value))
        to_weights = ops.reshape(to_weights, weights.shape)
        if needs[4]:
            to_keep = ops.multiply(weights, to_weights)
        if keep is not None:
            to_weights = ops.multiply(to_weights, keep)
        # The mean of to_weights under the weights is that of g under the result.
        inner = ops.sum(ops.multiply(g, out), (3,), True)
        to_bias = ops.multiply(weights, ops.subtract(to_weights, inner))
        scores = grouped(ops, to_bias, groups)
        if needs[0]:
            to_query = ops.reshape(ops.matmul(scores, scaled(ops, key, scale)), query.shape)
        if needs[1]:
            rows = grouped(ops, scaled(ops, query, scale), groups)
            to_key = ops.matmul(transposed(ops, scores), rows)
    return to_query, to_key, to_value, to_bias if needs[3] else None, to_keep


rule("attention", joint=_attention, operands=("query", "key", "value", "bias", "keep"))
