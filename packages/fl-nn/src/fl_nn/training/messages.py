"""What the training loop tells: its first record, and what is wrong with a batch or a loss."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_nn._version import __version__
from fl_nn.errors import TrainingError
from fl_nn.optim import Optimizer


def introduction(
    optimizer: Optimizer, ranks: int, batches: int, epochs: int, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The first record of a log."""
    parameters = optimizer.parameters
    return {
        "event": "start",
        "fl_nn": __version__,
        "backend": parameters[0].backend.name,
        "dtype": str(parameters[0].dtype),
        "ranks": ranks,
        "parameters": sum(parameter.size for parameter in parameters),
        "optimizer": repr(optimizer),
        "batches": batches,
        "epochs": epochs,
        "metadata": dict(metadata),
    }


def fields(batch: Any) -> tuple[Any, ...]:
    """A batch as (input, ..., target). Raises TrainingError for anything else."""
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise TrainingError(
            f"[Trainer] a batch is a tuple (input, ..., target), got {type(batch).__name__}; "
            "Transform turns samples into that form"
        )
    return tuple(batch)


def not_finite(loss: float, place: tuple[int, int, int], lr: float, saved: Path | None) -> str:
    """Why training stopped; `place` is epoch, batch and step, counted from 1."""
    epoch, batch, step = place
    kept = "" if saved is None else f" {saved} holds the last good state."
    return (
        f"[Trainer] the loss is {loss} in epoch {epoch}, batch {batch} (step {step}), lr={lr}; the "
        "weights are those before this step. Lower the learning rate, or look for values in this "
        f"batch that are not finite.{kept}"
    )
