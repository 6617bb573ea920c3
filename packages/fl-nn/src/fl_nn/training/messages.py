"""What the training loop says of what it cannot train with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_nn.errors import CheckpointError, TrainingError
from fl_nn.settings import COUNT, WHOLE


def fields(batch: Any) -> tuple[Any, ...]:
    """A batch as (input, ..., target). Raises TrainingError for anything else."""
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise TrainingError(
            f"[Trainer] a batch is a tuple (input, ..., target), got {type(batch).__name__}; "
            "Transform turns samples into that form"
        )
    return tuple(batch)


def scalar(loss: Any) -> Any:
    """A loss that is one number. Raises TrainingError for anything else."""
    if loss.shape != ():
        raise TrainingError(
            f"[Trainer] the loss has shape {loss.shape}: reduce it to the mean of the batch"
        )
    return loss


def check_settings(accumulate: object, checkpoint_every: object, log_every: object) -> None:
    """Raise TrainingError unless these are numbers of batches and steps."""
    for name, value, kind in (
        ("accumulate", accumulate, COUNT),
        ("checkpoint_every", 1 if checkpoint_every is None else checkpoint_every, COUNT),
        ("log_every", log_every, WHOLE),
    ):
        if not kind.fits(value):
            raise TrainingError(f"[Trainer] {name}={value!r}: give {kind.words}")


def check_length(length: int, everyone: Sequence[int], expected: int | None) -> None:
    """Raise unless all ranks have as many batches per epoch, at least one, and as many as when the
    run began (CheckpointError)."""
    if len(set(everyone)) > 1:
        raise TrainingError(
            f"[Trainer] the ranks have {list(everyone)} batches: all need as many. Share each "
            "batch, Batch(ds, size, rank=rank, world_size=world_size), not the dataset"
        )
    if not length:
        raise TrainingError("[Trainer] there are no training batches")
    if expected not in (None, length):
        raise CheckpointError(
            f"[Trainer] the run began with {expected} batches per epoch, now there are {length}: "
            "use the same data and batch size"
        )
