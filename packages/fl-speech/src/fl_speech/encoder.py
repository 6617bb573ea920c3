"""``ConvResidual``: a small convolutional acoustic model, for small data and for first trials."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft


class ConvResidual(nn.Module):
    """A convolution that makes frames fewer, residual blocks, and scores of classes.

    x (B, T, F) gives (B, ceil(T / subsample), classes). A block: x + dropout(relu(norm(conv(x)))).
    What lies behind `lengths` counts as silence in every layer, so that a recording has the same
    scores in every batch; statistics of batch normalisation in training include it.

    Kernels of every second block have a `dilation`. An output depends on `context` frames of
    features on each side, and on nothing else.
    """

    takes_lengths = True

    def __init__(
        self,
        features: int,
        classes: int,
        channels: int = 128,
        blocks: int = 4,
        kernel: int = 5,
        subsample: int = 2,
        dropout: float = 0.2,
        norm: str = "batch",
        dilation: int = 1,
    ) -> None:
        half = kernel // 2
        self.subsample = subsample
        dilations = [dilation if number % 2 else 1 for number in range(blocks)]
        self.context = half + sum(dilations) * half * subsample
        self.first = nn.Conv1D(features, channels, kernel, stride=subsample, padding=half)
        self.first_norm = _Norm(channels, norm)
        self.blocks = [_Block(channels, kernel, dropout, norm, each) for each in dilations]
        self.last = nn.Linear(channels, classes)

    def forward(self, x: ft.Array, lengths: Any = None) -> tuple[ft.Array, Any]:
        """Emissions (B, T', classes), and how many frames of each sample are its own, or None."""
        x = self.first(ft.permute_dims(x, (0, 2, 1)))
        mask = None
        if lengths is not None:
            lengths = ft.asarray(lengths, ft.int64)
            lengths = (lengths + (self.subsample - 1)) // self.subsample
            places = ft.arange(x.shape[2], dtype=ft.int64, device=lengths.device)
            own = ft.expand_dims(places, 0) < ft.expand_dims(lengths, 1)
            mask = ft.expand_dims(own, 1).astype(x.dtype)
        x = _masked(ft.relu(self.first_norm(x)), mask)
        for block in self.blocks:
            x = _masked(block(x), mask)
        return self.last(ft.permute_dims(x, (0, 2, 1))), lengths


class _Block(nn.Module):
    def __init__(
        self, channels: int, kernel: int, dropout: float, norm: str, dilation: int
    ) -> None:
        padding = dilation * (kernel // 2)
        self.conv = nn.Conv1D(channels, channels, kernel, padding=padding, dilation=dilation)
        self.norm = _Norm(channels, norm)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: ft.Array) -> ft.Array:
        return x + self.dropout(ft.relu(self.norm(self.conv(x))))


class _Norm(nn.Module):
    """Of x (B, channels, T): over the batch and its frames, or over the channels of each frame."""

    def __init__(self, channels: int, kind: str) -> None:
        self.kind = kind
        self.norm = nn.BatchNorm(channels) if kind == "batch" else nn.LayerNorm(channels)

    def forward(self, x: ft.Array) -> ft.Array:
        if self.kind == "batch":
            return self.norm(x)
        return ft.permute_dims(self.norm(ft.permute_dims(x, (0, 2, 1))), (0, 2, 1))


def _masked(x: ft.Array, mask: ft.Array | None) -> ft.Array:
    return x if mask is None else x * mask
