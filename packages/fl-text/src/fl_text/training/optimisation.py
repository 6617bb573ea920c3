"""The optimizer of a recipe, its learning rates, and the limits of a training."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_dist import Communicator
from fl_text.recipe import Recipe

CLASSES: dict[str, type[nn.Optimizer]] = {
    "adamw": nn.AdamW,
    "adam": nn.Adam,
    "sgd": nn.SGD,
    "nag": nn.NAG,
    "lamb": nn.LAMB,
    "lion": nn.Lion,
    "adafactor": nn.Adafactor,
    "adagrad": nn.Adagrad,
    "novograd": nn.Novograd,
}


def make_optimizer(recipe: Recipe, network: nn.Module) -> nn.Optimizer:
    """One over the parameters that are trained. Weights of two axes and more decay, gains and
    biases do not."""
    wanted = [p for p in network.parameters() if p.requires_grad]
    matrices = [p for p in wanted if p.ndim > 1]
    vectors = [p for p in wanted if p.ndim <= 1]
    groups = [
        {"params": params, "weight_decay": decay}
        for params, decay in ((matrices, recipe.weight_decay), (vectors, 0.0))
        if params
    ]
    more: dict[str, Any] = {}
    if recipe.optimizer in ("sgd", "nag"):
        more["momentum"] = recipe.momentum
    elif recipe.optimizer in ("adamw", "adam"):
        more["betas"] = (0.9, recipe.beta2)
    return CLASSES[recipe.optimizer](groups, lr=recipe.lr, **more)


class Limits(nn.Callback):
    """Ends a training after its updates or its minutes, and knows which share of it is done.

    Minutes are those of rank 0 since the beginning, validations included, interruptions left out.
    """

    def __init__(self, recipe: Recipe, batches: int, communicator: Communicator) -> None:
        self.recipe, self.communicator = recipe, communicator
        #: Updates of an epoch.
        self.steps = -(-batches // recipe.accumulate)
        self.seconds = 0.0
        self._before, self._began = 0.0, time.monotonic()

    @property
    def epochs(self) -> int:
        """For `Trainer.fit`: all epochs that the limits may need."""
        if self.recipe.epoch_limit:
            return self.recipe.epoch_limit
        return -(-self.recipe.updates // self.steps) if self.recipe.updates else 1_000_000

    def share(self, step: int) -> float:
        """Which share of the training is done after `step` updates, 0 to 1."""
        r = self.recipe
        shares = [0.0]
        if r.epoch_limit:
            shares.append(step / (r.epoch_limit * self.steps))
        if r.updates:
            shares.append(step / r.updates)
        if r.minutes:
            shares.append(self.seconds / (60.0 * r.minutes))
        return min(1.0, max(shares))

    def on_fit_start(self, trainer: nn.Trainer) -> None:
        self._before, self._began = self.seconds, time.monotonic()
        self._end(trainer)

    def on_step(self, trainer: nn.Trainer) -> None:
        self.measure()
        self._end(trainer)

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        self.measure()
        self._end(trainer)

    def measure(self) -> None:
        """Look at the clock of rank 0."""
        if not self.recipe.minutes:
            return  # nothing that is trained then depends on time
        self.seconds = self._before + time.monotonic() - self._began
        if self.communicator.world_size > 1:
            told = self.communicator.broadcast(ft.asarray([self.seconds], ft.float64), 0)
            self.seconds = float(told[0].item())

    def _end(self, trainer: nn.Trainer) -> None:
        if self.recipe.updates and trainer.step >= self.recipe.updates:
            trainer.stop(f"{self.recipe.updates} updates are done")
        elif self.recipe.minutes and self.seconds >= 60.0 * self.recipe.minutes:
            trainer.stop(f"{self.recipe.minutes:g} minutes are over")

    def state_dict(self) -> dict[str, Any]:
        """Plain values: the seconds so far."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback."""
        seconds = state.get("seconds")
        if not isinstance(seconds, float) or not 0.0 <= seconds < math.inf:
            raise nn.StateDictError("this is not the state of a Limits")
        self.seconds = seconds


class Schedule(nn.LRScheduler):
    """The learning rates of a recipe: a function of the updates and of the share of the training
    that is done."""

    def __init__(self, optimizer: nn.Optimizer, recipe: Recipe, limits: Limits) -> None:
        self.recipe, self.limits = recipe, limits
        super().__init__(optimizer)

    def rate(self, step: int, base: float) -> float:
        epoch = step // self.limits.steps
        return base * factor(self.recipe, step, epoch, self.limits.share(step))


def factor(recipe: Recipe, step: int, epoch: int, share: float) -> float:
    """What the learning rate of update `step` in `epoch`, both from 0, is multiplied with, where
    `share` of the training is done.

    onecycle rises from 1/25 over 30 % of the training, then falls to 4e-6 (Smith & Topin, 2019).
    """
    if recipe.schedule == "onecycle":
        if share < 0.3:
            return _between(1 / 25, 1.0, share / 0.3)
        return _between(1.0, 4e-6, (share - 0.3) / 0.7)
    rise = 1.0
    if step < recipe.warmup:
        first = recipe.warmup_lr / recipe.lr
        rise = first + (1.0 - first) * (step + 1) / recipe.warmup
    if recipe.schedule == "cosine":
        return rise * _between(1.0, recipe.final_lr, share)
    if recipe.schedule == "inverse_sqrt":
        return rise * math.sqrt(max(1, recipe.warmup) / max(1, recipe.warmup, step + 1))
    if recipe.schedule == "step" and epoch >= recipe.step_start:
        return rise * recipe.gamma ** ((epoch - recipe.step_start) // recipe.step_epochs + 1)
    return rise


def _between(first: float, last: float, share: float) -> float:
    """From `first` to `last` along half a period of a cosine."""
    return last + (first - last) * 0.5 * (1.0 + math.cos(math.pi * share))
