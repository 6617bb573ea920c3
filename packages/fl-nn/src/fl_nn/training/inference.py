"""The evaluation loop shared by training and inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import fl_tensor as ft
from fl_data import Dataset, as_dataset
from fl_dist import Communicator
from fl_nn.errors import TrainingError
from fl_nn.evaluation import evaluating
from fl_nn.meters import Meter
from fl_nn.module import Module
from fl_nn.optim import EMA
from fl_nn.training.checks import fields


@contextmanager
def inference(
    model: Module, ema: EMA | None, casting: AbstractContextManager[Any]
) -> Iterator[None]:
    """`model` in evaluation mode, without gradients, in its precision, with averaged weights; with
    the same bits whatever was computed before, as in training."""
    averages = nullcontext() if ema is None else ema.applied()
    with ft.reproducible(), evaluating(model), averages, casting:
        yield


def fixed_epoch_dataset(batches: object) -> Dataset:
    """A dataset whose samples are the same in every pass."""
    ds = as_dataset(batches)
    ds.set_epoch(ds.epoch)
    return ds


def predicted(model: Module, batch: Any) -> Any:
    """What the model gives for a batch (input, ...)."""
    try:
        return model(*batch)
    except TypeError as error:
        if len(batch) < 2:
            raise
        raise TrainingError(
            f"[Trainer] predict: {type(model).__name__} cannot be called with the {len(batch)} "
            f"fields of a batch ({error}). Give batches of inputs alone; of (input, target) "
            "fl_data.Transform(batches, lambda batch: batch[:1]) keeps the input"
        ) from error


def measure(
    model: Module,
    loss: Callable[..., Any],
    batches: object,
    meters: Mapping[str, Meter],
    between: Callable[[], Any],
) -> dict[str, Meter]:
    """Meters like `meters`, with the loss and what else they see of batches (input, ..., target);
    `between` is called after each batch."""
    found = {name: meter.fresh() for name, meter in meters.items()}
    for batch in fixed_epoch_dataset(batches).iterate():
        *inputs, target = fields(batch)
        if len(target):
            output = model(*inputs)
            add(found, float(loss(output, target).item()), output, target)
        between()
    return found


def add(meters: Mapping[str, Any], loss: float, output: Any, target: Any) -> None:
    """Give the meters one batch."""
    for name, meter in meters.items():
        if name == "loss":
            meter.add(loss, len(target))
        else:
            meter.add(output, target)


def results(meters: Mapping[str, Meter], communicator: Communicator) -> dict[str, float]:
    """The figures of meters over all ranks; the meters themselves stay those of this rank."""
    found = {}
    for name, meter in meters.items():
        whole = meter.fresh()
        whole.merge(meter.state())
        whole.sync(communicator)
        found[name] = whole.result()
    return found
