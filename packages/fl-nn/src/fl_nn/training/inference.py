"""The evaluation loop shared by training and inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import fl_tensor as ft
from fl_data import Dataset, as_dataset
from fl_dist import Communicator
from fl_nn.meters import Meter
from fl_nn.modes import evaluating
from fl_nn.module import Module
from fl_nn.optim import EMA
from fl_nn.training.messages import fields


@contextmanager
def inference(
    model: Module, ema: EMA | None, casting: AbstractContextManager[Any]
) -> Iterator[None]:
    """`model` in evaluation mode, without gradients, in its precision, with averaged weights; with
    the same bits whatever was computed before, as in training."""
    averages = nullcontext() if ema is None else ema.applied()
    with ft.reproducible(), evaluating(model), averages, casting:
        yield


def unchanging(batches: object) -> Dataset:
    """A dataset whose samples are the same in every pass."""
    ds = as_dataset(batches)
    ds.set_epoch(ds.epoch)
    return ds


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
    for batch in unchanging(batches).iterate():
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
