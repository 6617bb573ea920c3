"""The loss of a classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Classifier(nn.Module):
    """As `models.classifier.Classifier`; batches come from there."""

    def loss(self, batch: tuple[Tensor, Tensor]) -> torch.Tensor:
        images, labels = batch
        return F.cross_entropy(self(images), labels)
