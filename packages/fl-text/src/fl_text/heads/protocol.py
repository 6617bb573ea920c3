"""The protocol of heads, and the reduction of losses with targets that do not count."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import fl_tensor as ft
from fl_nn.extend import check_reduction, reduce, tensor_of
from fl_text.errors import TextError


@runtime_checkable
class Head(Protocol):
    """Scores, log-probabilities and losses of `tokens` tokens, from vectors (..., size).

    A head is an `fl_nn.Module`: its parameters are trained with those of the network.
    """

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        ...

    def __call__(self, hidden: ft.Array) -> Any:
        """Scores (..., tokens), whose softmax are the probabilities."""
        ...

    def log_probs(self, hidden: ft.Array) -> ft.Array:
        """log p of every token, (..., tokens)."""
        ...

    def loss(
        self,
        hidden: ft.Array,
        targets: ft.Array,
        ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> ft.Array:
        """The loss of training, of integer targets (...).

        In eval mode it is -log p(target) exactly, for every head. Targets equal to `ignore_index`
        count for nothing. `reduction` is "mean", "sum" or "none", as in `fl_nn.cross_entropy`; the
        mean over no targets is 0.
        """
        ...


def flat_operands(
    where: str,
    hidden: ft.Array,
    targets: ft.Array,
    size: int,
    tokens: int,
    ignore_index: int | None,
) -> tuple[ft.Array, ft.Array, ft.Array | None]:
    """Vectors (n, size), targets (n,) with 0 in place of ignored ones, and which of them count.

    Raises `TextError` for shapes, dtypes and targets that do not fit.
    """
    for name, x in (("hidden", hidden), ("targets", targets)):
        if not isinstance(x, ft.Array):
            raise TextError(f"[{where}] {name} are a {type(x).__name__}: give an array")
    shape = targets.shape
    if hidden.shape != (*shape, size):
        raise TextError(
            f"[{where}] hidden {hidden.shape} and targets {shape}: expected hidden (..., {size}) "
            "and a target for each vector"
        )
    if not targets.dtype.is_integer:
        raise TextError(f"[{where}] targets are {targets.dtype}: expected integers")
    flat, counted = tensor_of(targets).reshape(-1), None
    if ignore_index is not None:
        counted = ft.not_equal(flat, ignore_index)
        flat = ft.where(counted, flat, 0)
    if flat.size and flat.backend.has_values:
        low, high = int(ft.min(flat).item()), int(ft.max(flat).item())
        if low < 0 or high >= tokens:
            raise TextError(
                f"[{where}] targets hold {low if low < 0 else high}: expected 0 .. {tokens - 1}; "
                "pass ignore_index for targets that do not count"
            )
    return hidden.reshape(-1, size), flat, counted


def reduced(
    where: str,
    losses: ft.Array,
    counted: ft.Array | None,
    shape: tuple[int, ...],
    reduction: str,
) -> ft.Array:
    """The mean or sum of losses (n,) that count, or all of them in `shape`."""
    check_reduction(where, reduction)
    if counted is not None:
        losses = ft.where(counted, losses, 0.0)
        if reduction == "mean":
            number = ft.maximum(ft.sum(counted), 1)
            return ft.sum(losses) / number.astype(losses.dtype)
    return reduce(losses.reshape(shape) if reduction == "none" else losses, reduction)
