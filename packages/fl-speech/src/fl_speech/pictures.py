"""Pictures of recognition: learning curves, spectrograms, attention (``fl_nn.plot``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

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
