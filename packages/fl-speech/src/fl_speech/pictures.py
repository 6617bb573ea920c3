"""Pictures of recognition: learning curves, spectrograms, attention (``fl_nn.plot``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_nn import plot

_LABELS = {"wer": "word error rate, %", "ler": "label error rate, %"}


def draw_curves(
    history: Sequence[Mapping[str, Any]], lists: Sequence[str], path: str | os.PathLike[str]
) -> None:
    """Loss and error rates over the epochs of a training, a line for the training and for each
    validation list. Raises MissingError without matplotlib."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for name in ("train", *lists):
        figures = ("loss", "ler", "wer")
        runs[name] = [
            {"epoch": record["epoch"]}
            | {f: record[f"{name}_{f}"] for f in figures if f"{name}_{f}" in record}
            for record in history
        ]
    metrics = ["loss", "wer"] if lists else ["loss"]
    title = "learning curves"
    plot.curves(runs, metrics=metrics, log=["loss"], labels=_LABELS, title=title, path=path)


def draw_spectrogram(
    features: Any, stride_ms: float, path: str | os.PathLike[str], title: str = ""
) -> None:
    """Features (frames, size) as an image, low ones at the bottom. Raises MissingError without
    matplotlib."""
    image = ft.asarray(np.asarray(features, np.float32).T[::-1].copy())
    seconds = len(features) * stride_ms / 1000
    plot.images([image], titles=[f"{title}, {seconds:.2f} s"], path=path)


def draw_attention(
    weights: Any, tokens: Sequence[str], path: str | os.PathLike[str], title: str = ""
) -> None:
    """Attention weights (tokens, frames) of a sequence-to-sequence model. Raises MissingError
    without matplotlib."""
    shown = ft.asarray(np.asarray(weights, np.float32))
    plot.attention(shown, queries=list(tokens), title=title or None, path=path)
