"""Adaptive softmax as a head."""

from __future__ import annotations

import fl_nn as nn
import fl_tensor as ft
from fl_text.heads.protocol import flat_operands, reduced


class AdaptiveSoftMax(nn.AdaptiveSoftMax):
    """`fl_nn.AdaptiveSoftMax` as a `Head`: same settings, same parameters.

    The tokens are numbered by falling frequency. Grave et al., Efficient softmax approximation for
    GPUs, 2017.
    """

    @property
    def size(self) -> int:
        """The size of the vectors."""
        return self.inputs

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return self.classes

    def log_probs(self, hidden: ft.Array) -> ft.Array:
        """log p of every token, (..., tokens); calling the head gives the same."""
        scores: ft.Array = self(hidden)
        return scores

    def loss(
        self,
        hidden: ft.Array,
        targets: ft.Array,
        ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> ft.Array:
        """As `Head.loss`; clusters that no target needs are not computed."""
        name, shape = type(self).__name__, getattr(targets, "shape", ())
        x, flat, counted = flat_operands(
            name, hidden, targets, self.size, self.tokens, ignore_index
        )
        return reduced(name, self.losses(x, flat), counted, shape, reduction)
