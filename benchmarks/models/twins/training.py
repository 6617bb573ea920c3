"""A training step in PyTorch, plain or tuned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import fl_tensor as ft
from models import Model
from models.training import LR, MOMENTUM


class Training:
    """As `models.training.Training`. `tuned`: images and kernels with channels last, the update as
    one kernel, denormals flushed to zero. `compiled`: the loss through `torch.compile`."""

    def __init__(
        self,
        model: Model,
        settings: Mapping[str, Any],
        weights: Path,
        batch: tuple[ft.Tensor, ...],
        tuned: bool = False,
        compiled: bool = False,
    ) -> None:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        self.model = model.twin(**settings)
        self.model.load_state_dict(load_file(weights))
        self.batch = [torch.tensor(x.numpy()) for x in batch]
        if tuned:
            torch.set_flush_denormal(True)
            if self.batch[0].ndim == 4:
                last = torch.channels_last
                self.model = self.model.to(memory_format=last)
                self.batch[0] = self.batch[0].contiguous(memory_format=last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=LR, momentum=MOMENTUM, fused=tuned or None
        )
        self.loss_of = torch.compile(self.model.loss) if compiled else self.model.loss

    def loss(self) -> float:
        self.model.eval()
        with torch.no_grad():
            value = self.model.loss(self.batch).item()
        self.model.train()
        return value

    def step(self) -> float:
        self.optimizer.zero_grad()
        loss = self.loss_of(self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()
