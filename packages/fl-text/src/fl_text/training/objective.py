"""Vectors and losses of a training, at the places that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_text.recipe import Recipe


class Objective(nn.Module):
    """Batches (tokens, ..., targets) of a recipe to vectors, and `loss(vectors, targets)`.

    sample          fields before the targets, and the targets
    "pack"          tokens (N, T); targets (N, T)
    "stream"        the same
    "carry"         the same; the state of row n goes on in row n of the next batch
    "line"          tokens (N, T), places (k,) of the flat tokens that count; targets (k,)
    "documents"     tokens (N, T), numbers of documents (N, T), places (k,); targets (k,)

    Masked tasks have places, too. The loss is the mean over targets, so that the number of targets
    is the weight of a batch in a mean over batches and ranks.
    """

    def __init__(self, recipe: Recipe, network: Any, pad: int | None) -> None:
        self.recipe, self.network, self.pad = recipe, network, pad
        #: With "carry", in evaluation: the caches of the present columns. None: the columns begin.
        self.caches: Any = None
        #: With "carry", in training: how many buffers are the arrays of each cache. A compiled step
        #: reads and replaces buffers.
        self._sizes: list[int] = []

    def carry(self, rows: int) -> None:
        """Keep the state of `rows` columns from one training batch to the next; zeros now."""
        caches, tokens = self.network.caches(), ft.zeros((rows, 1), ft.int64)
        with nn.evaluating(self.network), ag.no_grad():
            self.network.hidden(tokens, caches=caches)
        self._sizes = [len(cache.arrays) for cache in caches]
        arrays = [array for cache in caches for array in cache.arrays]
        for name, array in zip(self._names(), arrays, strict=True):
            self.register_buffer(name, ft.zeros_like(array), persistent=False)

    @property
    def state(self) -> list[ft.Tensor]:
        """The arrays that are carried."""
        return [getattr(self, name) for name in self._names()]

    @state.setter
    def state(self, arrays: Sequence[ft.Tensor]) -> None:
        for name, array in zip(self._names(), arrays, strict=True):
            setattr(self, name, array.astype(getattr(self, name).dtype))

    def _names(self) -> list[str]:
        return [f"carried_{place}" for place in range(sum(self._sizes))]

    def _caches(self) -> Any:
        if not self.training:
            self.caches = self.caches or self.network.caches()
            return self.caches
        caches, arrays = self.network.caches(), iter(self.state)
        for cache, size in zip(caches, self._sizes, strict=True):
            cache.update([next(arrays) for _ in range(size)], 1)
        return caches

    def forward(self, tokens: ft.Array, *more: ft.Array) -> ft.Array:
        """Vectors (N, T, size), or (k, size) of the places."""
        recipe, options = self.recipe, {}
        if recipe.sample == "carry":
            options["caches"] = self._caches()
        if recipe.sample == "documents":
            options["documents"] = more[0]
        if recipe.task == "masked" and recipe.sample == "line":
            options["key_mask"] = tokens != self.pad
        hidden: ft.Array = self.network.hidden(tokens, **options)
        if recipe.sample == "carry" and self.training:
            self.state = [array for cache in options["caches"] for array in cache.arrays]
        if has_places(recipe):
            hidden = ft.gather(hidden.reshape(-1, hidden.shape[-1]), more[-1], 0)
        return hidden

    def loss(self, hidden: ft.Array, targets: ft.Array) -> ft.Array:
        """The mean over all targets."""
        smoothing = self.recipe.label_smoothing
        if smoothing and self.training:
            scores = self.network.head(hidden)
            flat = scores.reshape(-1, scores.shape[-1])
            return nn.cross_entropy(flat, targets.reshape(-1), label_smoothing=smoothing)
        loss: ft.Array = self.network.head.loss(hidden, targets)
        return loss


def has_places(recipe: Recipe) -> bool:
    """Whether batches say which places count."""
    return recipe.task == "masked" or recipe.sample in ("line", "documents")
