"""A training step of a model of `fl_nn`, as a user writes it, for `paper_models.py`.

`models.twins.training` is the same in PyTorch, `models.jax_twins` in JAX: each `Training` has
`loss()`, of the batch with nothing dropped out, and `step()`, which gives the loss that it trained
on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from models import Model

#: What all libraries train with.
LR, MOMENTUM = 1e-3, 0.9


class Training:
    """`model` with the weights of a file, and one batch in memory."""

    def __init__(
        self, model: Model, settings: Mapping[str, Any], weights: Path, batch: tuple[ft.Tensor, ...]
    ) -> None:
        self.model = model.build(**settings)
        nn.load_weights(weights, self.model)
        self.optimizer = nn.SGD(self.model.parameters(), lr=LR, momentum=MOMENTUM)
        self.batch = batch

    def loss(self) -> float:
        self.model.eval()
        value = self.model.loss(self.batch).item()
        self.model.train()
        return value

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.model.loss(self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def batch_of(model: Model, settings: Mapping[str, Any], size: int) -> tuple[ft.Tensor, ...]:
    """The batch that all libraries get."""
    with ft.use("null"):
        model = model.build(**settings)
    return model.batch(size, ft.Generator(1))
