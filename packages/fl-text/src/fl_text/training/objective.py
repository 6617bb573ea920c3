"""Vectors and losses of a training, at the places that count."""

from __future__ import annotations

from typing import Any

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
        #: With "carry": the caches of the present columns. None: the columns begin.
        self.caches: Any = None

    def forward(self, tokens: ft.Array, *more: ft.Array) -> ft.Array:
        """Vectors (N, T, size), or (k, size) of the places."""
        recipe, options = self.recipe, {}
        if recipe.sample == "carry":
            if self.caches is None:
                self.caches = self.network.caches()
            options["caches"] = self.caches
        if recipe.sample == "documents":
            options["documents"] = more[0]
        if recipe.task == "masked" and recipe.sample == "line":
            options["key_mask"] = tokens != self.pad
        hidden: ft.Array = self.network.hidden(tokens, **options)
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
