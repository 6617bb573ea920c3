"""Layers with low-rank additions to their weights. Hu et al., 2021."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.attention import MultiHeadAttention
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.linear import Linear
from fl_nn.module import Module
from fl_nn.parameter import Parameter


class LowRank(Module):
    """`alpha / rank * B A dropout(x)`: what is added to the output of a layer whose weight is
    (outputs, inputs). It starts as zero.

    Parameters lora_A (rank, inputs), which starts as the weight of Linear, and lora_B (outputs,
    rank), which starts as zeros.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        rank: int = 8,
        alpha: float = 16.0,
        dropout: float = 0.0,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if not 1 <= rank <= min(inputs, outputs):
            raise ModuleError(
                f"[LoRA] rank {rank} for a weight ({outputs}, {inputs}): give 1 to "
                f"{min(inputs, outputs)}"
            )
        if not math.isfinite(alpha) or alpha <= 0.0:
            raise ModuleError(f"[LoRA] alpha={alpha}: give a number above 0")
        self.rank, self.alpha, self.dropout = rank, alpha, Dropout(dropout)
        shape = (rank, inputs)
        drawn = init.kaiming_uniform(shape, a=math.sqrt(5), generator=generator, dtype=dtype)
        self.lora_A = Parameter(drawn)
        self.lora_B = Parameter(init.constant((outputs, rank), 0.0, dtype=dtype))
        #: Whether `product` is part of the weight of the layer now.
        self.merged = False

    @property
    def scale(self) -> float:
        """What the product of the matrices is multiplied with."""
        return self.alpha / self.rank

    def forward(self, x: ft.Array) -> ft.Array:
        return ft.linear(ft.linear(self.dropout(x), self.lora_A), self.lora_B) * self.scale

    def product(self) -> ft.Tensor:
        """`alpha / rank * B A`, (outputs, inputs)."""
        return ft.matmul(self.lora_B.tensor, self.lora_A.tensor) * self.scale

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha}"


class LoRALinear(Linear):
    """Linear with a `LowRank` beside its weight, which alone learns: `apply_lora` makes it of a
    Linear. State names are those of Linear, and lora_A and lora_B."""

    lora: LowRank

    def __init__(
        self,
        inputs: int,
        outputs: int,
        bias: bool = True,
        rank: int = 8,
        alpha: float = 16.0,
        dropout: float = 0.0,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        super().__init__(inputs, outputs, bias, generator=generator, dtype=dtype)
        self.freeze()
        self.lora = LowRank(inputs, outputs, rank, alpha, dropout, generator=generator, dtype=dtype)

    def forward(self, x: ft.Array) -> ft.Array:
        y = super().forward(x)
        return y if self.lora.merged else y + self.lora(x)

    def state_name(self, attribute: str) -> str:
        return "" if attribute == "lora" else super().state_name(attribute)

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        lora = self.lora
        options = {"rank": lora.rank, "alpha": lora.alpha, "dropout": lora.dropout.p}
        return (self.inputs, self.outputs, self.bias is not None), options


#: Rows of the projection of MultiHeadAttention that may have low-rank additions of their own, and
#: the name for all rows together.
PARTS = ("q_proj", "k_proj", "v_proj")
WHOLE = "in_proj"


def rows_of(attention: MultiHeadAttention, part: str) -> tuple[int, int]:
    """The first row of in_proj_weight that belongs to a part, and the row after the last."""
    inner, shared = (n * attention.head_size for n in (attention.heads, attention.kv_heads))
    bounds = (0, inner, inner + shared, inner + 2 * shared)
    if part == WHOLE:
        return 0, bounds[-1]
    place = PARTS.index(part)
    return bounds[place], bounds[place + 1]


class LoRAMultiHeadAttention(MultiHeadAttention):
    """MultiHeadAttention with `LowRank` additions to rows of in_proj_weight: those of queries
    (q_proj), keys (k_proj), values (v_proj), or to all of them (in_proj). `apply_lora` makes it of
    a MultiHeadAttention."""

    q_proj: LowRank | None = None
    k_proj: LowRank | None = None
    v_proj: LowRank | None = None
    in_proj: LowRank | None = None

    def _project(
        self, query: ft.Array, key: ft.Array, value: ft.Array, itself: bool
    ) -> tuple[ft.Array, ft.Array, ft.Array]:
        projected = list(super()._project(query, key, value, itself))
        sources = (query, key, value)
        for place, name in enumerate(PARTS):
            lora = getattr(self, name)
            if lora is not None and not lora.merged:
                projected[place] = projected[place] + self._heads(lora(sources[place]))
        if self.in_proj is not None and not self.in_proj.merged:
            if not itself:
                raise ModuleError(
                    "[LoRA] an adapter of in_proj as a whole serves self-attention: for attention "
                    f"to other steps adapt {', '.join(PARTS)}"
                )
            sizes = [last - first for first, last in (rows_of(self, part) for part in PARTS)]
            added = ft.split(self.in_proj(query), sizes, -1)
            projected = [x + self._heads(more) for x, more in zip(projected, added)]
        q, k, v = projected
        return q, k, v

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        raise ModuleError(
            "[LoRA] a configuration does not hold the adapters of MultiHeadAttention: build the "
            "model without them and use load_adapter, or remove_lora before"
        )
