"""A training step in PyTorch on several processes, with DistributedDataParallel over gloo."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from models.twins.training import Training


class _Loss(torch.nn.Module):
    """The loss as the result of `forward`, which is what the wrapper calls."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.model.loss(batch)
        return loss


class DistributedTraining(Training):
    """As `models.twins.training.Training`, with the mean gradient of all ranks. The environment
    says which rank this is."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        distributed.init_process_group("gloo")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # newer versions name it otherwise
            wrapped = DistributedDataParallel(
                _Loss(self.model), broadcast_buffers=False, gradient_as_bucket_view=True
            )
        self.loss_of = lambda batch: wrapped(*batch)
