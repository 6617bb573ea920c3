"""``attention_maps``: where each token of a text looks, in every layer and head of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_text.errors import TextError

__all__ = ["attention_maps"]


@explained
def attention_maps(network: nn.Module, tokens: Sequence[int]) -> list[ft.Tensor]:
    """The attention weights (heads, queries, keys) of each layer, in the order in which the network
    computes them, on the tokens of one text. Rows sum to 1.

    They are those of `ft.attention`, which every layer of attention of `fl_nn` and `fl_text.models`
    calls: a product with the identity in place of the values. The network runs in evaluation mode.
    Raises `TextError` for a text without tokens and for networks without attention.
    """
    if not isinstance(network, nn.Module):
        raise TextError(f"[attention_maps] a {type(network).__name__}: give a network")
    if not len(tokens) or not all(isinstance(number, int) for number in tokens):
        raise TextError("[attention_maps] tokens: give a list of at least one whole number")
    found: list[ft.Tensor] = []
    weight = next(iter(network.parameters()))
    batch = ft.asarray([list(tokens)], ft.int64, weight.device, weight.backend)

    def recorded(inner: Any, query: Any, key: Any, value: Any, *more: Any, **options: Any) -> Any:
        groups, keys = key.shape[1], key.shape[2]
        with ft.use(batch.backend):
            identity = ft.eye(keys, dtype=key.dtype, device=key.device)
        rows = ft.broadcast_to(identity, (1, groups, keys, keys)).adapter
        weights = inner.attention(query, key, rows, *more, **options)
        found.append(ft.Tensor(weights, batch.backend)[0])
        return inner.attention(query, key, value, *more, **options)

    with nn.evaluating(network), ft.reproducible(), ft.override(attention=recorded):
        network(batch)
    if not found:
        raise TextError(
            f"[attention_maps] {type(network).__name__} has no attention: transformers have"
        )
    return found
