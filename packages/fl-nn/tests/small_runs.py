"""Small training runs on the ranks of a communicator, as several tests make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft


def points(count: int, width: int, seed: int = 0, dtype: Any = None) -> data.TensorDataset:
    """Random points, in class 1 where the first coordinate is less than the second."""
    x = ft.randn((count, width), ft.Generator(seed), dtype=dtype)
    return data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))


def place(communicator: dist.Communicator) -> dict[str, int]:
    """`Batch` and `Partition` give this rank its share."""
    return {"rank": communicator.rank, "world_size": communicator.world_size}


def sgd_run(
    communicator: dist.Communicator,
    model: nn.Module,
    loss: Callable[..., Any] = nn.cross_entropy,
    lr: float = 0.1,
    *,
    momentum: float = 0.0,
    **options: Any,
) -> nn.Trainer:
    """A Trainer on these ranks that says nothing, with SGD."""
    optimizer = nn.SGD(model.parameters(), lr=lr, momentum=momentum)
    options.setdefault("progress", False)
    return nn.Trainer(model, optimizer, loss, communicator=communicator, **options)
