"""Learned positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Positions(nn.Module):
    """As fl_nn.PositionEmbedding: adds row t of `weight` to step t."""

    def __init__(self, count: int, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(count, size))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.weight[: x.shape[1]])
