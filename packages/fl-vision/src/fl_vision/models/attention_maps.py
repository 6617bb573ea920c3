"""Where attention of vision transformers goes."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.annotations import checked
from fl_vision.errors import UsageError
from fl_vision.models.vit import ViT

__all__ = ["attention_rollout", "attention_weights", "class_attention"]


def attention_weights(
    layer: nn.MultiHeadAttention,
    query: ft.Array,
    key: ft.Array,
    key_mask: ft.Array | None = None,
) -> ft.Array:
    """The weights (N, heads, T, S) of `layer` for `query` (N, T, size) and `key` (N, S, size), of
    which those count where `key_mask` (N, S) is True. The sum over S is 1."""
    projected = []
    parts = zip(ft.split(layer.in_proj_weight, 3, 0), ft.split(layer.in_proj_bias, 3, 0))
    for x, (weight, bias) in zip((query, key), parts):
        y = ft.linear(x, weight, bias)
        projected.append(ft.swapaxes(y.reshape(*y.shape[:2], layer.heads, layer.head_size), 1, 2))
    q, k = projected
    scores = ft.matmul(q, ft.swapaxes(k, 2, 3)) * (1.0 / math.sqrt(layer.head_size))
    if key_mask is not None:
        allowed = key_mask.reshape(key_mask.shape[0], 1, 1, key_mask.shape[1])
        scores = ft.where(allowed, scores, ft.full_like(scores, -1e9))
    return ft.softmax(scores, -1)


@checked
def class_attention(model: ViT, images: ft.Array, layer: int = -1) -> ft.Tensor:
    """How much the class token attends to each patch in a layer: weights (N, heads, rows, columns).
    Those of a head, and that of the token to itself, sum to 1.

    images  (N, 3, H, W), normalised as for the network

    Dosovitskiy et al., 2021, and Caron et al., 2021, show such maps. Raises `UsageError` for a
    layer that is not there, and ShapeError for images of another size.
    """
    if not -len(model.layers) <= layer < len(model.layers):
        raise UsageError(
            f"[class_attention] layer {layer}: give one of {len(model.layers)}, from 0, or from -1 "
            "for the last"
        )
    weights = _weights_of(model, images)[layer]
    return _map(weights[:, :, 0, 1:])


@checked
def attention_rollout(model: ViT, images: ft.Array) -> ft.Tensor:
    """How much the class token depends on each patch over all layers: (N, rows, columns), whose sum
    is 1. In each layer the mean over heads and the residual count by half; the layers are
    multiplied (Abnar and Zuidema, "Quantifying attention flow in transformers", 2020).

    images  (N, 3, H, W), normalised as for the network

    Raises ShapeError for images of another size.
    """
    flow: Any = None
    for weights in _weights_of(model, images):
        mean = ft.mean(weights, axis=1)
        mixed = 0.5 * mean + 0.5 * ft.eye(mean.shape[1], dtype=mean.dtype)
        flow = mixed if flow is None else ft.matmul(mixed, flow)
    found = flow[:, 0, 1:]
    return _map(found / ft.sum(found, axis=1, keepdims=True))


def _weights_of(model: ViT, images: ft.Array) -> list[ft.Array]:
    """The weights of every layer, in order."""
    seen: list[ft.Array] = []
    remove = [
        layer.self_attn.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
        for layer in model.layers
    ]
    try:
        with nn.evaluating(model), ft.reproducible():
            model(images)
            return [
                attention_weights(layer.self_attn, x, x)
                for layer, x in zip(model.layers, seen, strict=True)
            ]
    finally:
        for each in remove:
            each()


def _map(weights: ft.Array) -> ft.Tensor:
    side = math.isqrt(weights.shape[-1])
    return tensor_of(weights.reshape(*weights.shape[:-1], side, side))
