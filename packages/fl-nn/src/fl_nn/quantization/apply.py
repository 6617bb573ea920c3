"""Quantisation of the weights of a whole model."""

from __future__ import annotations

import math
from typing import TypeVar

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.linear import Linear
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.quantization.layers import (
    Int8Embedding,
    Int8Linear,
    Int8MultiHeadAttention,
    keep_quantized,
)
from fl_tensor.annotations import checked

M = TypeVar("M", bound=Module)


@checked
def quantize_weights(model: M, embedding: bool = False) -> M:
    """Keep the weights of every Linear, and of the projections of MultiHeadAttention, as 8-bit
    integers with a scale for each output, in place; the model, whose parameters are then frozen.
    Each weight changes by at most half of its scale, max |row| / 254.

    embedding  every Embedding, too, with a scale for each row. A network whose output is the
               matrix of the embedding must multiply by the scale, as `fl_text.models.GPT2` does

    The model is for evaluation. On the host, a few rows at a time are multiplied without a copy of
    the weights in floats. Built on the backend `null`, a model takes the values of a file of
    quantised weights. Raises ModuleError where nothing can be quantised, and for weights that are
    not finite; the model is then as it was.
    """
    found: list[tuple[str, Module, Parameter]] = []
    kinds = (Linear, MultiHeadAttention, *([Embedding] if embedding else []))
    for name, module in model.named_modules():
        if type(module) in kinds:
            attention = isinstance(module, MultiHeadAttention)
            weight = getattr(module, "in_proj_weight" if attention else "weight", None)
            if isinstance(weight, Parameter):
                found.append((name, module, weight))
    if not found:
        raise ModuleError(
            f"[quantize_weights] this {type(model).__name__} has no Linear and no "
            "MultiHeadAttention with floating weights: layers with LoRA are merged and removed "
            "first, and quantised ones stay as they are"
        )
    for name, _, weight in found:
        tensor = weight.tensor
        if not tensor.backend.has_values or not tensor.size:
            continue
        if not math.isfinite(ft.max(ft.abs(tensor)).item()):
            raise ModuleError(f"[quantize_weights] {name} has weights that are not finite")
    for _, module, weight in found:
        _quantize(module, weight)
    return model.freeze()


def _quantize(module: Module, weight: Parameter) -> None:
    if isinstance(module, MultiHeadAttention):
        keep_quantized(module, weight, "in_proj_weight", "in_proj_scale")
        module.__class__ = Int8MultiHeadAttention
    elif isinstance(module, Embedding):
        keep_quantized(module, weight)
        module.__class__ = Int8Embedding  # type: ignore[assignment]
    else:
        keep_quantized(module, weight)
        module.__class__ = Int8Linear
