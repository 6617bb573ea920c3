"""Embedding: a learned vector per class number."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.values import check_classes


class Embedding(Module):
    """Rows of `weight` (count, size) at integer indices: (...) gives (..., size).

    The rows start standard normal, as in PyTorch (Flashlight: uniform within +-1 / sqrt(size)).
    Indices below 0 or from `count` on are an IndexError.
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < 1 or size < 1:
            raise ModuleError(f"[Embedding] count {count} and size {size}: give at least 1")
        self.count, self.size = count, size
        self.weight = Parameter(init.normal((count, size), generator=generator, dtype=dtype))

    def forward(self, indices: ft.Array) -> ft.Array:
        check_classes("[Embedding] indices", indices, self.count, "give Embedding more rows")
        return ft.embedding(self.weight, indices)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}"
