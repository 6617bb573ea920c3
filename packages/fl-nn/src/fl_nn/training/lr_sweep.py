"""`find_lr`: a range test of learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import fl_dist as dist
import fl_tensor as ft
from fl_data import Dataset, as_dataset
from fl_nn import distributed
from fl_nn.checkpoint import generators_of
from fl_nn.errors import DivergenceError, TrainingError
from fl_nn.meters import AverageValueMeter
from fl_nn.module import Module
from fl_nn.settings import ABOVE_ZERO, COUNT, FRACTION
from fl_nn.smoothing import smoothed
from fl_nn.training.checks import check_length, check_not_sharded
from fl_nn.training.step import windows
from fl_nn.training.trainer import Trainer
from fl_tensor.annotations import checked

#: The share of all steps, on either side, that the slope of the loss is taken of.
_AROUND = 0.05


class LRSweep(NamedTuple):
    """What `find_lr` found. `fl_nn.plot.lr_sweep(sweep)` draws it.

    rates     the learning rates of the first parameter group, one for each step
    losses    the loss of each step, before its update
    smoothed  exponential means of them, without bias
    diverged  whether the sweep ended early, as the loss grew or was not finite
    """

    rates: list[float]
    losses: list[float]
    smoothed: list[float]
    diverged: bool

    @property
    def suggested(self) -> float:
        """The rate around which the loss falls fastest, before its mean is lowest; NaN where it
        does not fall. It is the slope of lines through the losses of `_AROUND` of all steps on
        either side, as the mean lags behind. A start: rates up to ten times smaller train, too."""
        count = len(self.rates)
        reach = max(round(_AROUND * count), 1)
        lowest = min(range(count), key=lambda i: self.smoothed[i], default=0)
        slopes = {
            i: math.fsum(k * (self.losses[i + k] - self.losses[i - k]) for k in range(1, reach + 1))
            for i in range(reach, min(lowest + 1, count - reach))
        }
        steepest = min(slopes, key=lambda i: slopes[i], default=0)
        return self.rates[steepest] if slopes.get(steepest, 0.0) < 0.0 else math.nan


@checked
def find_lr(
    trainer: Trainer,
    batches: object,
    *,
    lowest: float = 1e-7,
    highest: float = 10.0,
    steps: int = 100,
    smooth: float = 0.9,
    diverge: float = 4.0,
) -> LRSweep:
    """Train a few steps at rates that grow from `lowest` to `highest` exponentially, then put
    everything back. Smith, 2017, "Cyclical learning rates for training neural networks".

    batches   as for `trainer.fit`; gone through again when `steps` are more
    smooth    the weight of the past in the mean loss, 0 to below 1
    diverge   the sweep ends when the mean loss is so many times its lowest, or not finite

    Other parameter groups keep their ratio to the first. Steps are those of the trainer: precision,
    scaler, accumulation, ranks (all call this), and `before_step` of callbacks; its schedule rests.
    Afterwards weights, optimizer, scaler, random generators and counters are as before, also after
    an error: `fit` gives the same bits as without. Raises TrainingError for settings that make no
    sense, for parameters of `fl_nn.parallel.Sharded`, and where the first step already diverges
    (DivergenceError).
    """
    _check(lowest, highest, steps, smooth, diverge)
    check_not_sharded("find_lr", trainer.optimizer)
    ds = as_dataset(batches)
    check_length(len(ds), dist.all_gather_object(trainer.communicator, len(ds)), None)
    groups = trainer.optimizer.param_groups
    ratios = [group["lr"] / groups[0]["lr"] if groups[0]["lr"] else 1.0 for group in groups]
    growth = math.log(highest / lowest) / max(steps - 1, 1)
    found = LRSweep([], [], [], False)
    with ft.reproducible(), _restored(trainer):
        distributed.broadcast_model(trainer.communicator, trainer.model)
        trainer.model.train()
        for number, window in zip(range(steps), _windows(ds, trainer.accumulate)):
            rate = lowest * math.exp(growth * number)
            for group, ratio in zip(groups, ratios):
                group["lr"] = rate * ratio
            try:
                loss = trainer.train_step(*window)
            except DivergenceError:
                if not number:
                    raise
                return found._replace(diverged=True)
            if not math.isfinite(loss):
                return found._replace(diverged=True)
            found.rates.append(rate)
            found.losses.append(loss)
            found.smoothed[:] = smoothed(found.losses, smooth)
            least = min(found.smoothed)
            if found.smoothed[-1] > least + (diverge - 1.0) * abs(least):
                return found._replace(diverged=True)
    return found


def _windows(ds: Dataset, accumulate: int) -> Iterator[list[Any]]:
    """The batches of each step, pass after pass."""
    while True:
        with ds.iterate() as batches:
            yield from windows(batches, accumulate)


@contextmanager
def _restored(trainer: Trainer) -> Iterator[None]:
    """Everything that steps change is as before afterwards; schedule, averages and meters rest."""
    optimizer, scaler = trainer.optimizer, trainer.scaler
    modules = [part for part in (trainer.model, trainer.loss) if isinstance(part, Module)]
    keepers: list[Any] = [*modules, optimizer, *([] if scaler is None else [scaler])]
    states = [(keeper, keeper.state_dict()) for keeper in keepers]
    modes = [(module, module.training) for part in modules for module in part.modules()]
    generators = [one for part in modules for one in generators_of(part).values()]
    words = [(generator, generator.state()) for generator in generators]
    attributes = ("schedule", "ema", "meters", "figures", "last_loss", "step", "samples")
    before = {name: getattr(trainer, name) for name in attributes}
    scheduled = set(optimizer.scheduled)
    trainer.schedule = trainer.ema = None
    trainer.meters = {"loss": AverageValueMeter()}
    try:
        yield
    finally:
        optimizer.zero_grad()
        for keeper, state in states:
            keeper.load_state_dict(state)
        for module, mode in modes:
            module.training = mode
        for generator, state in words:
            generator.set_state(state)
        for name, value in before.items():
            setattr(trainer, name, value)
        optimizer.scheduled = scheduled


def _check(lowest: float, highest: float, steps: int, smooth: float, diverge: float) -> None:
    for name, value, kind in (
        ("lowest", lowest, ABOVE_ZERO),
        ("highest", highest, ABOVE_ZERO),
        ("steps", steps, COUNT),
        ("smooth", smooth, FRACTION),
        ("diverge", diverge, ABOVE_ZERO),
    ):
        if not kind.fits(value):
            raise TrainingError(f"[find_lr] {name}={value!r}: give {kind.words}")
    if highest <= lowest or diverge <= 1.0:
        raise TrainingError(
            f"[find_lr] lowest={lowest:g}, highest={highest:g}, diverge={diverge:g}: give a "
            "highest rate above the lowest, and diverge above 1"
        )
