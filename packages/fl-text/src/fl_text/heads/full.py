"""The softmax over all tokens, from a matrix of its own or that of an embedding."""

from __future__ import annotations

import math
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_nn.quantization import times_int8
from fl_text.errors import TextError
from fl_text.heads.protocol import flat_operands, reduced


class FullSoftmax(nn.Module):
    """Scores `weight @ hidden + bias` of `tokens` tokens from vectors (..., size). A `Head`.

    weight  a Parameter (tokens, size) to share, such as that of the embedding (Press & Wolf, 2017);
            without one the head has its own, which starts uniform within +-1 / sqrt(size)
    bias    True for one that starts at zero, a Parameter (tokens,) to share, or False
    scale   (tokens,) for a `weight` of int8, as `fl_nn.quantization` keeps it

    Raises `TextError` for sizes below 1 and for a weight of another shape.
    """

    def __init__(
        self,
        size: int,
        tokens: int,
        bias: bool | nn.Parameter = True,
        weight: nn.Parameter | ft.Tensor | None = None,
        *,
        scale: ft.Tensor | None = None,
        generator: ft.Generator | None = None,
    ) -> None:
        name = type(self).__name__
        if size < 1 or tokens < 1:
            raise TextError(f"[{name}] size {size}, tokens {tokens}: give at least 1")
        self.size, self.tokens = size, tokens
        if weight is None:
            bound = 1 / math.sqrt(size)
            drawn = nn.init.uniform((tokens, size), -bound, bound, generator=generator)
            weight = nn.Parameter(drawn)
        shift = bias if isinstance(bias, nn.Parameter) else None
        if bias is True:
            shift = nn.Parameter(ft.zeros((tokens,)))
        shapes = {"weight": (tokens, size), "bias": (tokens,), "scale": (tokens,)}
        for (what, shape), given in zip(shapes.items(), (weight, shift, scale)):
            if given is not None and given.shape != shape:
                raise TextError(f"[{name}] {what} {given.shape}: expected {shape}")
        if (weight.dtype is ft.int8) != (scale is not None):
            raise TextError(f"[{name}] weight of {weight.dtype}: int8 and a scale go together")
        self.bias, self.scale = shift, scale
        self.weight: Any = weight

    @classmethod
    def of(cls, layer: Any, bias: bool | nn.Parameter = False) -> FullSoftmax:
        """The output with the matrix of an `fl_nn.Linear` or `Embedding`, quantised or not."""
        weight: nn.Parameter = layer.weight
        tokens, size = weight.shape
        return cls(size, tokens, bias, weight, scale=getattr(layer, "scale", None))

    def forward(self, hidden: ft.Array) -> ft.Array:
        if hidden.ndim < 1 or hidden.shape[-1] != self.size:
            raise TextError(
                f"[{type(self).__name__}] hidden {hidden.shape}: expected (..., {self.size})"
            )
        if self.scale is not None:
            return times_int8(hidden, self.weight, self.scale, self.bias)
        return ft.linear(hidden, self.weight, self.bias)

    def log_probs(self, hidden: ft.Array) -> ft.Array:
        """log p of every token, (..., tokens)."""
        return ft.log_softmax(self(hidden), -1)

    def loss(
        self,
        hidden: ft.Array,
        targets: ft.Array,
        ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> ft.Array:
        """As `Head.loss`."""
        name, shape = type(self).__name__, getattr(targets, "shape", ())
        x, flat, counted = flat_operands(
            name, hidden, targets, self.size, self.tokens, ignore_index
        )
        losses = self._losses(x, flat) if self.training else self._exact(x, flat)
        return reduced(name, losses, counted, shape, reduction)

    def _losses(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        """The losses (n,) of training for vectors (n, size) and targets (n,)."""
        return self._exact(x, targets)

    def _exact(self, x: ft.Array, targets: ft.Array) -> ft.Array:
        return nn.cross_entropy(self(x), targets, "none")

    def extra_repr(self) -> str:
        return f"{self.size}, {self.tokens}" + ", bias=False" * (self.bias is None)
