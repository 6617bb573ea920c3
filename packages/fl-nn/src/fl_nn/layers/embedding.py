"""Embedding: a learned vector per class number."""

from __future__ import annotations

import fl_autograd as ag
import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.parameter import Parameter, SparseParameter
from fl_nn.values import check_classes, tensor_of


class Embedding(Module):
    """Rows of `weight` (count, size) at integer indices: (...) gives (..., size).

    The rows start standard normal, as in PyTorch (Flashlight: uniform within +-1 / sqrt(size)).
    Row `padding_idx` (negative: from the end) starts at zero and gets no gradient. Indices below 0
    or from `count` on are an IndexError.

    sparse   the gradient of `weight` is an `fl_autograd.SparseGradient`: the rows that were looked
             up, never an array of the size of the table. For SparseAdam, Adagrad and SGD; where the
             weight is also used otherwise, as in an output layer, the sum is dense again
    """

    def __init__(
        self,
        count: int,
        size: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < 1 or size < 1:
            raise ModuleError(f"[Embedding] count {count} and size {size}: give at least 1")
        if padding_idx is not None and not -count <= padding_idx < count:
            raise ModuleError(f"[Embedding] padding_idx {padding_idx}: not a row of {count}")
        self.count, self.size = count, size
        self.padding_idx = None if padding_idx is None else padding_idx % count
        rows = init.normal((count, size), generator=generator, dtype=dtype)
        if self.padding_idx is not None:
            rows[self.padding_idx] = 0.0
        self.sparse = sparse
        self.weight = SparseParameter(rows) if sparse else Parameter(rows)

    def forward(self, indices: ft.Array) -> ft.Array:
        check_classes("[Embedding] indices", indices, self.count, "give Embedding more rows")
        lookup = ag.lookup_rows if self.sparse else ft.embedding
        y = lookup(self.weight, indices)
        if self.padding_idx is None:
            return y
        # The padding row comes out as it is, but past the tape.
        padding = ft.expand_dims(indices == self.padding_idx, -1)
        return ft.where(padding, tensor_of(y), y)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.count}, {self.size}{padding}" + ", sparse=True" * self.sparse
