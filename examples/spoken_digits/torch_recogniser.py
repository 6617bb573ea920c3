"""A recipe of `ConvResidual` and CTC, trained in PyTorch: the same lists, order of batches,
features, augmentation, initial weights, and learning rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import fl_tensor as ft
from fl_dist import local
from fl_speech.datasets import ListFile
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser
from fl_speech.training.data import Source, training_batches
from fl_text import Dictionary, load_words


class Norm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Any) -> Any:
        return self.norm(x)


class Block(nn.Module):
    def __init__(self, recipe: Recipe, dilation: int) -> None:
        super().__init__()
        size, kernel = recipe.channels, recipe.kernel
        padding = dilation * (kernel // 2)
        self.conv = nn.Conv1d(size, size, kernel, padding=padding, dilation=dilation)
        self.norm, self.dropout = Norm(size), nn.Dropout(recipe.dropout)

    def forward(self, x: Any) -> Any:
        return x + self.dropout(torch.relu(self.norm(self.conv(x))))


class Encoder(nn.Module):
    """`fl_speech.encoder.ConvResidual`, with the same names of parameters."""

    def __init__(self, recipe: Recipe, features: int, classes: int) -> None:
        super().__init__()
        size, kernel, self.subsample = recipe.channels, recipe.kernel, recipe.subsample
        self.first = nn.Conv1d(features, size, kernel, recipe.subsample, kernel // 2)
        self.first_norm = Norm(size)
        dilations = [recipe.dilation if i % 2 else 1 for i in range(recipe.blocks)]
        self.blocks = nn.ModuleList(Block(recipe, each) for each in dilations)
        self.last = nn.Linear(size, classes)

    def forward(self, x: Any, lengths: Any) -> tuple[Any, Any]:
        x = self.first(x.transpose(1, 2))
        lengths = (lengths + self.subsample - 1) // self.subsample
        mask = (torch.arange(x.shape[2])[None] < lengths[:, None])[:, None].to(x.dtype)
        x = torch.relu(self.first_norm(x)) * mask
        for block in self.blocks:
            x = block(x) * mask
        return self.last(x.transpose(1, 2)), lengths


def train_in_torch(recipe: Recipe, lists: Path) -> Recogniser:
    """A recogniser with the weights that PyTorch found."""
    ft.set_default_generator(ft.Generator(recipe.seed))
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(ft.get_num_threads())
    tokens = Dictionary((lists / "tokens.txt").read_text().splitlines())
    recogniser = Recogniser(recipe, tokens, load_words(lists / "lexicon.txt"))
    encoder = Encoder(recipe, recogniser.features.size, len(recogniser.dictionary))
    own = {name: torch.tensor(np.asarray(x)) for name, x in recogniser.encoder.state_dict().items()}
    missing = encoder.load_state_dict(own, strict=False).missing_keys
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    train = list(ListFile(lists / "train.lst", root="/"))
    batches = training_batches(Source(recogniser), train, local(), prefetch=2)
    optimizer = torch.optim.AdamW(encoder.parameters(), recipe.lr, weight_decay=recipe.weight_decay)
    steps = recipe.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.lr, total_steps=steps)
    encoder.train()
    for epoch in range(recipe.epochs):
        batches.set_epoch(epoch)
        for batch in batches.iterate():
            x, lengths = _augmented(recogniser, *batch[:2])
            scores, counts = encoder(x, lengths)
            loss = _loss(scores, counts, np.asarray(batch[2]))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(encoder.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
    found = {name: ft.asarray(x.numpy()) for name, x in encoder.state_dict().items() if name in own}
    recogniser.encoder.load_state_dict(found)
    recogniser.eval()
    return recogniser


def _augmented(recogniser: Recogniser, features: Any, lengths: Any) -> tuple[Any, Any]:
    recogniser.train()
    x, lengths = recogniser.augmented(features, lengths)
    return torch.tensor(np.asarray(x)), torch.tensor(np.asarray(lengths))


def _loss(scores: Any, counts: Any, targets: np.ndarray) -> Any:
    """The mean over recordings of their losses."""
    sizes = (targets >= 0).sum(1)
    losses = F.ctc_loss(
        scores.log_softmax(2).transpose(0, 1),
        torch.tensor(np.maximum(targets, 0)),
        counts,
        torch.tensor(sizes),
        blank=scores.shape[2] - 1,
        reduction="none",
        zero_infinity=True,
    )
    return losses.mean()
