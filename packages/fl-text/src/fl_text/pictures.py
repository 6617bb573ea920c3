"""Pictures of language models: learning curves (``fl_nn.plot``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fl_nn import plot
from fl_nn.extend import JsonLog


def draw_curves(
    log: str | os.PathLike[str],
    points: Sequence[Mapping[str, Any]],
    path: str | os.PathLike[str],
) -> None:
    """The loss of the steps in a `log.jsonl`, and of the validations `points`, over the updates of
    a training. Raises MissingError without matplotlib."""
    steps = [
        {"step": record["step"], "train_loss": record["loss"]}
        for record in JsonLog(log).read()
        if record.get("event") == "step"
    ]
    measured = [{"step": p["step"], "valid_loss": p["valid_loss"]} for p in points]
    labels = {"loss": "loss, nats a token"}
    runs = {"": [*steps, *measured]} if steps else {"": measured}
    plot.curves(
        runs[""], metrics=["loss"], by="step", smooth=0.9, labels=labels, title="learning curves",
        path=path,
    )  # fmt: skip
