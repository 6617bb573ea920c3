"""Error messages of the training loop."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import fl_dist as dist
from fl_nn.errors import CheckpointError, TrainingError, TrainingWarning
from fl_nn.meters import Meter
from fl_nn.module import Module
from fl_nn.optim import Optimizer
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


def check_parts(
    model: object, optimizer: object, loss: object, communicator: dist.Communicator | None
) -> None:
    """Raise TrainingError unless these are a model, an optimizer that trains it or a loss with
    parameters, what computes a loss, and ranks that have the same weights."""
    if not isinstance(model, Module):
        raise TrainingError(f"[Trainer] model is a {type(model).__name__}: give a Module")
    if not isinstance(optimizer, Optimizer):
        raise TrainingError(
            f"[Trainer] optimizer is a {type(optimizer).__name__}: give an Optimizer"
        )
    if not callable(loss):
        raise TrainingError(f"[Trainer] loss is a {type(loss).__name__}: give loss(output, target)")
    check_not_sharded("Trainer", optimizer)
    trained = {id(parameter) for parameter in optimizer.parameters}
    parts = [part for part in (model, loss) if isinstance(part, Module)]
    if not any(id(parameter) in trained for part in parts for parameter in part.parameters()):
        raise TrainingError(
            f"[Trainer] the optimizer holds {len(trained)} parameters, and none of them is one of "
            f"this {type(model).__name__}: build it over model.parameters() of the model that the "
            "Trainer gets"
        )
    _check_shares(model, communicator)


def check_not_sharded(where: str, optimizer: Optimizer) -> None:
    """Raise TrainingError for an optimizer that has shares in place of the model's parameters."""
    if optimizer.sharded:
        raise TrainingError(
            f"[{where}] {type(optimizer).__name__} holds shares of the parameters: Sharded "
            "averages gradients and makes steps itself, in a loop of yours. For a learning rate "
            "call find_lr before Sharded, with a Trainer over the whole model: sharding changes no "
            "update. Where it does not fit, cut its layers over ranks (ColumnParallelLinear)"
        )


def _check_shares(model: Module, communicator: dist.Communicator | None) -> None:
    """Raise TrainingError where ranks that are to have the same weights have shares of them."""
    if communicator is None or communicator.world_size == 1:
        return
    for name, parameter in model.named_parameters():
        if getattr(parameter, "comm", None) is communicator:  # a ShardedParameter
            raise TrainingError(
                f"[Trainer] {name} is cut over the ranks of the Trainer's communicator, which give "
                "each other whole weights: give the Trainer the ranks that have equal shares, the "
                "data axis of a mesh, or none where there is no such axis"
            )


def check_meters(meters: Mapping[str, Any]) -> None:
    """Raise TrainingError unless all are meters."""
    for name, meter in meters.items():
        if isinstance(meter, Meter):
            continue
        if isinstance(meter, type) and issubclass(meter, Meter):
            what = f"the class {meter.__name__}: give a meter, {meter.__name__}()"
        else:
            what = (
                f"a {type(meter).__name__}: give a Meter, such as nn.MSEMeter(), or an object of a "
                "class of yours that derives from nn.Meter and has add(output, target)"
            )
        raise TrainingError(f"[Trainer] meters[{name!r}] is {what}")


def check_epochs(epochs: Any, done: int) -> None:
    """Raise TrainingError unless `epochs` is a number of epochs; TrainingWarning if all of them are
    among those done."""
    if not WHOLE.fits(epochs):
        raise TrainingError(f"[Trainer] fit(epochs={epochs!r}): give {WHOLE.words}")
    if 0 < epochs <= done:
        warnings.warn(
            f"[Trainer] fit(epochs={epochs}) trains nothing: `epochs` counts all epochs of the "
            f"run, and {done} are done. For {epochs} more give epochs={done + epochs}",
            TrainingWarning,
            stacklevel=3,
        )


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
